//! What a promise needs of a database under test.

use std::sync::Arc;

use async_trait::async_trait;
use outhaul::domain::Timestamp;
use outhaul::store::{NewEvent, Operate, Schema, Store};

/// All three sides of a store.
pub trait AnyStore: Store + Operate + Schema {}

impl<T: Store + Operate + Schema> AnyStore for T {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

pub const ISOLATIONS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

/// A fresh, migrated database of the test's own, whose clock stands where the test sets it.
#[async_trait]
pub trait Database: Send + Sync {
    fn store(&self) -> Arc<dyn AnyStore>;

    /// The store of another host process on the same database.
    async fn second_store(&self) -> Arc<dyn AnyStore>;

    async fn set_now(&self, now: Timestamp);

    /// A producer's transaction, on a connection of its own. It knows only the table.
    async fn begin(&self, isolation: Isolation) -> Box<dyn Producer>;
}

#[async_trait]
pub trait Producer: Send {
    async fn insert(&mut self, event: &NewEvent) -> Result<(), String>;

    /// Inserts while the routing trigger is switched off.
    async fn insert_without_routing(&mut self, event: &NewEvent) -> Result<(), String>;

    async fn commit(self: Box<Self>) -> Result<(), String>;

    async fn rollback(self: Box<Self>);
}

/// A database that is reached by SQL text.
#[async_trait]
pub trait SqlDatabase: Database {
    /// Runs one statement in a transaction of its own; the rows it changed, or the database's error.
    async fn execute(&self, sql: &str) -> Result<u64, String>;

    /// A literal of this text as the payload's type.
    fn bytes_literal(&self, text: &str) -> String;
}
