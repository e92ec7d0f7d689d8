//! PostgreSQL: its transactions, what cleans a session, and its errors told apart.

mod values;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Connection, PgConnection, Postgres, Row};

use self::values::{arguments, raw_bytes, typed, value};
use super::session::{
    After, Bounds, Failed, Gathered, Session, Terms, Work, commit_failed, ended, no_answer,
};
use crate::plugin::bindings::sql::{Rows, SqlError, Value, Violation};
use crate::plugin::spec::SqlIsolation;

/// So much earlier than the server a living host ends a transaction at its deadline, and keeps the connection.
const HOST_FIRST_MS: u128 = 1_000;

/// What `discard all` does, except that the driver's prepared statements stay: a plugin's functions may
/// have set, locked or made what would outlive the transaction. The host's own settings never do.
const CLEAN: &str = "set session authorization default; reset all; close all; unlisten *; \
                     select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences";

/// How often a server looks, in the middle of a statement, whether its host is still there.
const LOOK_FOR_HOST: &str = "select pg_catalog.set_config('client_connection_check_interval', '2000', true)";

/// Which transaction this is, among those that a server shows.
const WORK: &str =
    "select pg_catalog.pg_backend_pid(), (extract(epoch from pg_catalog.now()) * 1000000)::bigint";
const END_WORK: &str = "select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity \
                        where pid = $1 and (state = 'disabled' \
                        or (extract(epoch from xact_start) * 1000000)::bigint = $2)";

pub struct PostgresSession {
    connection: PgConnection,
    /// From PostgreSQL 14 on, and not on every system.
    looks_for_host: bool,
    work: Option<Work>,
}

pub async fn connect(options: &PgConnectOptions) -> Result<PostgresSession, Failed> {
    let mut connection = options.connect().await.map_err(failed)?;
    let is_known = connection.server_version_num().is_some_and(|version| version >= 140_000);
    let looks_for_host = is_known && sqlx::raw_sql(LOOK_FOR_HOST).execute(&mut connection).await.is_ok();
    Ok(PostgresSession { connection, looks_for_host, work: None })
}

impl PostgresSession {
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
        let look_for_host = if self.looks_for_host { LOOK_FOR_HOST } else { "select null" };
        let begin = sqlx::raw_sql(AssertSqlSafe(format!(
            "begin isolation level {isolation}; set local statement_timeout = {statement}; \
             set local lock_timeout = {statement}; set local time zone 'UTC'; \
             set local idle_in_transaction_session_timeout = {}; {look_for_host}; {WORK}",
            transaction + HOST_FIRST_MS
        )));
        self.work = None;
        let answers = begin.fetch_all(&mut self.connection).await.map_err(failed)?;
        let work = answers.last().ok_or(sqlx::Error::RowNotFound).map_err(failed)?;
        self.work = Some(Work::Postgres {
            process: work.try_get(0).map_err(failed)?,
            begun_us: work.try_get(1).map_err(failed)?,
        });
        Ok(())
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

    fn work(&self) -> Option<Work> {
        self.work
    }

    async fn end_other(&mut self, work: Work) -> Result<(), Failed> {
        let Work::Postgres { process, begun_us } = work else { return Ok(()) };
        let end = sqlx::query(END_WORK).bind(process).bind(begun_us);
        end.fetch_optional(&mut self.connection).await.map(drop).map_err(failed)
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
