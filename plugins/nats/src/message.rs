//! What an event becomes: a subject, headers, and a payload.

use std::borrow::Cow;

use broker::template::escaped;
use cloudevents::Mode;
use outhaul_plugin::{Event, Failure};

use crate::protocol;
use crate::settings::Settings;

/// Headers of the server's own, which change what it does. A producer does not write them.
const RESERVED_PREFIX: &str = "nats-";
const CONTENT_TYPE: &str = "Content-Type";

#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub subject: String,
    pub headers: Vec<u8>,
    pub payload: Cow<'a, [u8]>,
}

pub fn compose<'a>(settings: &Settings, event: &'a Event) -> Result<Message<'a>, Failure> {
    let subject = settings.subject.fill(event, token);
    check_published(&subject).map_err(|why| {
        Failure::rejected(
            "invalid-subject",
            format!("the event can't be published to the subject {subject:?}: {why}"),
        )
    })?;
    let mut headers = vec![("Nats-Msg-Id".to_owned(), event.dedup_id.clone())];
    headers.extend(settings.stream.iter().map(|stream| ("Nats-Expected-Stream".to_owned(), stream.clone())));
    let own = broker::own_headers(event).into_iter();
    // Any text, so written as the CloudEvents bindings write texts.
    headers.extend(own.map(|(name, value)| (name.to_owned(), cloudevents::percent_encode(value))));
    let payload = match &settings.cloudevents {
        Some(setting) if setting.mode == Mode::Structured => {
            headers.push((CONTENT_TYPE.to_owned(), cloudevents::STRUCTURED_CONTENT_TYPE.to_owned()));
            Cow::Owned(cloudevents::structured(&event.into(), &setting.source))
        }
        setting => {
            headers.push((CONTENT_TYPE.to_owned(), event.content_type.clone()));
            let binary = setting.iter();
            headers.extend(binary.flat_map(|setting| cloudevents::headers(&event.into(), &setting.source)));
            Cow::Borrowed(event.payload.as_slice())
        }
    };
    add_producers(&mut headers, event);
    for (name, value) in &headers {
        check_header(name, value)?;
    }
    let headers = protocol::headers(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Ok(Message { subject, headers, payload })
}

/// As the producer wrote them, but for what has a meaning of its own here.
fn add_producers(headers: &mut Vec<(String, String)>, event: &Event) {
    let taken = headers.len();
    for (name, value) in &event.headers {
        let is_taken = headers[..taken].iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let is_reserved =
            name.get(..RESERVED_PREFIX.len()).is_some_and(|it| it.eq_ignore_ascii_case(RESERVED_PREFIX));
        if !is_taken && !is_reserved {
            headers.push((name.clone(), value.clone()));
        }
    }
}

fn check_header(name: &str, value: &str) -> Result<(), Failure> {
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if is_name && !value.contains(['\r', '\n', '\0']) {
        return Ok(());
    }
    let message =
        format!("the header {name:?} can't be written in NATS: names are visible ASCII, values one line");
    Err(Failure::rejected("invalid-header", message))
}

/// Any text as one token of a subject.
fn token(text: &str) -> String {
    escaped(text, |char| matches!(char, '.' | '*' | '>') || char.is_whitespace() || char.is_control())
}

/// Whether an event may be published to it: what it says to the server's own subjects would be commands.
pub fn check_published(subject: &str) -> Result<(), &'static str> {
    match subject.starts_with('$') || subject.starts_with("_INBOX.") {
        true => Err("what begins with $ or _INBOX. is the server's own"),
        false => check_subject(subject),
    }
}

