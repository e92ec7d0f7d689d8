//! MySQL and MariaDB, told apart by the version they give.

mod values;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Connection, MySql, MySqlConnection, Row};

use self::values::{arguments, raw_bytes, value};
use super::session::{
    After, Bounds, Failed, Gathered, Session, Terms, Work, commit_failed, ended, no_answer,
};
use super::traces;
use crate::plugin::bindings::sql::{Rows, SqlError, Value, Violation};
use crate::plugin::spec::SqlIsolation;

pub struct MySqlSession {
    connection: MySqlConnection,
    is_mariadb: bool,
    version: String,
    /// As it was made: a trigger may change it.
    sql_mode: String,
    id: u64,
    /// A statement may have left what nothing but the connection's end clears.
    is_spent: bool,
}

pub async fn connect(options: &MySqlConnectOptions) -> Result<MySqlSession, Failed> {
    let mut connection = options.connect().await.map_err(failed)?;
    // A value that does not fit is refused and never cut.
    sqlx::raw_sql("set session sql_mode = concat(@@sql_mode, ',STRICT_TRANS_TABLES')")
        .execute(&mut connection)
        .await
        .map_err(failed)?;
    let (version, sql_mode, id): (String, String, u64) =
        sqlx::query_as("select version(), @@session.sql_mode, cast(connection_id() as unsigned)")
            .fetch_one(&mut connection)
            .await
            .map_err(failed)?;
    let is_mariadb = version.contains("MariaDB");
    Ok(MySqlSession { connection, is_mariadb, version, sql_mode, id, is_spent: false })
}

impl MySqlSession {
    async fn run(&mut self, sql: String) -> Result<(), Failed> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.map(drop).map_err(failed)
    }

    /// Locks by name are let go in the same round trip. There is no statement that clears the rest.
    async fn end(&mut self, word: &str) -> Result<After, Failed> {
        let end = sqlx::raw_sql(AssertSqlSafe(format!("{word}; do release_all_locks()")));
        let after = ended::<MySql>(end.fetch_many(&mut self.connection), failed).await?;
        Ok(if self.is_spent { After::Spent } else { after })
    }
}

