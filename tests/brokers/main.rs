//! The broker plugins against the real servers, which the tests start on free ports with folders of
//! their own, and the brokers' own clients, which read back what arrived. `cargo xtask test` installs
//! both and builds the program and the plugins.

#[allow(dead_code, unused_macros, reason = "the end-to-end suite uses all of it")]
#[path = "../e2e/databases.rs"]
mod databases;
#[allow(dead_code, reason = "the end-to-end suite uses all of it")]
#[path = "../e2e/host.rs"]
mod host;

mod amqp;
mod bus;
mod conformance;
mod events;
mod kafka;
mod kafka_outages;
mod lossy;
mod mqtt;
mod nats;
mod proxy;
mod redis;