/// Whether it is one.
pub fn check_subject(subject: &str) -> Result<(), &'static str> {
    if subject.split('.').any(str::is_empty) {
        return Err("it has an empty token");
    }
    if subject.split('.').any(|token| token == "*" || token == ">") {
        return Err("* and > are wildcards");
    }
    if subject.contains(|char: char| char.is_whitespace() || char.is_control()) {
        return Err("it has a space");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use outhaul_plugin::parse_settings;

    fn settings(json: &str) -> Settings {
        parse_settings(json).unwrap()
    }

    fn event() -> Event {
        Event {
            id: "bestellung 1/ü".into(),
            dedup_id: "0123abc".into(),
            destination: "bus".into(),
            topic: "order.created".into(),
            key: Some("customer.7".into()),
            tenant: "north".into(),
            headers: [
                ("traceparent", "00-1"),
                ("X-A", "b: c"),
                ("Nats-Rollup", "all"),
                ("content-type", "x/y"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            content_type: "application/json".into(),
            payload: b"{\"a\":1}".to_vec(),
            created_at: 1_000_000,
            sequence: 1,
            attempt: 1,
            last_attempt: false,
            uncertain_before: false,
            fence: 1,
            budget_ms: 10_000,
            attributes: Vec::new(),
        }
    }

    fn lines(settings: &Settings, event: &Event) -> Vec<String> {
        let message = compose(settings, event).unwrap();
        let text = String::from_utf8(message.headers).unwrap();
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn an_event_is_published_to_its_topic_with_its_id_and_what_the_producer_wrote() {
        let event = event();
        let message = compose(&settings("{}"), &event).unwrap();
        assert_eq!((message.subject.as_str(), &message.payload[..]), ("order.created", &event.payload[..]));
        assert_eq!(
            lines(&settings("{}"), &event),
            [
                "NATS/1.0",
                "Nats-Msg-Id: 0123abc",
                "Outhaul-Event-Id: bestellung%201/%C3%BC",
                "Outhaul-Topic: order.created",
                "Outhaul-Key: customer.7",
                "Outhaul-Tenant: north",
                "Content-Type: application/json",
                "traceparent: 00-1",
                "X-A: b: c",
            ]
        );
    }

    #[test]
    fn no_event_is_a_command_to_the_server() {
        for topic in ["$JS.API.STREAM.PURGE.ORDERS", "$SYS.REQ", "_INBOX.a"] {
            let event = Event { topic: topic.into(), ..event() };
            let refused = compose(&settings("{}"), &event).map(|message| message.subject).unwrap_err();
            assert!(
                matches!(refused, Failure::Rejected(detail) if detail.code == "invalid-subject"),
                "{topic}"
            );
        }
    }

    #[test]
    fn a_subject_may_hold_key_and_tenant_as_one_token_each() {
        let settings = settings(r#"{"subject":"shop.{tenant}.{key}.{topic}","stream":"SHOP"}"#);
        let event = Event { key: Some("a.* b".into()), ..event() };
        assert_eq!(compose(&settings, &event).unwrap().subject, "shop.north.a%2E%2A%20b.order.created");
        assert!(lines(&settings, &event).contains(&"Nats-Expected-Stream: SHOP".to_owned()));
    }

    #[test]
    fn a_cloudevent_has_its_attributes_as_headers_or_is_one_json_text() {
        let event = event();
        let binary = lines(&settings(r#"{"cloudevents":"binary"}"#), &event);
        for line in [
            "ce-id: 0123abc",
            "ce-type: order.created",
            "ce-source: /outhaul",
            "Content-Type: application/json",
        ] {
            assert!(binary.contains(&line.to_owned()), "{line}: {binary:?}");
        }
        let structured = settings(r#"{"cloudevents":{"mode":"structured","source":"/shop"}}"#);
        assert!(
            lines(&structured, &event)
                .contains(&format!("Content-Type: {}", cloudevents::STRUCTURED_CONTENT_TYPE))
        );
        let body: serde_json::Value =
            serde_json::from_slice(&compose(&structured, &event).unwrap().payload).unwrap();
        assert_eq!(
            (&body["id"], &body["source"], &body["data"]["a"]),
            (&"0123abc".into(), &"/shop".into(), &1.into())
        );
    }

    #[test]
    fn what_nats_can_not_carry_is_rejected_with_the_reason() {
        let with_header =
            |name: &str, value: &str| Event { headers: vec![(name.into(), value.into())], ..event() };
        let with_topic = |topic: &str| Event { topic: topic.into(), ..event() };
        for (event, word) in [
            (with_header("X-Ü", "a"), "X-Ü"),
            (with_header("a:b", "a"), "a:b"),
            (with_header("a", "b\nForged: c"), "one line"),
            (with_topic("a..b"), "empty token"),
            (with_topic("a.*"), "wildcards"),
        ] {
            let Err(Failure::Rejected(detail)) = compose(&settings("{}"), &event) else { panic!("{word}") };
            assert!(detail.message.contains(word), "{}", detail.message);
        }
    }
}
