//! SQLite: values by storage class, one writer at a time, deadlines by its own progress handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use libsqlite3_sys::{SQLITE_LIMIT_LENGTH, sqlite3_limit};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteRow};
use sqlx::{
    Arguments, AssertSqlSafe, Column, ConnectOptions, Connection, Decode, Row, Sqlite, SqliteConnection,
    TypeInfo, ValueRef,
};

use super::functions;
use super::session::{After, Bounds, Failed, Gathered, Session, Terms, commit_failed, no_answer, unreadable};
use crate::clock::SharedClock;
use crate::plugin::bindings::sql::{Rows, SqlError, Value, Violation};

/// Steps of SQLite's machine between two looks at the clock. Few, because one of them may go through a value
/// that is as large as may be.
const STEPS: i32 = 50;
/// A value of this size can always be written, however little the plugin is given and takes.
const VALUE_BYTES_MIN: usize = 1 << 20;

pub struct SqliteSession {
    connection: SqliteConnection,
    clock: SharedClock,
    /// When the running statement is interrupted: milliseconds since boot.
    deadline: Deadline,
    statement: Duration,
    /// Of one value; 0 is SQLite's own bound.
    value_bytes: i32,
}

/// Shared with SQLite. A session that is dropped in the middle of a statement ends it: the engine's thread
/// would go on, and keep the file's lock.
struct Deadline(Arc<AtomicU64>);

