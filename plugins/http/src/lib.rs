//! Posts each event to a URL: as a signed webhook (Standard Webhooks 1.0), or as a CloudEvent (1.0).
//!
//! Everything that can be decided without the host is in modules that know neither bindings nor
//! clocks, and is tested natively; `component` and `transport` put them to work.

pub mod cloudevents;
pub mod message;
pub mod retry_after;
pub mod settings;
pub mod signing;
pub mod verdict;

#[cfg(target_arch = "wasm32")]
mod component;
#[cfg(target_arch = "wasm32")]
mod transport;
