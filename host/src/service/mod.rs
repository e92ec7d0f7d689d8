//! The host as an operator sees it: config, health, metrics, start and shutdown.

pub mod board;
pub mod check;
pub mod config;
pub mod host;
pub mod identity;
pub mod mapping;
pub mod metrics;
pub mod plugins;
pub mod reach;
mod reread;
pub mod server;
mod signals;
pub mod stores;
pub mod telemetry;
