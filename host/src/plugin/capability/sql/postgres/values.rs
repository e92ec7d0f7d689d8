//! Values on their way to PostgreSQL and back: parameters with their types, results in the binary format.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgRow, PgTypeInfo, PgTypeKind};
use sqlx::{Arguments, Column, Encode, Postgres, Row, Type, TypeInfo, ValueRef};
use time::{Date, Duration as Days};

use super::failed;
use crate::plugin::bindings::sql::{SqlError, Value};
use crate::plugin::capability::sql::numeric;
use crate::plugin::capability::sql::session::{Failed, unreadable};

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

/// The driver remembers a prepared statement by its text alone, and with it the types of the first
/// parameters it was given. The same text with a null somewhere else is another statement.
pub fn typed(statement: &str, parameters: &[Value]) -> String {
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

pub fn arguments(parameters: &[Value]) -> Result<PgArguments, Failed> {
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

/// What the row's values came in.
pub fn raw_bytes(row: &PgRow) -> usize {
    let length = |index| row.try_get_raw(index).ok()?.as_bytes().ok().map(<[u8]>::len);
    (0..row.len()).filter_map(length).sum()
}

pub fn value(row: &PgRow, index: usize) -> Result<Value, Failed> {
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
