//! What an event becomes: an entry of a stream, and the key that remembers it.

use std::borrow::Cow;

use outhaul_plugin::Event;
use sha2::{Digest, Sha256};

use crate::settings::Settings;

#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub stream: String,
    /// The key that remembers the ID.
    pub seen: String,
    /// Of all that makes the content; another one under the same ID is a conflict.
    pub digest: String,
    pub fields: Vec<(String, &'a [u8])>,
}

pub fn compose<'a>(settings: &Settings, event: &'a Event) -> Entry<'a> {
    let stream = settings.stream.fill(event, str::to_owned);
    let seen = format!("{}{{{}}}:{}", settings.prefix, slot(&stream), event.dedup_id);
    Entry { seen, digest: digest(event), fields: fields(event), stream }
}

/// What stands in braces in the other key: both keys of the script have to be on the same node of a cluster,
/// and so in the same slot. The stream's own part in braces if it has one (an empty one is none), else all of
/// it. That can't be put in braces where it holds a closing one: then a number that has the same slot.
fn slot(stream: &str) -> Cow<'_, str> {
    let inside = stream.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(inside, _)| inside);
    let hashed = inside.filter(|inside| !inside.is_empty()).unwrap_or(stream);
    if !hashed.contains('}') {
        return Cow::Borrowed(hashed);
    }
    let wanted = slot_number(hashed);
    let same = (0_u32..).map(|number| number.to_string()).find(|text| slot_number(text) == wanted);
    Cow::Owned(same.expect("every slot has numbers"))
}

/// Of the 16,384 slots of a cluster: CRC-16/XMODEM, as Redis' cluster specification says.
fn slot_number(text: &str) -> u16 {
    let crc = text.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16_384
}

fn fields(event: &Event) -> Vec<(String, &[u8])> {
    let mut fields = vec![
        ("id".to_owned(), event.dedup_id.as_bytes()),
        ("event-id".to_owned(), event.id.as_bytes()),
        ("topic".to_owned(), event.topic.as_bytes()),
        ("content-type".to_owned(), event.content_type.as_bytes()),
    ];
    fields.extend(event.key.iter().map(|key| ("key".to_owned(), key.as_bytes())));
    if !event.tenant.is_empty() {
        fields.push(("tenant".to_owned(), event.tenant.as_bytes()));
    }
    let headers = event.headers.iter();
    fields.extend(headers.map(|(name, value)| (format!("header:{name}"), value.as_bytes())));
    fields.push(("payload".to_owned(), &event.payload));
    fields
}

/// Over topic, key, content type and payload, each with its length in front.
fn digest(event: &Event) -> String {
    let mut digest = Sha256::new();
    let key = event.key.as_deref();
    digest.update([u8::from(key.is_some())]);
    for part in [
        event.topic.as_bytes(),
        key.unwrap_or_default().as_bytes(),
        event.content_type.as_bytes(),
        &event.payload,
    ] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub mod tests {
    use outhaul_plugin::parse_settings;

    use super::*;

    pub fn event(id: &str) -> Event {
        Event {
            id: id.into(),
            dedup_id: id.into(),
            destination: "bus".into(),
            topic: "order.created".into(),
            key: Some("customer-7".into()),
            tenant: "north".into(),
            headers: vec![("traceparent".into(), "00-1".into())],
            content_type: "application/json".into(),
            payload: b"\xff\r\n".to_vec(),
            created_at: 0,
            sequence: 1,
            attempt: 1,
            last_attempt: false,
            uncertain_before: false,
            fence: 1,
            budget_ms: 10_000,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn an_event_is_an_entry_of_its_topics_stream() {
        let event = event("e-1");
        let entry = compose(&parse_settings("{}").unwrap(), &event);
        assert_eq!(
            (entry.stream.as_str(), entry.seen.as_str()),
            ("order.created", "outhaul:{order.created}:e-1")
        );
        let fields: Vec<_> = entry.fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(
            fields,
            [
                ("id", &b"e-1"[..]),
                ("event-id", b"e-1"),
                ("topic", b"order.created"),
                ("content-type", b"application/json"),
                ("key", b"customer-7"),
                ("tenant", b"north"),
                ("header:traceparent", b"00-1"),
                ("payload", b"\xff\r\n"),
            ]
        );
    }

    #[test]
    fn both_keys_are_on_one_node_of_a_cluster() {
        let seen = |stream: &str| {
            let settings = parse_settings(r#"{"prefix":"p:"}"#).unwrap();
            let settings = Settings { stream: stream.to_owned().try_into().unwrap(), ..settings };
            compose(&settings, &event("e")).seen
        };
        assert_eq!(seen("shop:{topic}"), "p:{shop:order.created}:e");
        // Braces of a key are the event's own.
        assert_eq!(slot("a{b}c"), "b");
        assert_eq!(slot("a{b"), "a{b");
        // An empty pair is no part in braces, and neither fits between braces.
        for stream in ["a{}c", "a}b", "{}"] {
            let other = slot(stream).into_owned();
            assert!(!other.contains('}'), "{other}");
            assert_eq!(slot_number(&other), slot_number(stream), "{stream}");
        }
        // The example of the specification, and a slot that `CLUSTER KEYSLOT` tells.
        assert_eq!(slot_number("123456789"), 0x31c3);
        assert_eq!(slot_number("foo"), 12_182);
    }

    #[test]
    fn the_digest_changes_with_the_content_and_with_nothing_else() {
        let same = Event { attempt: 2, headers: Vec::new(), created_at: 5, ..event("e") };
        assert_eq!(digest(&same), digest(&event("other")));
        for other in [
            Event { payload: b"{}".to_vec(), ..event("e") },
            Event { topic: "order.create".into(), key: Some("dcustomer-7".into()), ..event("e") },
            Event { key: None, ..event("e") },
            Event { key: Some(String::new()), ..event("e") },
            Event { content_type: "text/plain".into(), ..event("e") },
        ] {
            assert_ne!(digest(&other), digest(&event("e")), "{other:?}");
        }
    }
}
