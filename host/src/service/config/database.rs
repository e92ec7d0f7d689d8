//! `[sql.NAME]`: a database that destinations are granted by its name, and what one of them may use
//! of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::secret::UrlRef;
use super::units::{Bytes, Span};
use crate::plugin::spec;

/// A database a plugin may be granted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SqlDatabase {
    /// `sqlite:PATH` (relative to the config file), `postgres://…` or `mysql://…` (MariaDB too); a
    /// reference to a secret if it holds a password.
    pub url: UrlRef,
    /// The most connections of this host, for all destinations that are granted the database.
    #[serde(default = "SqlDatabase::default_pool")]
    pub pool: u32,
    /// What a transaction sees of others. SQLite's are serializable whatever this says.
    #[serde(default)]
    pub isolation: Isolation,
}

impl SqlDatabase {
    fn default_pool() -> u32 {
        10
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    #[default]
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// Bounds of a plugin's transactions; past any of them it is told, and the transaction is rolled back.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct SqlLimits {
    /// Of waiting for a connection of the pool and of making one.
    pub connect: Span,
    /// Of one statement, its waits for locks included.
    pub statement: Span,
    pub transaction: Span,
    /// Open transactions of one instance.
    pub transactions: u32,
    /// Rows of one result.
    pub rows: u32,
    /// The values of one result.
    pub result: Bytes,
}

impl Default for SqlLimits {
    fn default() -> Self {
        let sql = spec::SqlLimits::default();
        Self {
            connect: Span(sql.connect),
            statement: Span(sql.statement),
            transaction: Span(sql.transaction),
            transactions: sql.transactions,
            rows: sql.rows,
            result: Bytes(sql.result_bytes as u64),
        }
    }
}
