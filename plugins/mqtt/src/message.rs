//! What an event becomes: a topic, properties, and a payload.

use std::borrow::Cow;

use broker::template::escaped;
use cloudevents::Mode;
use outhaul_plugin::{Event, Failure};

use crate::protocol::Publish;
use crate::settings::{Settings, Version};

pub fn compose<'a>(settings: &Settings, event: &'a Event) -> Result<Publish<'a>, Failure> {
    let own = event.topic.replace('.', &settings.separator);
    let topic = settings.topic.fill_with(&own, event, level);
    check_topic(&topic).map_err(|why| {
        Failure::rejected(
            "invalid-topic",
            format!("the event can't be published to the topic {topic:?}: {why}"),
        )
    })?;
    let structured = settings.cloudevents.as_ref().filter(|setting| setting.mode == Mode::Structured);
    let payload = match structured {
        Some(setting) => Cow::Owned(cloudevents::structured(&event.into(), &setting.source)),
        None => Cow::Borrowed(event.payload.as_slice()),
    };
    let message = Publish {
        topic,
        retain: settings.retain,
        expiry_s: None,
        content_type: None,
        user: Vec::new(),
        payload,
    };
    // 3.1.1 has no properties: what can't be written in them does not matter.
    if settings.version == Version::V3 {
        return Ok(message);
    }
    let content_type = match structured {
        Some(_) => cloudevents::STRUCTURED_CONTENT_TYPE.to_owned(),
        None => event.content_type.clone(),
    };
    let user = user_properties(settings, event);
    for text in user.iter().flat_map(|(name, value)| [name, value]).chain([&content_type]) {
        check_text(text)?;
    }
    let expiry_s = settings.expiry.and_then(|expiry| u32::try_from(expiry.as_secs()).ok());
    Ok(Publish { expiry_s, content_type: Some(content_type), user, ..message })
}

/// What the event says of itself, then the producer's headers, which can't take the place of any of it.
fn user_properties(settings: &Settings, event: &Event) -> Vec<(String, String)> {
    let mut user = vec![("id".to_owned(), event.dedup_id.clone())];
    user.extend(
        broker::own_headers(event).into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    if let Some(setting) = settings.cloudevents.as_ref().filter(|setting| setting.mode != Mode::Structured) {
        // The MQTT binding writes them without a prefix, `id` among them.
        user.retain(|(name, _)| name != "id");
        let attributes = cloudevents::attributes(&event.into(), &setting.source).into_iter();
        user.extend(attributes.map(|(name, value)| (name.to_owned(), value)));
    }
    let producers = event.headers.iter().filter(|(name, _)| !user.iter().any(|(own, _)| own == name));
    let producers: Vec<_> = producers.cloned().collect();
    user.extend(producers);
    user
}

/// Any text as one level of a topic.
fn level(text: &str) -> String {
    escaped(text, |char| matches!(char, '/' | '+' | '#') || char.is_control())
}

/// Whether a message can be published to it.
pub fn check_topic(topic: &str) -> Result<(), &'static str> {
    if topic.is_empty() || topic.len() > usize::from(u16::MAX) {
        return Err("it has no name, or one of more than 65,535 bytes");
    }
    if topic.contains(['+', '#']) {
        return Err("+ and # are wildcards");
    }
    if topic.starts_with('$') {
        return Err("topics that begin with $ are the broker's own");
    }
    if topic.contains(is_refused) {
        return Err("it holds a control character");
    }
    Ok(())
}

/// A broker may end the connection for these (1.5.4), and Mosquitto does.
fn is_refused(char: char) -> bool {
    char.is_control() || matches!(char, '\u{fdd0}'..='\u{fdef}') || u32::from(char) & 0xfffe == 0xfffe
}

