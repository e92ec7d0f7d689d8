//! Takes stock out of a table, or puts it there, once for each event: the ledger's row and the change are one
//! transaction.

mod component;
mod movement;
mod settings;
mod stock;
