//! Values on their way to MySQL and MariaDB and back. Texts are what decimals, timestamps, JSON and UUIDs travel
//! as; the server makes of them what the column is.

use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::{Arguments, Column, Decode, MySql, Row, Type, TypeInfo, ValueRef};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Date, OffsetDateTime, PrimitiveDateTime, Time};

use super::failed;
use crate::plugin::bindings::sql::{SqlError, Value};
use crate::plugin::capability::sql::session::{Failed, unreadable};

const DATETIME: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]");

pub fn arguments(parameters: &[Value]) -> Result<MySqlArguments, Failed> {
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

/// What the row's values came in.
pub fn raw_bytes(row: &MySqlRow) -> usize {
    let length = |index| Some(<&[u8] as Decode<MySql>>::decode(row.try_get_raw(index).ok()?).ok()?.len());
    (0..row.len()).filter_map(length).sum()
}

pub fn value(row: &MySqlRow, index: usize) -> Result<Value, Failed> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
