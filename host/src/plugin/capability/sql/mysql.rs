//! MySQL and MariaDB, told apart by the version they give. Texts are what decimals, timestamps, JSON
//! and UUIDs travel as; the server makes of them what the column is.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlDatabaseError, MySqlRow};
use sqlx::{
    Arguments, AssertSqlSafe, Column, ConnectOptions, Connection, Decode, MySql, MySqlConnection, Row, Type,
    TypeInfo, ValueRef,
};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time};

use super::session::{Bounds, Failed, Gathered, Session, Terms, commit_failed, no_answer, unreadable};
use crate::plugin::bindings::sql::{Rows, SqlError, Value, Violation};
use crate::plugin::spec::SqlIsolation;

const DATETIME: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]");

pub struct MySqlSession {
    connection: MySqlConnection,
    is_mariadb: bool,
    version: String,
}

pub async fn connect(options: &MySqlConnectOptions) -> Result<MySqlSession, Failed> {
    let mut connection = options.connect().await.map_err(failed)?;
    // A value that does not fit is refused and never cut.
    sqlx::raw_sql("set session sql_mode = concat(@@sql_mode, ',STRICT_TRANS_TABLES')")
        .execute(&mut connection)
        .await
        .map_err(failed)?;
    let version: String =
        sqlx::query_scalar("select version()").fetch_one(&mut connection).await.map_err(failed)?;
    let is_mariadb = version.contains("MariaDB");
    Ok(MySqlSession { connection, is_mariadb, version })
}

impl MySqlSession {
    async fn run(&mut self, sql: String) -> Result<(), Failed> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.map(drop).map_err(failed)
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
            "set session {of_statements}, innodb_lock_wait_timeout = {locks}{of_idle}; \
             set transaction isolation level {isolation}; start transaction"
        ))
        .await
    }

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<u64, Failed> {
        let query = sqlx::query_with(AssertSqlSafe(statement.to_owned()), arguments(parameters)?);
        query.execute(&mut self.connection).await.map(|done| done.rows_affected()).map_err(failed)
    }

    async fn query(&mut self, statement: &str, parameters: &[Value], bounds: Bounds) -> Result<Rows, Failed> {
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

    async fn commit(&mut self) -> Result<(), Failed> {
        self.run("commit".to_owned()).await.map_err(commit_failed)
    }

    async fn rollback(&mut self) -> Result<(), Failed> {
        self.run("rollback".to_owned()).await
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
}

fn arguments(parameters: &[Value]) -> Result<MySqlArguments, Failed> {
    let mut arguments = MySqlArguments::default();
    for parameter in parameters {
        let added = match parameter {
            Value::Null => Arguments::add(&mut arguments, None::<String>),
            Value::Boolean(value) => Arguments::add(&mut arguments, *value),
            Value::Integer(value) => Arguments::add(&mut arguments, *value),
            Value::Float(value) => Arguments::add(&mut arguments, *value),
            Value::Decimal(text) | Value::Text(text) | Value::Json(text) | Value::Uuid(text) => {
                Arguments::add(&mut arguments, text.as_str())
            }
            Value::Bytes(bytes) => Arguments::add(&mut arguments, bytes.as_slice()),
            Value::Timestamp(us) => match datetime(*us) {
                Some(text) => Arguments::add(&mut arguments, text),
                None => Err("the timestamp is out of range".into()),
            },
        };
        added.map_err(|why| Failed::clean(SqlError::Data(why.to_string())))?;
    }
    Ok(arguments)
}

/// The session is in UTC, which is what the driver sets.
fn datetime(us: i64) -> Option<String> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(us) * 1_000).ok()?.format(DATETIME).ok()
}

fn value(row: &MySqlRow, index: usize) -> Result<Value, Failed> {
    let column = row.column(index);
    let raw = row.try_get_raw(index).map_err(failed)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    // The driver's name for a text whose collation ends in `_bin` is that of bytes.
    let is_text = <str as Type<MySql>>::compatible(&raw.type_info());
    let kind = if is_text { "TEXT".to_owned() } else { raw.type_info().name().to_owned() };
    let bytes = <&[u8] as Decode<MySql>>::decode(raw).map_err(|why| unreadable(column.name(), why))?;
    read(&kind, bytes).ok_or_else(|| {
        unreadable(column.name(), format!("it is of type {kind}; cast it in the statement, as to char"))
    })
}

/// By the name the driver gives a type, from the bytes of the binary protocol.
fn read(kind: &str, bytes: &[u8]) -> Option<Value> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    Some(match kind {
        "BOOLEAN" => match signed(bytes)? {
            value @ (0 | 1) => Value::Boolean(value == 1),
            value => Value::Integer(value),
        },
        "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" => Value::Integer(signed(bytes)?),
        "TINYINT UNSIGNED" | "SMALLINT UNSIGNED" | "MEDIUMINT UNSIGNED" | "INT UNSIGNED"
        | "BIGINT UNSIGNED" | "YEAR" => {
            let value = unsigned(bytes)?;
            i64::try_from(value).map_or_else(|_| Value::Decimal(value.to_string()), Value::Integer)
        }
        "FLOAT" => Value::Float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        "DOUBLE" => Value::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
        "DECIMAL" => Value::Decimal(text(bytes)?),
        "DATETIME" | "TIMESTAMP" => {
            let at = PrimitiveDateTime::new(date(bytes)?, time_of_day(bytes)?).assume_utc();
            Value::Timestamp(i64::try_from(at.unix_timestamp_nanos() / 1_000).ok()?)
        }
        "DATE" => Value::Text(date(bytes)?.to_string()),
        "JSON" => Value::Json(text(bytes)?),
        "CHAR" | "VARCHAR" | "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" | "ENUM" | "SET" => {
            Value::Text(text(bytes)?)
        }
        "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" | "BIT" => {
            Value::Bytes(bytes.to_vec())
        }
        _ => return None,
    })
}

fn unsigned(bytes: &[u8]) -> Option<u64> {
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(wide))
}

fn signed(bytes: &[u8]) -> Option<i64> {
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = if is_negative { [0xff; 8] } else { [0; 8] };
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(wide))
}

/// The length, then year, month, day, and only if they are not zero hour, minute, second, microseconds.
fn date(bytes: &[u8]) -> Option<Date> {
    let [_, year_low, year_high, month, day, ..] = bytes else { return None };
    let year = i32::from(u16::from_le_bytes([*year_low, *year_high]));
    Date::from_calendar_date(year, (*month).try_into().ok()?, *day).ok()
}

fn time_of_day(bytes: &[u8]) -> Option<Time> {
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let us = u32::from_le_bytes([byte(8), byte(9), byte(10), byte(11)]);
    Time::from_hms_micro(byte(5), byte(6), byte(7), us).ok()
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

    #[test]
    fn numbers_and_times_of_the_wire_are_read() {
        assert_eq!((signed(&[0xfe]), signed(&[1, 0]), signed(&[0; 9])), (Some(-2), Some(1), None));
        assert_eq!(unsigned(&[0xff; 8]), Some(u64::MAX));
        let at = [11, 0xe8, 0x07, 2, 29, 12, 34, 56, 0x40, 0xe2, 0x01, 0x00];
        let Some(Value::Timestamp(us)) = read("DATETIME", &at) else { panic!("no time") };
        assert_eq!(datetime(us).as_deref(), Some("2024-02-29 12:34:56.123456"));
        assert!(matches!(read("DATETIME", &at[..5]), Some(Value::Timestamp(1_709_164_800_000_000))));
    }
}
