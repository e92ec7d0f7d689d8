//! Posts each event to a URL: as a signed webhook (Standard Webhooks 1.0), or as a CloudEvent (1.0).
//!
//! Everything that can be decided without the host is in modules that call neither it nor a clock, and
//! is tested natively; `component` puts them to work.

pub mod message;
pub mod settings;
pub mod signing;

pub use ::cloudevents;

#[cfg(target_arch = "wasm32")]
mod component;
