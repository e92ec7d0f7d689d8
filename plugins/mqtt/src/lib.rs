//! Publishes each event by MQTT 5 or 3.1.1, with QoS 1 or 2.
//!
//! `protocol` knows bytes, `message` what an event becomes, `answer` what the broker's reason codes mean, and
//! `session` the order of things over one connection. All of them run without a host; `component` puts
//! them to work.

pub mod answer;
pub mod message;
pub mod protocol;
pub mod session;
pub mod settings;

#[cfg(target_arch = "wasm32")]
mod component;
