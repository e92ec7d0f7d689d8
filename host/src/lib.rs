//! Outhaul: a WebAssembly-plugin delivery host for transactional outboxes.
//!
//! `cli → service → relay → {store::Store, plugin::Deliver} → domain`; see `host/ARCHITECTURE.md`.

pub mod cli;
pub mod clock;
pub mod domain;
pub mod kit;
pub mod plugin;
pub mod relay;
pub mod service;
pub mod store;
