//! Loads the `.sql` files: puts in the schema prefix and the database's clock.
//!
//! A statement names its clock by one of two placeholders, so that the conformance suite can put a
//! one-row table in its place and say 100, 119 and 120:
//!
//! - `{statement_now}`: when the statement began; usable as an index condition. For claims.
//! - `{now}`: this very moment. For what ends or extends a lease.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// What the placeholders of a database's statements stand for.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    /// Empty, or a quoted schema with its dot.
    pub schema: String,
    pub statement_now: String,
    pub now: String,
}

impl Dialect {
    /// The statement as text, for printing and for several statements at once.
    pub fn text(&self, file: &str) -> String {
        file.replace("{schema}", &self.schema)
            .replace("{statement_now}", &self.statement_now)
            .replace("{now}", &self.now)
    }

    /// The statement, cheap to clone. Safe as SQL: nothing but our own files, the operator's
    /// schema name (quoted) and the clock is in it.
    pub fn statement(&self, file: &str) -> SqlStr {
        AssertSqlSafe(Arc::<str>::from(self.text(file))).into_sql_str()
    }
}
