//! What the suites share: databases of their own, receivers, host processes.

pub mod alone;
pub mod budget;
pub mod clients;
pub mod clock;
pub mod components;
pub mod databases;
pub mod fixtures;
pub mod forward;
pub mod guests;
pub mod harness;
pub mod http;
pub mod mariadb;
pub mod postgres;
pub mod receiver;
pub mod registry;
pub mod servers;
pub mod tcp;
pub mod tls;
pub mod verifiers;
