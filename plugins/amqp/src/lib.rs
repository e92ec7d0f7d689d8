//! AMQP 0-9-1 with RabbitMQ's publisher confirms: an event becomes a message that an exchange routes, and
//! is delivered once the broker has confirmed it.

pub mod answer;
pub mod login;
pub mod message;
pub mod method;
pub mod session;
pub mod settings;
pub mod wire;

#[cfg(target_family = "wasm")]
mod component;
