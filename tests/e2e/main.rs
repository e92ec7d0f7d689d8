//! The real program from outside: a database, a config file, host processes, and what arrives.
//! `cargo xtask test` builds the program and the plugins first.

#[macro_use]
mod databases;
mod canary;
mod exports;
mod faults;
mod first_event;
mod halves;
mod host;
mod isolation;
mod killed;
mod ledger;
mod ledger_stream;
mod looked_at;
mod pulled;
mod receiver;
mod refused;
mod reload;
mod replay;
mod reroute;
mod shutdown;
mod swap;
mod tool;
mod two_hosts;
mod verified;
