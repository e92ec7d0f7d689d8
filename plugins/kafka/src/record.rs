//! What an event becomes: a record of a topic, with key, value, headers and time.

use std::fmt::Write as _;

use cloudevents::Mode;
use outhaul_plugin::{Event, Failure};

use crate::protocol::batch::Record;
use crate::settings::Settings;

const TOPIC_BYTES_MAX: usize = 249;
const MICROS_PER_MS: i64 = 1_000;

/// The event's `dedup-id`, under the name that other outboxes' readers know.
const ID: &str = "id";
/// As the Kafka binding of CloudEvents has it.
const CONTENT_TYPE: &str = "content-type";

#[derive(Debug, PartialEq, Eq)]
pub struct Composed {
    pub topic: String,
    pub record: Record,
}

pub fn compose(settings: &Settings, event: &Event) -> Result<Composed, Failure> {
    let topic = settings.topic.fill(event, word);
    check_topic(&topic).map_err(|why| {
        let message =
            format!("the event can't be produced to the topic {topic:?}: {why}; see the setting topic");
        Failure::rejected("invalid-topic", message)
    })?;
    let mut headers: Vec<(String, String)> = broker::own_headers(event)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let (mut content_type, mut value) = (event.content_type.as_str(), None);
    match &settings.cloudevents {
        Some(setting) if setting.mode == Mode::Structured => {
            content_type = cloudevents::STRUCTURED_CONTENT_TYPE;
            value = Some(cloudevents::structured(&event.into(), &setting.source));
            headers.push((ID.to_owned(), event.dedup_id.clone()));
        }
        Some(setting) => {
            let attributes = cloudevents::attributes(&event.into(), &setting.source).into_iter();
            headers.extend(attributes.map(|(name, value)| (format!("ce_{name}"), value)));
        }
        None => headers.push((ID.to_owned(), event.dedup_id.clone())),
    }
    headers.push((CONTENT_TYPE.to_owned(), content_type.to_owned()));
    add_producers(&mut headers, event);
    let record = Record {
        key: event.key.as_ref().map(|key| key.clone().into_bytes()),
        value: value.unwrap_or_else(|| event.payload.clone()),
        headers: headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect(),
        timestamp_ms: (event.created_at / MICROS_PER_MS).max(0),
    };
    Ok(Composed { topic, record })
}

/// As the producer wrote them, but for what has a meaning of its own here.
fn add_producers(headers: &mut Vec<(String, String)>, event: &Event) {
    let taken = headers.len();
    for (name, value) in &event.headers {
        if !headers[..taken].iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
            headers.push((name.clone(), value.clone()));
        }
    }
}

/// Any text as a part of a topic's name, so that different texts stay different, and no tenant's can
/// look like another's topic.
fn word(text: &str) -> String {
    let mut word = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => word.push(char::from(byte)),
            _ => write!(word, "_{byte:02X}").expect("memory takes what is written"),
        }
    }
    word
}

/// Kafka's own rules.
pub fn check_topic(topic: &str) -> Result<(), String> {
    if matches!(topic, "." | "..") {
        return Err("Kafka's topics are not named so".to_owned());
    }
    if topic.len() > TOPIC_BYTES_MAX {
        return Err(format!(
            "it has {} bytes, and Kafka's topics have {TOPIC_BYTES_MAX} at most",
            topic.len()
        ));
    }
    let is_legal = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
    match topic.chars().find(|char| !is_legal(*char)) {
        Some(char) => {
            Err(format!("{char:?} is not among the letters, digits, '.', '_' and '-' of Kafka's topics"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use outhaul_plugin::parse_settings;

    pub fn event(id: &str) -> Event {
        Event {
            id: id.into(),
            dedup_id: id.into(),
            destination: "bus".into(),
            topic: "order.created".into(),
            key: Some("customer-7".into()),
            tenant: String::new(),
            headers: [
                ("traceparent", "00-1"),
                ("Content-Type", "x/y"),
                ("outhaul-topic", "forged"),
                ("ID", "forged"),
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

    fn headers(composed: &Composed) -> Vec<(&str, &str)> {
        let headers = composed.record.headers.iter();
        headers.map(|(name, value)| (name.as_str(), std::str::from_utf8(value).unwrap())).collect()
    }

    #[test]
    fn an_event_is_a_record_with_its_key_time_and_headers() {
        let composed = compose(&settings("{}"), &event("e-1")).unwrap();
        assert_eq!(composed.topic, "order.created");
        assert_eq!(composed.record.key.as_deref(), Some(&b"customer-7"[..]));
        assert_eq!(
            (&composed.record.value[..], composed.record.timestamp_ms),
            (&b"{\"a\":1}"[..], 1_700_000_000_123)
        );
        let expected = [
            ("Outhaul-Event-Id", "e-1"),
            ("Outhaul-Topic", "order.created"),
            ("Outhaul-Key", "customer-7"),
            ("id", "e-1"),
            ("content-type", "application/json"),
            ("traceparent", "00-1"),
        ];
        assert_eq!(headers(&composed), expected);
        let bare = Event { key: None, created_at: -5, ..event("e") };
        let bare = compose(&settings("{}"), &bare).unwrap().record;
        assert_eq!((bare.key, bare.timestamp_ms), (None, 0));
    }

    #[test]
    fn a_cloudevent_has_its_attributes_as_headers_or_is_one_json_text() {
        let binary = compose(&settings(r#"{"cloudevents":"binary"}"#), &event("e-1")).unwrap();
        let has = |name: &str, value: &str| headers(&binary).contains(&(name, value));
        assert!(
            has("ce_id", "e-1") && has("ce_type", "order.created") && has("content-type", "application/json")
        );
        let structured = settings(r#"{"cloudevents":{"mode":"structured","source":"/shop"}}"#);
        let structured = compose(&structured, &event("e-1")).unwrap();
        assert!(headers(&structured).contains(&("content-type", cloudevents::STRUCTURED_CONTENT_TYPE)));
        let body: serde_json::Value = serde_json::from_slice(&structured.record.value).unwrap();
        assert_eq!(
            (&body["id"], &body["source"], &body["data"]["a"]),
            (&"e-1".into(), &"/shop".into(), &1.into())
        );
    }

    #[test]
    fn a_topic_may_hold_tenant_and_key_and_no_tenant_gets_at_anothers() {
        let settings = settings(r#"{"topic":"{tenant}.{topic}.{key}"}"#);
        let event = Event { tenant: "no.rth_é".into(), key: Some("a/b".into()), ..event("e") };
        assert_eq!(compose(&settings, &event).unwrap().topic, "no_2Erth_5F_C3_A9.order.created.a_2Fb");
    }

    #[test]
    fn a_topic_that_kafka_can_not_have_is_rejected_with_the_reason() {
        for (topic, word) in
            [("order/created", "'/'"), ("..", "not named so"), (&"x".repeat(250), "250 bytes")]
        {
            let event = Event { topic: topic.into(), ..event("e") };
            let Err(Failure::Rejected(detail)) = compose(&settings("{}"), &event) else { panic!("{topic}") };
            assert!(detail.message.contains(word), "{}", detail.message);
        }
    }
}
