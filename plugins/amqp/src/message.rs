//! What an event becomes: a routing key, properties with headers, and a body.

use std::borrow::Cow;

use broker::template::escaped;
use cloudevents::Mode;
use outhaul_plugin::{Event, Failure};

use crate::settings::Settings;
use crate::wire::{self, Reader, SHORT_BYTES_MAX, Value};

const BASIC: u16 = 60;

// The properties' flags, in the order in which they are written.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;
const DELIVERY_MODE: u16 = 1 << 12;
const PRIORITY: u16 = 1 << 11;
const CORRELATION_ID: u16 = 1 << 10;
const REPLY_TO: u16 = 1 << 9;
const EXPIRATION: u16 = 1 << 8;
const MESSAGE_ID: u16 = 1 << 7;
const TIMESTAMP: u16 = 1 << 6;
const TYPE: u16 = 1 << 5;

const PERSISTENT: u8 = 2;
const TRANSIENT: u8 = 1;
const MICROS: u64 = 1_000_000;

/// Headers that send copies of a message elsewhere, and the one that is a property.
const RESERVED: [&str; 3] = ["CC", "BCC", "content-type"];

#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub routing_key: String,
    /// The payload of its header frame.
    pub header: Vec<u8>,
    pub body: Cow<'a, [u8]>,
}

pub fn compose<'a>(settings: &Settings, event: &'a Event) -> Result<Message<'a>, Failure> {
    let routing_key = settings.routing_key.fill(event, word);
    if routing_key.len() > SHORT_BYTES_MAX {
        return Err(too_long("the routing key", &routing_key));
    }
    let mut headers: Vec<(String, String)> = broker::own_headers(event)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut content_type = event.content_type.as_str();
    let mut body = Cow::Borrowed(event.payload.as_slice());
    match &settings.cloudevents {
        Some(setting) if setting.mode == Mode::Structured => {
            content_type = cloudevents::STRUCTURED_CONTENT_TYPE;
            body = Cow::Owned(cloudevents::structured(&event.into(), &setting.source));
        }
        Some(setting) => {
            // As the binding of AMQP 1.0 has them, so that its readers find them on the same queue.
            let attributes = cloudevents::attributes(&event.into(), &setting.source).into_iter();
            headers.extend(attributes.map(|(name, value)| (format!("cloudEvents_{name}"), value)));
        }
        None => {}
    }
    add_producers(&mut headers, event);
    if let Some((name, _)) = headers.iter().find(|(name, _)| name.len() > SHORT_BYTES_MAX) {
        return Err(too_long("the name of the header", name));
    }
    if content_type.len() > SHORT_BYTES_MAX {
        return Err(too_long("the content type", content_type));
    }
    let header = header(settings, event, content_type, &headers, body.len());
    Ok(Message { routing_key, header, body })
}

fn too_long(what: &str, name: &str) -> Failure {
    let message = format!("{what} {name:?} has {} bytes, and AMQP takes {SHORT_BYTES_MAX}", name.len());
    Failure::rejected("too-long", message)
}

/// Any text as one word of a routing key.
fn word(text: &str) -> String {
    escaped(text, |char| matches!(char, '.' | '*' | '#'))
}

/// As the producer wrote them, but for what has a meaning of its own here.
fn add_producers(headers: &mut Vec<(String, String)>, event: &Event) {
    let taken = headers.len();
    for (name, value) in &event.headers {
        let is_taken = headers[..taken].iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        if !is_taken && !RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
            headers.push((name.clone(), value.clone()));
        }
    }
}

fn header(
    settings: &Settings,
    event: &Event,
    content_type: &str,
    headers: &[(String, String)],
    body_bytes: usize,
) -> Vec<u8> {
    let created_at = u64::try_from(event.created_at).ok();
    let mut flags = CONTENT_TYPE | HEADERS | DELIVERY_MODE | MESSAGE_ID | TYPE;
    if created_at.is_some() {
        flags |= TIMESTAMP;
    }
    let mut header = Vec::new();
    header.extend(BASIC.to_be_bytes());
    header.extend([0, 0]);
    header.extend((body_bytes as u64).to_be_bytes());
    header.extend(flags.to_be_bytes());
    wire::write_short(&mut header, content_type);
    wire::write_table(&mut header, headers.iter().map(|(name, value)| (name.as_str(), Value::Text(value))));
    header.push(if settings.persistent { PERSISTENT } else { TRANSIENT });
    wire::write_short(&mut header, &event.dedup_id);
    if let Some(micros) = created_at {
        header.extend((micros / MICROS).to_be_bytes());
    }
    wire::write_short(&mut header, &event.topic);
    header
}