fn check_text(text: &str) -> Result<(), Failure> {
    if text.len() <= usize::from(u16::MAX) && !text.contains(is_refused) {
        return Ok(());
    }
    let shown: String = text.chars().take(40).collect();
    let message = format!(
        "a header can't be written in MQTT, for it holds a control character or more than 65,535 bytes: {shown:?}"
    );
    Err(Failure::rejected("invalid-header", message))
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
            key: Some("customer/7".into()),
            tenant: String::new(),
            headers: vec![("traceparent".into(), "00-1".into()), ("Outhaul-Topic".into(), "forged".into())],
            content_type: "application/json".into(),
            payload: b"{}".to_vec(),
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

    fn composed(json: &str, event: &Event) -> Publish<'static> {
        let message = compose(&parse_settings(json).unwrap(), event).unwrap();
        Publish { payload: message.payload.into_owned().into(), ..message }
    }

    fn names(message: &Publish) -> Vec<String> {
        message.user.iter().map(|(name, _)| name.clone()).collect()
    }

    #[test]
    fn an_event_is_published_with_its_id_and_what_the_producer_wrote_as_properties() {
        let message = composed("{}", &event("e"));
        assert_eq!(
            (message.topic.as_str(), &message.payload[..], message.retain),
            ("order/created", &b"{}"[..], false)
        );
        assert_eq!(message.content_type.as_deref(), Some("application/json"));
        let expected = [
            ("id", "e"),
            ("Outhaul-Event-Id", "e"),
            ("Outhaul-Topic", "order.created"),
            ("Outhaul-Key", "customer/7"),
            ("traceparent", "00-1"),
        ];
        assert_eq!(message.user, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_topic_may_hold_the_key_as_one_level() {
        let message = composed(
            r#"{"topic":"shop/{key}/{topic}","separator":".","retain":true,"expiry":"1m"}"#,
            &event("e"),
        );
        assert_eq!(message.topic, "shop/customer%2F7/order.created");
        assert_eq!((message.retain, message.expiry_s), (true, Some(60)));
    }

    #[test]
    fn a_cloudevent_has_its_attributes_as_properties_or_is_one_json_text() {
        let binary = composed(r#"{"cloudevents":"binary"}"#, &event("e"));
        for name in ["specversion", "id", "source", "type", "time", "partitionkey"] {
            assert_eq!(names(&binary).iter().filter(|it| *it == name).count(), 1, "{name}");
        }
        let structured = composed(r#"{"cloudevents":"structured"}"#, &event("e"));
        assert_eq!(structured.content_type.as_deref(), Some(cloudevents::STRUCTURED_CONTENT_TYPE));
        let body: serde_json::Value = serde_json::from_slice(&structured.payload).unwrap();
        assert_eq!(body["id"], "e");
    }

    #[test]
    fn what_mqtt_can_not_carry_is_rejected_with_the_reason() {
        let with_topic = |topic: &str| Event { topic: topic.into(), ..event("e") };
        let with_header = |value: &str| Event { headers: vec![("a".into(), value.into())], ..event("e") };
        for (event, word) in [
            (with_topic("order.#"), "wildcards"),
            (with_topic("a+b"), "wildcards"),
            (with_topic("$SYS.x"), "broker's own"),
            (with_topic("a\u{7f}b"), "control character"),
            (with_header("line\nbreak"), "control character"),
            (with_header("\u{1ffff}"), "control character"),
            (with_header(&"x".repeat(70_000)), "65,535"),
        ] {
            let settings = parse_settings("{}").unwrap();
            let Err(Failure::Rejected(detail)) = compose(&settings, &event) else { panic!("{word}") };
            assert!(detail.message.contains(word), "{}", detail.message);
        }
    }

    #[test]
    fn what_only_properties_can_not_carry_is_no_matter_where_there_are_none() {
        let odd = Event {
            headers: vec![("a".into(), "line\nbreak".into())],
            content_type: "text/\u{7f}".into(),
            key: Some("\u{1}".into()),
            ..event("e")
        };
        let message = composed(r#"{"version":"3.1.1"}"#, &odd);
        assert_eq!((message.topic.as_str(), &message.payload[..]), ("order/created", &b"{}"[..]));
        let topic = Event { topic: "a\u{7f}b".into(), ..event("e") };
        let settings = parse_settings(r#"{"version":"3.1.1"}"#).unwrap();
        assert!(matches!(compose(&settings, &topic), Err(Failure::Rejected(_))), "the topic is sent");
    }
}