impl Drop for Deadline {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

pub async fn connect(options: &SqliteConnectOptions, clock: SharedClock) -> Result<SqliteSession, Failed> {
    let mut connection = options.connect().await.map_err(failed)?;
    let deadline_ms = Arc::new(AtomicU64::new(u64::MAX));
    let (shared, time) = (deadline_ms.clone(), clock.clone());
    let mut handle = connection.lock_handle().await.map_err(failed)?;
    handle.set_progress_handler(STEPS, move || ms(time.since_boot()) < shared.load(Ordering::Relaxed));
    // SAFETY: the handle is the open connection's, and nothing else uses it while it is locked.
    if !unsafe { functions::bound(handle.as_raw_handle().as_ptr()) } {
        return Err(Failed::broken(SqlError::Other("SQLite's functions could not be bounded".to_owned())));
    }
    drop(handle);
    let deadline = Deadline(deadline_ms);
    Ok(SqliteSession { connection, clock, deadline, statement: Duration::ZERO, value_bytes: 0 })
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl SqliteSession {
    fn arm(&self) {
        let deadline = ms(self.clock.since_boot() + self.statement);
        self.deadline.0.store(deadline, Ordering::Relaxed);
    }

    /// The host's own statement.
    async fn run(&mut self, sql: String) -> Result<(), Failed> {
        self.deadline.0.store(u64::MAX, Ordering::Relaxed);
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.map(drop).map_err(failed)
    }

    /// What is temporary is found by looking for it: `create table temp.t` makes it too.
    async fn end(&mut self, word: &str) -> Result<After, Failed> {
        self.run(word.to_owned()).await?;
        let found =
            sqlx::query("select 1 from temp.sqlite_schema limit 1").fetch_optional(&mut self.connection);
        Ok(if matches!(found.await, Ok(None)) { After::Clean } else { After::Spent })
    }

    /// No value becomes larger in the engine's memory, or in a row that it hands out: each is copied there
    /// before the host can look at its length.
    async fn bound_values(&mut self, bytes: usize) -> Result<(), Failed> {
        let bytes = i32::try_from(bytes.max(VALUE_BYTES_MIN)).unwrap_or(i32::MAX);
        if bytes != self.value_bytes {
            let mut handle = self.connection.lock_handle().await.map_err(failed)?;
            // SAFETY: the handle is the open connection's, and nothing else uses it while it is locked.
            unsafe { sqlite3_limit(handle.as_raw_handle().as_ptr(), SQLITE_LIMIT_LENGTH, bytes) };
            self.value_bytes = bytes;
        }
        Ok(())
    }
}

#[async_trait]
impl Session for SqliteSession {
    async fn begin(&mut self, terms: &Terms) -> Result<(), Failed> {
        self.statement = terms.statement;
        self.bound_values(terms.value_bytes).await?;
        // Immediate: a ledger writes, and who began to read first could not write any more.
        self.run(format!("pragma busy_timeout = {}; begin immediate", ms(terms.statement))).await
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<u64, Failed> {
        self.arm();
        let query = sqlx::query_with(AssertSqlSafe(statement.to_owned()), arguments(parameters)?);
        query.execute(&mut self.connection).await.map(|done| done.rows_affected()).map_err(failed)
    }

    async fn query(&mut self, statement: &str, parameters: &[Value], bounds: Bounds) -> Result<Rows, Failed> {
        self.arm();
        let query = sqlx::query_with(AssertSqlSafe(statement.to_owned()), arguments(parameters)?);
        let mut rows = query.fetch(&mut self.connection);
        let mut gathered = Gathered::new(bounds);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            if gathered.rows.columns.is_empty() {
                gathered.rows.columns = row.columns().iter().map(|column| column.name().to_owned()).collect();
            }
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
        let version: String =
            sqlx::query_scalar("select sqlite_version() from (select count(*) from sqlite_schema)")
                .fetch_one(&mut self.connection)
                .await
                .map_err(failed)?;
        Ok(format!("SQLite {version}"))
    }

    async fn close(self: Box<Self>) {
        let _ = self.connection.close().await;
    }
}

fn arguments(parameters: &[Value]) -> Result<SqliteArguments, Failed> {
    let mut arguments = SqliteArguments::default();
    for parameter in parameters {
        let added = match parameter {
            Value::Null => arguments.add(None::<i64>),
            Value::Boolean(value) => arguments.add(*value),
            Value::Integer(value) | Value::Timestamp(value) => arguments.add(*value),
            Value::Float(value) => arguments.add(*value),
            Value::Decimal(text) | Value::Text(text) | Value::Json(text) | Value::Uuid(text) => {
                arguments.add(text.clone())
            }
            Value::Bytes(bytes) => arguments.add(bytes.clone()),
        };
        added.map_err(|why| Failed::clean(SqlError::Data(why.to_string())))?;
    }
    Ok(arguments)
}

fn value(row: &SqliteRow, index: usize) -> Result<Value, Failed> {
    let column = row.column(index);
    let raw = row.try_get_raw(index).map_err(failed)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let is_boolean = column.type_info().name() == "BOOLEAN";
    let kind = raw.type_info().name().to_owned();
    let read = match kind.as_str() {
        "INTEGER" | "BOOLEAN" => <i64 as Decode<Sqlite>>::decode(raw).map(|value| match value {
            0 | 1 if is_boolean => Value::Boolean(value == 1),
            value => Value::Integer(value),
        }),
        "REAL" => <f64 as Decode<Sqlite>>::decode(raw).map(Value::Float),
        "BLOB" => <Vec<u8> as Decode<Sqlite>>::decode(raw).map(Value::Bytes),
        _ => <String as Decode<Sqlite>>::decode(raw).map(Value::Text),
    };
    read.map_err(|why| unreadable(column.name(), why))
}

fn failed(error: sqlx::Error) -> Failed {
    let sqlx::Error::Database(database) = &error else { return no_answer(&error) };
    let code = database.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or_default();
    classify(code, database.message().to_owned())
}

/// By SQLite's result codes: the low byte is the primary one.
fn classify(code: i32, message: String) -> Failed {
    Failed::clean(match (code, code & 0xff) {
        // Unique, primary key, rowid.
        (2067 | 1555 | 2579, _) => SqlError::UniqueViolation(Violation {
            constraint: message.strip_prefix("UNIQUE constraint failed: ").unwrap_or_default().to_owned(),
            message,
        }),
        (_, 18) => SqlError::TooLarge(format!(
            "{message}: a value or row may have as many bytes as  payload  in the destination's limits and  \
             result  in its limits.sql together, and a statement's text 1 MiB"
        )),
        // A strict table's types, and a rowid that is no integer.
        (3091, _) | (_, 20) => SqlError::Data(message),
        (_, 19) => SqlError::Constraint(message),
        // Another has written since this one began to read.
        (517, _) => SqlError::Serialization(message),
        (_, 5 | 6) => SqlError::Timeout(format!("{message}: another connection holds the database's lock")),
        (_, 9) => SqlError::Timeout("the statement took longer than limits.sql.statement allows".to_owned()),
        (_, 3 | 23) => SqlError::Denied(message),
        (_, 14) => SqlError::Unavailable(format!(
            "{message}; the file and its folder must exist and be writable (or add  ?mode=rwc  to the URL)"
        )),
        (_, 7 | 8 | 10 | 13 | 15) => return Failed::broken(SqlError::Unavailable(message)),
        (_, 11 | 26) => return Failed::broken(SqlError::Other(message)),
        (_, 1 | 17 | 25) => SqlError::Syntax(message),
        _ => SqlError::Other(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_sqlite_are_told_apart() {
        let kind = |code: i32| {
            let text = format!("{:?}", classify(code, "UNIQUE constraint failed: t.a".to_owned()).error);
            text.trim_start_matches("SqlError::").split('(').next().unwrap_or_default().to_owned()
        };
        for (code, expected) in [
            (2067, "UniqueViolation"),
            (1555, "UniqueViolation"),
            (275, "Constraint"),
            (1299, "Constraint"),
            (3091, "Data"),
            (18, "TooLarge"),
            (5, "Timeout"),
            (517, "Serialization"),
            (9, "Timeout"),
            (14, "Unavailable"),
            (13, "Unavailable"),
            (1, "Syntax"),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }
}
