//! One suite, every store: a function per promise, run on the in-memory model and on each
//! database. `promises!` lists what holds everywhere; the other lists say where they hold.

#[macro_use]
mod promises;

mod fencing;
mod harness;
mod memory;
mod postgres;
mod scene;
mod sqlite;
