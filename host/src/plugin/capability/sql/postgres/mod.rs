//! PostgreSQL: its transactions, what cleans a session, and its errors told apart.

mod values;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Connection, PgConnection, Postgres, Row};

use self::values::{arguments, raw_bytes, typed, value};
use super::session::{After, Bounds, Failed, Gathered, Session, Terms, commit_failed, ended, no_answer};
use crate::plugin::bindings::sql::{Rows, SqlError, Value, Violation};
use crate::plugin::spec::SqlIsolation;

/// So much earlier than the server a living host ends a transaction at its deadline, and keeps the connection.
const HOST_FIRST_MS: u128 = 1_000;

/// What `discard all` does, except that the driver's prepared statements stay: a plugin's functions may
/// have set, locked or made what would outlive the transaction. The host's own settings never do.
const CLEAN: &str = "set session authorization default; reset all; close all; unlisten *; \
                     select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences";

pub struct PostgresSession {
    connection: PgConnection,
}

pub async fn connect(options: &PgConnectOptions) -> Result<PostgresSession, Failed> {
    Ok(PostgresSession { connection: options.connect().await.map_err(failed)? })
}

impl PostgresSession {
    async fn run(&mut self, sql: String) -> Result<(), Failed> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.map(drop).map_err(failed)
    }

    /// In one round trip with what cleans the session, so that a pooler in between hands both to the same.
    async fn end(&mut self, word: &str) -> Result<After, Failed> {
        let end = sqlx::raw_sql(AssertSqlSafe(format!("{word}; {CLEAN}")));
        ended::<Postgres>(end.fetch_many(&mut self.connection), failed).await
    }
}

#[async_trait]
impl Session for PostgresSession {
    async fn begin(&mut self, terms: &Terms) -> Result<(), Failed> {
        let (statement, transaction) = (terms.statement.as_millis(), terms.transaction.as_millis());
        let isolation = match terms.isolation {
            SqlIsolation::ReadCommitted => "read committed",
            SqlIsolation::RepeatableRead => "repeatable read",
            SqlIsolation::Serializable => "serializable",
        };
        // Set for the transaction only, so that a pooler in between may hand it to any session. The last
        // lets the server end the transaction of a host that is gone, and leaves it to one that is not.
        self.run(format!(
            "begin isolation level {isolation}; set local statement_timeout = {statement}; \
             set local lock_timeout = {statement}; set local time zone 'UTC'; \
             set local idle_in_transaction_session_timeout = {}",
            transaction + HOST_FIRST_MS
        ))
        .await
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<u64, Failed> {
        let query = sqlx::query_with(AssertSqlSafe(typed(statement, parameters)), arguments(parameters)?);
        query.execute(&mut self.connection).await.map(|done| done.rows_affected()).map_err(failed)
    }

    async fn query(&mut self, statement: &str, parameters: &[Value], bounds: Bounds) -> Result<Rows, Failed> {
        let query = sqlx::query_with(AssertSqlSafe(typed(statement, parameters)), arguments(parameters)?);
        let mut rows = query.fetch(&mut self.connection);
        let mut gathered = Gathered::new(bounds);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            if gathered.rows.columns.is_empty() {
                gathered.rows.columns = row.columns().iter().map(|column| column.name().to_owned()).collect();
            }
            gathered.fits(raw_bytes(&row))?;
            gathered.add((0..row.len()).map(|index| value(&row, index)).collect::<Result<_, _>>()?)?;
        }
        Ok(gathered.rows)
    }

    async fn commit(&mut self) -> Result<After, Failed> {
        // A server that refuses a commit has rolled back, as for a constraint that is checked only then.
        self.end("commit")
            .await
            .map_err(|failed| if failed.is_clean { failed } else { commit_failed(failed) })
    }

    async fn rollback(&mut self) -> Result<After, Failed> {
        self.end("rollback").await
    }

    async fn is_alive(&mut self) -> bool {
        self.connection.ping().await.is_ok()
    }

    async fn version(&mut self) -> Result<String, Failed> {
        let version: String = sqlx::query_scalar("show server_version")
            .fetch_one(&mut self.connection)
            .await
            .map_err(failed)?;
        Ok(format!("PostgreSQL {version}"))
    }

    async fn close(self: Box<Self>) {
        let _ = self.connection.close().await;
    }
}

fn failed(error: sqlx::Error) -> Failed {
    let sqlx::Error::Database(database) = &error else { return no_answer(&error) };
    let code = database.code().unwrap_or_default().into_owned();
    let constraint = database.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::constraint);
    classify(&code, constraint.unwrap_or_default(), format!("{} (SQLSTATE {code})", database.message()))
}

/// By SQLSTATE, whose first two characters are its class.
fn classify(code: &str, constraint: &str, message: String) -> Failed {
    let class = code.get(..2).unwrap_or_default();
    Failed::clean(match (code, class) {
        ("23505", _) => SqlError::UniqueViolation(Violation { constraint: constraint.to_owned(), message }),
        (_, "23") => SqlError::Constraint(message),
        // What binary parameters do not fit is a type of the statement's, not of the data's.
        ("22P03", _) => SqlError::Syntax(message),
        // Fewer parameters than the statement has; the driver still waits for more than an error.
        ("08P01", _) => return Failed::broken(SqlError::Syntax(message)),
        (_, "22") => SqlError::Data(message),
        ("40001", _) => SqlError::Serialization(message),
        ("40P01", _) => SqlError::Deadlock(message),
        ("57014" | "55P03", _) => SqlError::Timeout(message),
        // The server has closed the connection, or is about to.
        ("25P03" | "25P04", _) => return Failed::broken(SqlError::Timeout(message)),
        (_, "28") | ("3D000", _) => return Failed::broken(SqlError::Denied(message)),
        ("42501", _) => SqlError::Denied(message),
        ("25006", _) | (_, "08" | "53" | "57" | "58") => {
            return Failed::broken(SqlError::Unavailable(message));
        }
        // A plan that was made before a table was changed; a new connection has none.
        ("0A000", _) if message.contains("cached plan") => {
            return Failed::broken(SqlError::Serialization(message));
        }
        ("26000" | "42P05", _) => return Failed::broken(SqlError::Serialization(message)),
        // A value of another type than its column's.
        ("42804" | "42846", _) => SqlError::Data(message),
        (_, "42" | "0A" | "3F") => SqlError::Syntax(message),
        // What the database's own functions and triggers raise.
        (_, "P0") => SqlError::Other(message),
        _ => return Failed::broken(SqlError::Other(message)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_postgresql_are_told_apart() {
        let kind = |code: &str| {
            let text = format!("{:?}", classify(code, "ledger_pkey", String::new()).error);
            text.trim_start_matches("SqlError::").split('(').next().unwrap_or_default().to_owned()
        };
        for (code, expected) in [
            ("23505", "UniqueViolation"),
            ("23514", "Constraint"),
            ("22001", "Data"),
            ("40001", "Serialization"),
            ("40P01", "Deadlock"),
            ("57014", "Timeout"),
            ("57P01", "Unavailable"),
            ("53300", "Unavailable"),
            ("28P01", "Denied"),
            ("3D000", "Denied"),
            ("42501", "Denied"),
            ("42P01", "Syntax"),
            ("XX000", "Other"),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }
}
