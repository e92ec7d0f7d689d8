//! The host as an operator sees it: config, health, metrics, start and shutdown.

pub mod board;
pub mod canary;
pub mod check;
pub mod config;
pub mod host;
pub mod identity;
pub mod inventory;
pub mod mapping;
pub mod metrics;
pub mod plugins;
pub mod reach;
pub mod reload;
pub mod server;
mod signals;
pub mod stores;
pub mod telemetry;
