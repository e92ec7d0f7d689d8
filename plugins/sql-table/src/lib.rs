//! Writes events to any table, once each: the ledger's row and the change are one transaction. Rules in the
//! settings say which topics insert, update, upsert or delete, and which column gets what.

mod component;
mod settings;
mod statement;
mod value;
