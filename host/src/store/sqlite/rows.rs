//! Between columns and values.

use serde::de::{Deserializer, MapAccess, Visitor};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::domain::{ClaimToken, Timestamp};

/// Text as its producer's library wrote it: SQLite keeps any bytes as text, and a row that can't be
/// read would fail every claim it is part of.
pub(super) fn text(row: &SqliteRow, column: &str) -> sqlx::Result<String> {
    Ok(maybe_text(row, column)?.unwrap_or_default())
}

pub(super) fn maybe_text(row: &SqliteRow, column: &str) -> sqlx::Result<Option<String>> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

pub(super) fn time(row: &SqliteRow, column: &str) -> sqlx::Result<Timestamp> {
    row.try_get(column).map(Timestamp)
}

pub(super) fn maybe_time(row: &SqliteRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp))
}

pub(super) fn count(row: &SqliteRow, column: &str) -> sqlx::Result<u32> {
    let count: i64 = row.try_get(column)?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

pub(super) fn big_count(row: &SqliteRow, column: &str) -> sqlx::Result<u64> {
    let count: i64 = row.try_get(column)?;
    Ok(u64::try_from(count).unwrap_or(0))
}

pub(super) fn token(row: &SqliteRow, column: &str) -> sqlx::Result<ClaimToken> {
    let bytes: &[u8] = row.try_get(column)?;
    let bytes = bytes.try_into().map_err(|_| sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: "a claim token has 16 bytes".into(),
    })?;
    Ok(ClaimToken(bytes))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Headers in the order they were written.
pub(super) fn headers(row: &SqliteRow, column: &str) -> sqlx::Result<Vec<(String, String)>> {
    let Some(json) = maybe_text(row, column)? else { return Ok(Vec::new()) };
    // The table's checks keep anything but an object of strings out.
    Ok(serde_json::Deserializer::from_str(&json).deserialize_map(Pairs).unwrap_or_default())
}

/// Headers as the table keeps them; none is null.
pub(super) fn headers_json(headers: &[(String, String)]) -> Option<String> {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let pairs: Vec<String> =
        headers.iter().map(|(name, value)| format!("{}:{}", text(name), text(value))).collect();
    (!pairs.is_empty()).then(|| format!("{{{}}}", pairs.join(",")))
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}
