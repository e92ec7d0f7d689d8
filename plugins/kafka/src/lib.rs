//! Apache Kafka's own protocol: an event becomes a record of the partition its key chooses, and is
//! delivered once the partition's leader and all its in-sync replicas have it.

pub mod answer;
pub mod login;
pub mod partition;
pub mod peer;
pub mod protocol;
pub mod record;
pub mod session;
pub mod settings;

#[cfg(target_family = "wasm")]
mod component;
