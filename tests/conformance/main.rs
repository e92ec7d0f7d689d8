//! One suite, every store: a function per promise, run on the in-memory model and on each
//! database. `promises!` lists what holds everywhere; the other lists say where they hold.

#[macro_use]
mod promises;

mod due;
mod fencing;
mod guards;
mod harness;
mod keys;
mod lanes;
mod memory;
mod operate;
mod postgres;
mod producers;
mod routing;
mod scene;
mod sqlite;
mod sqlite_only;
mod sqlite_text;
