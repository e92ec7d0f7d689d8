//! Publishes each event to NATS: to a JetStream stream, which confirms and deduplicates, or to core NATS.
//!
//! `protocol` knows bytes, `message` what an event becomes, `answer` what the server's words mean, and
//! `session` the order of things over one connection. All of them run without a host; `component` puts
//! them to work.

pub mod answer;
pub mod message;
pub mod protocol;
pub mod session;
pub mod settings;

#[cfg(target_arch = "wasm32")]
mod component;