#[async_trait]
impl Session for MySqlSession {
    async fn begin(&mut self, terms: &Terms) -> Result<(), Failed> {
        let isolation = match terms.isolation {
            SqlIsolation::ReadCommitted => "read committed",
            SqlIsolation::RepeatableRead => "repeatable read",
            SqlIsolation::Serializable => "serializable",
        };
        let statement = terms.statement;
        // MySQL's own bounds only what reads; a wait for a lock it bounds in whole seconds.
        let of_statements = match self.is_mariadb {
            true => format!("max_statement_time = {:.3}", statement.as_secs_f64()),
            false => format!("max_execution_time = {}", statement.as_millis()),
        };
        let (locks, idle) = (statement.as_secs().max(1), terms.transaction.as_secs() + 1);
        let of_idle = match self.is_mariadb {
            true => format!(", idle_transaction_timeout = {idle}"),
            false => String::new(),
        };
        self.run(format!(
            "set session {of_statements}, innodb_lock_wait_timeout = {locks}{of_idle}, sql_mode = '{}', \
             time_zone = '+00:00', foreign_key_checks = default, unique_checks = default; \
             set transaction isolation level {isolation}; start transaction",
            self.sql_mode
        ))
        .await
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<u64, Failed> {
        self.is_spent |= !traces::leaves_none(statement);
        let query = sqlx::query_with(AssertSqlSafe(statement.to_owned()), arguments(parameters)?);
        query.execute(&mut self.connection).await.map(|done| done.rows_affected()).map_err(failed)
    }

    async fn query(&mut self, statement: &str, parameters: &[Value], bounds: Bounds) -> Result<Rows, Failed> {
        self.is_spent |= !traces::leaves_none(statement);
        let query = sqlx::query_with(AssertSqlSafe(statement.to_owned()), arguments(parameters)?);
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
        self.end("commit").await.map_err(commit_failed)
    }

    async fn rollback(&mut self) -> Result<After, Failed> {
        self.end("rollback").await
    }

    async fn is_alive(&mut self) -> bool {
        self.connection.ping().await.is_ok()
    }

    async fn version(&mut self) -> Result<String, Failed> {
        Ok(match self.is_mariadb {
            true => format!("MariaDB {}", self.version),
            false => format!("MySQL {}", self.version),
        })
    }

    fn work(&self) -> Option<Work> {
        Some(Work::MySql { connection: self.id })
    }

    async fn end_other(&mut self, work: Work) -> Result<(), Failed> {
        let Work::MySql { connection } = work else { return Ok(()) };
        match self.run(format!("kill {connection}")).await {
            Err(failed) if !failed.is_clean => Err(failed),
            // It has ended by itself, and then the server knows no such connection.
            _ => Ok(()),
        }
    }

    async fn close(self: Box<Self>) {
        let _ = self.connection.close().await;
    }
}

fn failed(error: sqlx::Error) -> Failed {
    let sqlx::Error::Database(database) = &error else { return no_answer(&error) };
    let number = database.try_downcast_ref::<MySqlDatabaseError>().map_or(0, MySqlDatabaseError::number);
    let state = database.code().unwrap_or_default().into_owned();
    classify(number, &state, format!("{} (error {number})", database.message()))
}

fn classify(number: u16, state: &str, message: String) -> Failed {
    let class = state.get(..2).unwrap_or_default();
    Failed::clean(match number {
        1022 | 1062 | 1169 | 1586 | 1859 => {
            SqlError::UniqueViolation(Violation { constraint: key_of(&message).to_owned(), message })
        }
        // MariaDB's word for a CHECK.
        4025 if class == "23" => SqlError::Constraint(message),
        3819 | 1364 => SqlError::Constraint(message),
        1213 => SqlError::Deadlock(message),
        // Record has changed since last read: MariaDB's snapshots.
        1020 => SqlError::Serialization(message),
        // A lock's time, MariaDB's and MySQL's of statements, MariaDB's of idle transactions.
        1205 | 1969 | 3024 => SqlError::Timeout(message),
        4031 => return Failed::broken(SqlError::Timeout(message)),
        1044 | 1045 | 1049 | 1698 | 1862 => return Failed::broken(SqlError::Denied(message)),
        1142 | 1143 | 1227 | 1370 => SqlError::Denied(message),
        // Shutting down, too many connections, killed, full, read-only.
        1021
        | 1037..=1041
        | 1053
        | 1077..=1080
        | 1114
        | 1129
        | 1130
        | 1152..=1161
        | 1184
        | 1203
        | 1226
        | 1290
        | 1317
        | 1792
        | 1836
        | 1927
        | 3169 => return Failed::broken(SqlError::Unavailable(message)),
        1265 | 1292 | 1366 | 1411 | 1264 | 1406 | 1690 | 3140 => SqlError::Data(message),
        _ => match class {
            "22" => SqlError::Data(message),
            "23" => SqlError::Constraint(message),
            "40" => SqlError::Serialization(message),
            "42" | "21" => SqlError::Syntax(message),
            "08" => return Failed::broken(SqlError::Unavailable(message)),
            _ => return Failed::broken(SqlError::Other(message)),
        },
    })
}

/// `Duplicate entry 'a' for key 'PRIMARY'`.
fn key_of(message: &str) -> &str {
    let after = message.rsplit_once(" for key '").map_or("", |(_, after)| after);
    after.rsplit_once('\'').map_or("", |(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_mysql_are_told_apart() {
        let kind = |number: u16, state: &str| {
            let text = format!("{:?}", classify(number, state, String::new()).error);
            text.trim_start_matches("SqlError::").split('(').next().unwrap_or_default().to_owned()
        };
        for (number, state, expected) in [
            (1062, "23000", "UniqueViolation"),
            (1048, "23000", "Constraint"),
            (4025, "23000", "Constraint"),
            (1406, "22001", "Data"),
            (1213, "40001", "Deadlock"),
            (1020, "HY000", "Serialization"),
            (1205, "HY000", "Timeout"),
            (1969, "70100", "Timeout"),
            (1045, "28000", "Denied"),
            (1142, "42000", "Denied"),
            (1040, "08004", "Unavailable"),
            (1146, "42S02", "Syntax"),
        ] {
            assert_eq!(kind(number, state), expected, "{number}");
        }
    }

    #[test]
    fn a_violation_names_the_key() {
        let message = "Duplicate entry 'it's for key 'x'' for key 'stock_ledger.PRIMARY' (error 1062)";
        assert_eq!(key_of(message), "stock_ledger.PRIMARY");
        assert_eq!(key_of("Duplicate entry"), "");
    }
}
