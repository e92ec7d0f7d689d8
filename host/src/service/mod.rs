//! The host as an operator sees it: config, health, metrics, start and shutdown.

pub mod config;
