//! The brokers' own processes: what the suite holds the plugins to is what the benchmark measures them with.

mod kafka;
mod plain;
mod rabbit;
mod server;

pub use kafka::{Kafka, PASSWORD};
pub use plain::{mosquitto, nats, redis};
pub use rabbit::Rabbit;
pub use server::{Server, free_port, print_version, program};
