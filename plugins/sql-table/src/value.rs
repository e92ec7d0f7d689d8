//! The value of a column: from the payload by a JSON Pointer, or from the event itself.

use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul_plugin::sql::Value;
use outhaul_plugin::{Event, Failure};
use serde_json::Value as Json;

use crate::settings::{Field, Given, Kind, Source};

/// What can't be read is wrong with the event, and no later attempt mends it.
pub fn of(source: &Source, column: &str, event: &Event, payload: &Json) -> Result<Value, Failure> {
    let (pointer, kind, optional) = match source {
        Source::Pointer(pointer) => (pointer, Kind::Auto, false),
        Source::Given(Given { event: Some(field), .. }) => return Ok(of_event(*field, event)),
        Source::Given(Given { pointer, kind, optional, .. }) => {
            (pointer.as_ref().expect("checked when it was configured"), *kind, *optional)
        }
    };
    match payload.pointer(pointer) {
        Some(found) => read(found, kind).ok_or_else(|| {
            let kind = format!("{kind:?}").to_lowercase();
            Failure::rejected(
                "payload",
                format!("what is at {pointer:?}, for column {column:?}, is no {kind}"),
            )
        }),
        None if optional => Ok(Value::Null),
        None => Err(Failure::rejected(
            "payload",
            format!("there is nothing at {pointer:?}, for column {column:?}"),
        )),
    }
}

fn of_event(field: Field, event: &Event) -> Value {
    let number = |number: u64| {
        i64::try_from(number).map_or_else(|_| Value::Decimal(number.to_string()), Value::Integer)
    };
    match field {
        Field::Id => event.id.as_str().into(),
        Field::DedupId => event.dedup_id.as_str().into(),
        Field::Topic => event.topic.as_str().into(),
        Field::Key => event.key.clone().into(),
        Field::Tenant => event.tenant.as_str().into(),
        Field::ContentType => event.content_type.as_str().into(),
        Field::CreatedAt => Value::Timestamp(event.created_at),
        Field::Sequence => number(event.sequence),
        Field::Fence => number(event.fence),
        Field::Attempt => Value::Integer(event.attempt.into()),
        Field::Payload => event.payload.clone().into(),
    }
}

fn read(json: &Json, kind: Kind) -> Option<Value> {
    if json.is_null() {
        return Some(Value::Null);
    }
    Some(match kind {
        Kind::Auto => auto(json),
        Kind::Text => match json {
            Json::String(text) => text.as_str().into(),
            Json::Number(_) | Json::Bool(_) => json.to_string().into(),
            _ => return None,
        },
        Kind::Integer => Value::Integer(match json {
            Json::String(text) => text.parse().ok()?,
            _ => json.as_i64()?,
        }),
        Kind::Float => Value::Float(json.as_f64()?),
        Kind::Decimal => Value::Decimal(match json {
            Json::String(text) => decimal(text)?,
            Json::Number(number) => decimal(&number.to_string())?,
            _ => return None,
        }),
        Kind::Boolean => Value::Boolean(json.as_bool()?),
        Kind::Timestamp => Value::Timestamp(match json {
            Json::String(text) => rfc3339(text)?,
            _ => json.as_i64()?,
        }),
        Kind::Json => Value::Json(json.to_string()),
        Kind::Uuid => Value::Uuid(json.as_str().filter(|text| is_uuid(text))?.to_lowercase()),
        Kind::Bytes => Value::Bytes(STANDARD.decode(json.as_str()?).ok()?),
    })
}

fn auto(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Integer(value),
            (None, Some(value)) => Value::Decimal(value.to_string()),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(_) | Json::Object(_) => Value::Json(json.to_string()),
    }
}

/// Microseconds since 1970. The library reads only what is in UTC, so the offset is taken off first.
fn rfc3339(text: &str) -> Option<i64> {
    let (local, offset_s) = match text.get(text.len().checked_sub(6)?..)?.as_bytes() {
        [sign @ (b'+' | b'-'), hours @ .., b':', tens, ones] if text.len() > 19 => {
            let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<i64>().ok();
            let offset_s = number(hours)? * 3_600 + number(&[*tens, *ones])? * 60;
            (&text[..text.len() - 6], if *sign == b'-' { -offset_s } else { offset_s })
        }
        _ => (text.strip_suffix('Z')?, 0),
    };
    let at = humantime::parse_rfc3339(&format!("{local}Z")).ok()?;
    let us = match at.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_micros()).ok()?,
        Err(before) => -i64::try_from(before.duration().as_micros()).ok()?,
    };
    us.checked_sub(offset_s * 1_000_000)
}

fn decimal(text: &str) -> Option<String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(whole) && is_number(part)).then(|| text.to_owned())
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_what_json_has_unless_a_type_says_otherwise() {
        for (json, value) in [
            (json!("x"), Value::Text("x".into())),
            (json!(7), Value::Integer(7)),
            (json!(u64::MAX), Value::Decimal("18446744073709551615".into())),
            (json!(0.5), Value::Float(0.5)),
            (json!(true), Value::Boolean(true)),
            (json!(null), Value::Null),
            (json!({ "a": [1] }), Value::Json(r#"{"a":[1]}"#.into())),
        ] {
            assert_eq!(read(&json, Kind::Auto), Some(value), "{json}");
        }
    }

    #[test]
    fn a_type_reads_its_spellings_and_nothing_else() {
        let us = 1_709_210_096_500_000;
        for (json, kind, value) in [
            (json!("2024-02-29T12:34:56.5Z"), Kind::Timestamp, Some(Value::Timestamp(us))),
            (json!("2024-02-29T13:34:56.5+01:00"), Kind::Timestamp, Some(Value::Timestamp(us))),
            (json!(us), Kind::Timestamp, Some(Value::Timestamp(us))),
            (json!("yesterday"), Kind::Timestamp, None),
            (json!("12.50"), Kind::Decimal, Some(Value::Decimal("12.50".into()))),
            (json!(12.5), Kind::Decimal, Some(Value::Decimal("12.5".into()))),
            (json!("1e5"), Kind::Decimal, None),
            (json!("7"), Kind::Integer, Some(Value::Integer(7))),
            (json!(7.5), Kind::Integer, None),
            (json!(7), Kind::Text, Some(Value::Text("7".into()))),
            (json!([]), Kind::Text, None),
            (json!("AP+A"), Kind::Bytes, Some(Value::Bytes(vec![0, 255, 128]))),
            (json!("!"), Kind::Bytes, None),
            (
                json!("0190A0B2-7C1D-7E3F-8A4B-5C6D7E8F9A0B"),
                Kind::Uuid,
                Some(Value::Uuid("0190a0b2-7c1d-7e3f-8a4b-5c6d7e8f9a0b".into())),
            ),
            (json!("0190A0B2"), Kind::Uuid, None),
            (json!("x"), Kind::Json, Some(Value::Json("\"x\"".into()))),
            (json!(1), Kind::Boolean, None),
            (json!(null), Kind::Boolean, Some(Value::Null)),
        ] {
            assert_eq!(read(&json, kind), value, "{json} as {kind:?}");
        }
    }
}
