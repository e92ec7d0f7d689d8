//! PostgreSQL: parameters with their types, results in the binary format.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{
    PgArgumentBuffer, PgArguments, PgConnectOptions, PgDatabaseError, PgRow, PgTypeInfo, PgTypeKind,
};
use sqlx::{
    Arguments, AssertSqlSafe, Column, ConnectOptions, Connection, Encode, PgConnection, Postgres, Row, Type,
    TypeInfo, ValueRef,
};
use time::{Date, Duration as Days};

use super::numeric;
use super::session::{Bounds, Failed, Gathered, Session, Terms, commit_failed, no_answer, unreadable};
use crate::plugin::bindings::sql::{Rows, SqlError, Value, Violation};
use crate::plugin::spec::SqlIsolation;

/// 2000-01-01T00:00:00Z, where the server's time begins, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;

// Of the catalog `pg_type`; these never change.
const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const TEXT: u32 = 25;
const JSON: u32 = 114;
const FLOAT8: u32 = 701;
const TIMESTAMPTZ: u32 = 1184;
const NUMERIC: u32 = 1700;
const UUID: u32 = 2950;
/// The server finds out by itself what a null is.
const UNKNOWN: u32 = 0;

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
        // lets the server end the transaction of a host that is gone.
        self.run(format!(
            "begin isolation level {isolation}; set local statement_timeout = {statement}; \
             set local lock_timeout = {statement}; set local time zone 'UTC'; \
             set local idle_in_transaction_session_timeout = {transaction}"
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
        let version: String = sqlx::query_scalar("show server_version")
            .fetch_one(&mut self.connection)
            .await
            .map_err(failed)?;
        Ok(format!("PostgreSQL {version}"))
    }
}

/// The driver remembers a prepared statement by its text alone, and with it the types of the first
/// parameters it was given. The same text with a null somewhere else is another statement.
fn typed(statement: &str, parameters: &[Value]) -> String {
    let types: String = parameters.iter().map(|parameter| format!(" {}", oid(parameter))).collect();
    format!("{statement}\n/*{types} */")
}

fn oid(value: &Value) -> u32 {
    match value {
        Value::Null => UNKNOWN,
        Value::Boolean(_) => BOOL,
        Value::Integer(_) => INT8,
        Value::Float(_) => FLOAT8,
        Value::Decimal(_) => NUMERIC,
        Value::Text(_) => TEXT,
        Value::Bytes(_) => BYTEA,
        Value::Timestamp(_) => TIMESTAMPTZ,
        Value::Json(_) => JSON,
        Value::Uuid(_) => UUID,
    }
}

fn arguments(parameters: &[Value]) -> Result<PgArguments, Failed> {
    let mut arguments = PgArguments::default();
    for parameter in parameters {
        let added = Arguments::add(&mut arguments, Parameter(parameter));
        added.map_err(|why| Failed::clean(SqlError::Data(why.to_string())))?;
    }
    Ok(arguments)
}

struct Parameter<'v>(&'v Value);

impl Type<Postgres> for Parameter<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(UNKNOWN))
    }
}

impl Encode<'_, Postgres> for Parameter<'_> {
    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(oid(self.0))))
    }

    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Boolean(value) => buffer.push(u8::from(*value)),
            Value::Integer(value) => buffer.extend(&value.to_be_bytes()),
            Value::Float(value) => buffer.extend(&value.to_be_bytes()),
            Value::Decimal(text) => {
                let bytes =
                    numeric::from_text(text).ok_or_else(|| format!("{text:?} is no decimal number"))?;
                buffer.extend(&bytes);
            }
            Value::Text(text) | Value::Json(text) => buffer.extend(text.as_bytes()),
            Value::Bytes(bytes) => buffer.extend(bytes),
            Value::Timestamp(us) => {
                let us = us.checked_sub(EPOCH_US).ok_or("the timestamp is out of range")?;
                buffer.extend(&us.to_be_bytes());
            }
            Value::Uuid(text) => {
                let id = uuid::Uuid::try_parse(text).map_err(|_| format!("{text:?} is no UUID"))?;
                buffer.extend(id.as_bytes());
            }
        }
        Ok(IsNull::No)
    }
}

fn value(row: &PgRow, index: usize) -> Result<Value, Failed> {
    let column = row.column(index);
    let raw = row.try_get_raw(index).map_err(failed)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let kind = raw.type_info().into_owned();
    let bytes = raw.as_bytes().map_err(|why| unreadable(column.name(), why))?;
    read(&kind, bytes).ok_or_else(|| {
        let kind = kind.name();
        unreadable(column.name(), format!("it is of type {kind}; cast it in the statement, as to text"))
    })
}

fn read(kind: &PgTypeInfo, bytes: &[u8]) -> Option<Value> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    Some(match kind.oid().map_or(0, |oid| oid.0) {
        BOOL => Value::Boolean(*bytes.first()? != 0),
        // int2, int4, int8, oid.
        21 => Value::Integer(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        23 => Value::Integer(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        INT8 => Value::Integer(i64::from_be_bytes(bytes.try_into().ok()?)),
        26 => Value::Integer(u32::from_be_bytes(bytes.try_into().ok()?).into()),
        // float4, float8.
        700 => Value::Float(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        FLOAT8 => Value::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
        NUMERIC => Value::Decimal(numeric::to_text(bytes)?),
        BYTEA => Value::Bytes(bytes.to_vec()),
        JSON => Value::Json(text(bytes)?),
        // jsonb: a version, then text.
        3802 => Value::Json(text(bytes.strip_prefix(&[1])?)?),
        UUID => Value::Uuid(uuid::Uuid::from_slice(bytes).ok()?.to_string()),
        // timestamp and timestamptz; the session is in UTC.
        1114 | TIMESTAMPTZ => {
            let us = i64::from_be_bytes(bytes.try_into().ok()?);
            let is_infinite = us == i64::MAX || us == i64::MIN;
            Value::Timestamp(us.checked_add(EPOCH_US).filter(|_| !is_infinite)?)
        }
        1082 => {
            let days = i32::from_be_bytes(bytes.try_into().ok()?);
            let date = Date::from_julian_day(2_451_545).ok()?.checked_add(Days::days(days.into()))?;
            Value::Text(date.to_string())
        }
        // "char", name, text, bpchar, varchar.
        18 | 19 | TEXT | 1042 | 1043 => Value::Text(text(bytes)?),
        _ if matches!(kind.kind(), PgTypeKind::Enum(_)) || kind.name() == "citext" => {
            Value::Text(text(bytes)?)
        }
        _ => return None,
    })
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
