//! Adds each event to a Redis Stream, once: a script looks for the event's ID and adds the entry in one step.
//!
//! `protocol` knows bytes, `entry` what an event becomes, `answer` what Redis's words mean, and `session` the
//! order of things over one connection. All of them run without a host; `component` puts them to work.

pub mod answer;
pub mod entry;
pub mod protocol;
pub mod session;
pub mod settings;

#[cfg(target_arch = "wasm32")]
mod component;