/// The `message-id` in a header frame's payload.
pub fn message_id(header: &[u8]) -> Result<Option<String>, String> {
    let mut reader = Reader::of(header);
    let (_class, _weight, _body) = (reader.short()?, reader.short()?, reader.long_long()?);
    let flags = reader.short()?;
    if flags & MESSAGE_ID == 0 {
        return Ok(None);
    }
    for flag in [
        CONTENT_TYPE,
        CONTENT_ENCODING,
        HEADERS,
        DELIVERY_MODE,
        PRIORITY,
        CORRELATION_ID,
        REPLY_TO,
        EXPIRATION,
    ] {
        match flag {
            _ if flags & flag == 0 => {}
            HEADERS => drop(reader.long_bytes()?),
            DELIVERY_MODE | PRIORITY => drop(reader.octet()?),
            _ => drop(reader.short_text()?),
        }
    }
    reader.short_text().map(Some)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use outhaul_plugin::parse_settings;

    pub fn event(id: &str) -> Event {
        Event {
            id: id.into(),
            dedup_id: id.into(),
            destination: "bus".into(),
            topic: "order.created".into(),
            key: Some("customer.7".into()),
            tenant: String::new(),
            headers: [
                ("traceparent", "00-1"),
                ("CC", "elsewhere"),
                ("Content-Type", "x/y"),
                ("outhaul-topic", "forged"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            content_type: "application/json".into(),
            payload: b"{\"a\":1}".to_vec(),
            created_at: 1_700_000_000_123_456,
            sequence: 1,
            attempt: 1,
            last_attempt: false,
            uncertain_before: false,
            fence: 1,
            budget_ms: 10_000,
            attributes: Vec::new(),
        }
    }

    fn settings(json: &str) -> Settings {
        parse_settings(json).unwrap()
    }

    #[test]
    fn an_event_is_a_persistent_message_with_its_id_topic_time_and_headers() {
        let event = event("e-1");
        let message = compose(&settings("{}"), &event).unwrap();
        assert_eq!((message.routing_key.as_str(), &message.body[..]), ("order.created", &event.payload[..]));
        let mut reader = Reader::of(&message.header);
        assert_eq!((reader.short(), reader.short(), reader.long_long()), (Ok(60), Ok(0), Ok(7)));
        let flags = CONTENT_TYPE | HEADERS | DELIVERY_MODE | MESSAGE_ID | TIMESTAMP | TYPE;
        assert_eq!((reader.short(), reader.short_text()), (Ok(flags), Ok("application/json".into())));
        let mut headers = Vec::new();
        let expected = [
            ("Outhaul-Event-Id", "e-1"),
            ("Outhaul-Topic", "order.created"),
            ("Outhaul-Key", "customer.7"),
            ("traceparent", "00-1"),
        ];
        wire::write_table(&mut headers, expected.map(|(name, value)| (name, Value::Text(value))));
        assert_eq!(reader.long_bytes(), Ok(&headers[4..]));
        assert_eq!((reader.octet(), reader.short_text()), (Ok(PERSISTENT), Ok("e-1".into())));
        assert_eq!(
            (reader.long_long(), reader.short_text()),
            (Ok(1_700_000_000), Ok("order.created".into()))
        );
        assert_eq!(message_id(&message.header), Ok(Some("e-1".into())));
    }

    #[test]
    fn a_returned_message_is_known_whatever_properties_it_has() {
        let flags = CONTENT_ENCODING | PRIORITY | CORRELATION_ID | REPLY_TO | EXPIRATION | MESSAGE_ID;
        let mut header = b"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00".to_vec();
        header.extend(flags.to_be_bytes());
        header.extend(b"\x04gzip\x05\x01c\x01r\x0210\x02id");
        assert_eq!(message_id(&header), Ok(Some("id".into())));
        assert!(message_id(&header[..header.len() - 1]).is_err());
        assert_eq!(message_id(b"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), Ok(None));
    }

    fn contains(message: &Message, text: &str) -> bool {
        message.header.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[test]
    fn a_cloudevent_has_its_attributes_as_headers_or_is_one_json_text() {
        let event = event("e-1");
        let binary = compose(&settings(r#"{"cloudevents":"binary"}"#), &event).unwrap();
        for text in
            ["cloudEvents_id", "cloudEvents_specversion", "cloudEvents_partitionkey", "application/json"]
        {
            assert!(contains(&binary, text), "{text}");
        }
        let structured = settings(r#"{"cloudevents":{"mode":"structured","source":"/shop"}}"#);
        let structured = compose(&structured, &event).unwrap();
        assert!(contains(&structured, cloudevents::STRUCTURED_CONTENT_TYPE));
        let body: serde_json::Value = serde_json::from_slice(&structured.body).unwrap();
        assert_eq!(
            (&body["id"], &body["source"], &body["data"]["a"]),
            (&"e-1".into(), &"/shop".into(), &1.into())
        );
    }

    #[test]
    fn a_routing_key_may_hold_key_and_tenant_as_one_word_each() {
        let settings = settings(r#"{"routing_key":"shop.{tenant}.{key}.{topic}","persistent":false}"#);
        let event = Event { tenant: "north".into(), key: Some("a.*#b".into()), ..event("e") };
        assert_eq!(compose(&settings, &event).unwrap().routing_key, "shop.north.a%2E%2A%23b.order.created");
    }

    #[test]
    fn what_amqp_can_not_carry_is_rejected_with_the_reason() {
        let long = "x".repeat(256);
        let key = settings(r#"{"routing_key":"{topic}.{key}"}"#);
        let with_key = Event { key: Some("k".repeat(250)), ..event("e") };
        let with_type = Event { content_type: long.clone(), ..event("e") };
        let with_header = Event { headers: vec![(long, "v".into())], ..event("e") };
        for (event, word) in
            [(with_key, "the routing key"), (with_type, "the content type"), (with_header, "the header")]
        {
            let Err(Failure::Rejected(detail)) = compose(&key, &event) else { panic!("{word}") };
            assert!(
                detail.message.contains(word) && detail.message.contains("takes 255"),
                "{}",
                detail.message
            );
        }
    }
}
