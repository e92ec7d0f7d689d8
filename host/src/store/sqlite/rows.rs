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
    let (pairs, fault) = read_headers(&json);
    if let Some(fault) = fault {
        let event = text(row, "event_id").unwrap_or_default();
        tracing::warn!(event, "headers end after {} of them, the rest can't be read: {fault}", pairs.len());
    }
    Ok(pairs)
}

/// The table's checks keep anything but an object of strings out, but run in the producer's own
/// library: what an older one takes for JSON is read as near to it as can be.
fn read_headers(json: &str) -> (Vec<(String, String)>, Option<serde_json::Error>) {
    let read = |json: &str| {
        let mut pairs = Vec::new();
        let fault = serde_json::Deserializer::from_str(json).deserialize_map(Pairs(&mut pairs)).err();
        (pairs, fault)
    };
    match read(json) {
        (pairs, None) => (pairs, None),
        _ => read(&mended(json)),
    }
}

/// Half a surrogate pair becomes U+FFFD, and a bare control character in a string is escaped.
fn mended(json: &str) -> String {
    let mut mended = String::with_capacity(json.len());
    let mut rest = json;
    let mut in_string = false;
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        match (next, surrogate(rest)) {
            ('\\', Some(0xd800..=0xdbff)) if matches!(surrogate(&rest[6..]), Some(0xdc00..)) => length = 12,
            ('\\', Some(_)) => {
                mended.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            ('\\', None) => length += rest[1..].chars().next().map_or(0, char::len_utf8),
            ('"', _) => in_string = !in_string,
            ('\0'..='\x1f', _) if in_string => {
                mended.push_str(&format!("\\u{:04x}", u32::from(next)));
                rest = &rest[length..];
                continue;
            }
            _ => {}
        }
        mended.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    mended
}

/// The half of a surrogate pair that the text begins with the escape of.
fn surrogate(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok().filter(|code| (0xd800..=0xdfff).contains(code))
}

/// Headers as the table keeps them; none is null.
pub(super) fn headers_json(headers: &[(String, String)]) -> Option<String> {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let pairs: Vec<String> =
        headers.iter().map(|(name, value)| format!("{}:{}", text(name), text(value))).collect();
    (!pairs.is_empty()).then(|| format!("{{{}}}", pairs.join(",")))
}

/// Keeps what it read before a fault.
struct Pairs<'a>(&'a mut Vec<(String, String)>);

impl<'de> Visitor<'de> for Pairs<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(pair) = map.next_entry()? {
            self.0.push(pair);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (String::from(*name), String::from(*value))).collect()
    }

    #[test]
    fn headers_that_are_not_quite_json_are_kept_as_near_as_can_be() {
        for (json, expected) in [
            (r#"{"b":"1","a":"\u00e9 \ud83d\ude00"}"#, pairs(&[("b", "1"), ("a", "é 😀")])),
            (r#"{"a":"\ud800","b":"2"}"#, pairs(&[("a", "\u{fffd}"), ("b", "2")])),
            (r#"{"a":"x\udc00\ud83d\ude00\uD83D"}"#, pairs(&[("a", "x\u{fffd}😀\u{fffd}")])),
            (r#"{"\udfffé":"\\ud800 \"q\" \ud800"}"#, pairs(&[("\u{fffd}é", "\\ud800 \"q\" \u{fffd}")])),
            ("{ \"a\" :\n\"1\n2\t\u{1}\"}", pairs(&[("a", "1\n2\t\u{1}")])),
        ] {
            let (read, fault) = read_headers(json);
            assert_eq!(read, expected, "{json}");
            assert!(fault.is_none(), "{json}: {fault:?}");
        }
    }

    #[test]
    fn headers_that_cannot_be_read_to_the_end_say_so_and_keep_the_first() {
        for json in [r#"{"a":"1","b":2}"#, r#"{"a":"1","b":"\q"}"#, r#"{"a":"1","b":"\ud80"}"#, r#"{"a":"1""#]
        {
            let (read, fault) = read_headers(json);
            assert_eq!(read, pairs(&[("a", "1")]), "{json}");
            assert!(fault.is_some(), "{json}");
        }
    }
}
