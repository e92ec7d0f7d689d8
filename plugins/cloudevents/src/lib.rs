//! CloudEvents 1.0 of an outbox event: its attributes as pairs (binary mode), or the whole event as one
//! JSON text (structured mode). How the pairs are spelled is each protocol's own.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Unless the operator names the application. It does not hold the destination's name: a receiver
/// tells duplicates by source and ID, and a renamed destination must not make old events new.
pub const DEFAULT_SOURCE: &str = "/outhaul";

pub const STRUCTURED_CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The last microsecond of the year 9999.
const TIME_MAX_US: u64 = 253_402_300_799_999_999;

/// What of the contract's event matters here.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub dedup_id: &'a str,
    pub topic: &'a str,
    pub key: Option<&'a str>,
    pub tenant: &'a str,
    pub headers: &'a [(String, String)],
    pub content_type: &'a str,
    pub payload: &'a [u8],
    /// Microseconds since 1970.
    pub created_at_us: i64,
}

impl<'a> From<&'a outhaul_plugin::Event> for Event<'a> {
    fn from(event: &'a outhaul_plugin::Event) -> Self {
        Self {
            dedup_id: &event.dedup_id,
            topic: &event.topic,
            key: event.key.as_deref(),
            tenant: &event.tenant,
            headers: &event.headers,
            content_type: &event.content_type,
            payload: &event.payload,
            created_at_us: event.created_at,
        }
    }
}

/// The setting `cloudevents`: a mode, or a table of mode and source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub struct Setting {
    pub mode: Mode,
    pub source: String,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "\"binary\", \"structured\", or a table of mode and source")]
enum Written {
    Mode(Mode),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mode: Mode,
    source: Option<String>,
}

impl From<Written> for Setting {
    fn from(written: Written) -> Self {
        let (mode, source) = match written {
            Written::Mode(mode) => (mode, None),
            Written::Table(table) => (table.mode, table.source),
        };
        Self { mode, source: source.unwrap_or_else(|| DEFAULT_SOURCE.to_owned()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Binary,
    Structured,
}

impl Mode {
    pub const ALL: [Self; 2] = [Self::Binary, Self::Structured];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Structured => "structured",
        }
    }
}

/// The attributes of an event, but for its content type. `partitionkey` is the standard's own
/// extension; `tenant` is ours.
pub fn attributes<'a>(event: &Event<'a>, source: &str) -> Vec<(&'static str, String)> {
    let mut attributes = vec![
        ("specversion", "1.0".to_owned()),
        ("id", event.dedup_id.to_owned()),
        ("source", source.to_owned()),
        ("type", event.topic.to_owned()),
    ];
    // RFC 3339 has years of four digits; `time` is optional.
    if let Some(micros) = u64::try_from(event.created_at_us).ok().filter(|micros| *micros <= TIME_MAX_US) {
        let time = UNIX_EPOCH + Duration::from_micros(micros);
        attributes.push(("time", humantime::format_rfc3339_micros(time).to_string()));
    }
    if let Some(key) = event.key {
        attributes.push(("partitionkey", key.to_owned()));
    }
    if !event.tenant.is_empty() {
        attributes.push(("tenant", event.tenant.to_owned()));
    }
    attributes
}

/// Binary mode over HTTP: the headers to add. The payload is the body, its content type the body's.
pub fn headers(event: &Event, source: &str) -> Vec<(String, String)> {
    let attributes = attributes(event, source).into_iter();
    attributes.map(|(name, value)| (format!("ce-{name}"), percent_encode(&value))).collect()
}

/// Space, quote, percent and whatever is not visible ASCII, as the HTTP binding (3.1.3.2) says.
pub fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' | b'"' | b'%' | 0..=0x20 | 0x7f..=0xff => {
                let _ = write!(encoded, "%{byte:02X}");
            }
            visible => encoded.push(char::from(visible)),
        }
    }
    encoded
}

/// Structured mode: the body. JSON stays JSON, byte for byte, so that large numbers and the order of
/// keys survive; text stays text; anything else, also what only claims to be JSON, is base64.
pub fn structured(event: &Event, source: &str) -> Vec<u8> {
    let mut members = Map::new();
    for (name, value) in attributes(event, source) {
        members.insert(name.to_owned(), Value::String(value));
    }
    members.insert("datacontenttype".to_owned(), Value::String(event.content_type.to_owned()));
    let mut body = Value::Object(members).to_string();
    // The object is closed again after its data, whose bytes must not be rewritten.
    body.pop();
    body.push_str(&data_member(event));
    body.push('}');
    body.into_bytes()
}

fn data_member(event: &Event) -> String {
    if let Ok(text) = std::str::from_utf8(event.payload) {
        if is_json(event.content_type) && serde_json::from_str::<&RawValue>(text).is_ok() {
            return format!(",\"data\":{text}");
        }
        if media_type(event.content_type).starts_with("text/") {
            return format!(",\"data\":{}", Value::String(text.to_owned()));
        }
    }
    format!(",\"data_base64\":\"{}\"", STANDARD.encode(event.payload))
}

fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(content_type: &str) -> bool {
    let media_type = media_type(content_type);
    media_type.ends_with("/json") || media_type.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_setting_is_a_mode_or_a_table() {
        let setting = |json: &str| serde_json::from_str::<Setting>(json);
        let binary = setting(r#""binary""#).unwrap();
        assert_eq!((binary.mode, binary.source.as_str()), (Mode::Binary, DEFAULT_SOURCE));
        let structured = setting(r#"{"mode":"structured","source":"/shop"}"#).unwrap();
        assert_eq!((structured.mode, structured.source.as_str()), (Mode::Structured, "/shop"));
        for wrong in [r#""batched""#, r#"{"source":"/shop"}"#, r#"{"mode":"binary","sauce":"x"}"#] {
            let error = setting(wrong).unwrap_err().to_string();
            assert!(error.contains("a table of mode and source"), "{error}");
        }
    }

    fn event() -> Event<'static> {
        Event {
            dedup_id: "order-1",
            topic: "order.created",
            key: Some("a \"b\" 100% é"),
            tenant: "north",
            headers: &[],
            content_type: "application/json",
            payload: br#"{"b":1,"a":12345678901234567890.10}"#,
            created_at_us: 784_111_777_000_123,
        }
    }

    fn header(event: &Event, name: &str) -> Option<String> {
        headers(event, "/shop").into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    #[test]
    fn binary_mode_writes_each_attribute_as_a_header_and_escapes_it() {
        let event = event();
        for (name, value) in [
            ("ce-specversion", "1.0"),
            ("ce-id", "order-1"),
            ("ce-source", "/shop"),
            ("ce-type", "order.created"),
            ("ce-time", "1994-11-06T08:49:37.000123Z"),
            ("ce-partitionkey", "a%20%22b%22%20100%25%20%C3%A9"),
            ("ce-tenant", "north"),
        ] {
            assert_eq!(header(&event, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(header(&event, "ce-datacontenttype"), None);
        let bare = Event { key: None, tenant: "", created_at_us: -1, ..event };
        for name in ["ce-partitionkey", "ce-tenant", "ce-time"] {
            assert_eq!(header(&bare, name), None, "{name}");
        }
    }

    #[test]
    fn a_time_that_rfc_3339_cannot_write_is_left_out_and_the_event_is_sent() {
        let last = Event { created_at_us: 253_402_300_799_999_999, ..event() };
        assert_eq!(header(&last, "ce-time").as_deref(), Some("9999-12-31T23:59:59.999999Z"));
        for created_at_us in [253_402_300_800_000_000, 1_764_000_000_000_000_000, i64::MAX, -1, i64::MIN] {
            let odd = Event { created_at_us, ..event() };
            assert_eq!(header(&odd, "ce-time"), None, "{created_at_us}");
            assert_eq!(header(&odd, "ce-id").as_deref(), Some("order-1"));
            assert_eq!(body(&odd).1.get("time"), None, "{created_at_us}");
        }
    }

    fn body(event: &Event) -> (String, Value) {
        let body = String::from_utf8(structured(event, "/shop")).unwrap();
        let value = serde_json::from_str(&body).unwrap();
        (body, value)
    }

    #[test]
    fn structured_mode_keeps_json_byte_for_byte() {
        let (text, value) = body(&event());
        assert!(text.contains(r#","data":{"b":1,"a":12345678901234567890.10}}"#), "{text}");
        assert_eq!(value["specversion"], json!("1.0"));
        assert_eq!(value["partitionkey"], json!("a \"b\" 100% é"));
        assert_eq!(value["datacontenttype"], json!("application/json"));
        let suffixed = Event { content_type: "application/vnd.shop+JSON; charset=utf-8", ..event() };
        assert_eq!(body(&suffixed).1["data"]["b"], json!(1));
    }

    #[test]
    fn structured_mode_carries_text_as_text_and_the_rest_as_base64() {
        let text = Event { content_type: "text/plain", payload: b"a\n\"b\"", ..event() };
        assert_eq!(body(&text).1["data"], json!("a\n\"b\""));
        for (content_type, payload) in [
            ("application/octet-stream", &b"plain"[..]),
            ("application/json", b"{not json"),
            ("application/json", b"1}, \"id\": {\"forged\": 1"),
            ("application/json", b""),
            ("text/plain", b"\xff\xfe"),
        ] {
            let (_, value) = body(&Event { content_type, payload, ..event() });
            assert_eq!(value["data_base64"], json!(STANDARD.encode(payload)), "{content_type} {payload:?}");
            assert_eq!(value.get("data"), None);
            assert_eq!(value["id"], json!("order-1"));
        }
    }
}
