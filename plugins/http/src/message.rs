//! The request an event becomes, but for its signatures: headers and body.

use std::borrow::Cow;

use outhaul_plugin::Failure;
use uri::{HeaderName, HeaderValue};

use crate::cloudevents::{self, Event, Mode};
use crate::settings::Settings;
use crate::signing::{self, SignatureHeader};

/// A request before it is signed. The body is signed exactly as it stands here.
#[derive(Debug)]
pub struct Message<'a> {
    pub id: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Cow<'a, [u8]>,
}

impl Message<'_> {
    pub fn add_signature(&mut self, header: SignatureHeader) {
        let value = HeaderValue::from_maybe_shared(header.into_text())
            .expect("base64, commas and spaces are a header's value");
        self.headers.push((HeaderName::from_static("webhook-signature"), value));
    }
}

const USER_AGENT: &str = concat!("outhaul-http/", env!("CARGO_PKG_VERSION"));

/// Headers of the event that continue the producer's trace at the receiver.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// `timestamp_s` is the attempt's: a receiver refuses old ones, so it can't be the event's.
pub fn compose<'a>(settings: &Settings, event: &Event<'a>, timestamp_s: u64) -> Result<Message<'a>, Failure> {
    let mut headers = settings.headers.clone();
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(value);
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.push((name, value));
            return true;
        }
        false
    };
    let id = signing::message_id(event.dedup_id);
    add("webhook-id", &id);
    add("webhook-timestamp", &timestamp_s.to_string());
    for name in TRACE_HEADERS {
        if let Some((_, value)) = event.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)) {
            // A trace that can't be written is lost; the delivery is not.
            add(name, value);
        }
    }
    let (content_type, body) = match &settings.cloudevents {
        Some(cloudevents) if cloudevents.mode == Mode::Structured => {
            let body = cloudevents::structured(event, &cloudevents.source);
            (cloudevents::STRUCTURED_CONTENT_TYPE, Cow::Owned(body))
        }
        Some(cloudevents) => {
            for (name, value) in cloudevents::headers(event, &cloudevents.source) {
                add(&name, &value);
            }
            (event.content_type, Cow::Borrowed(event.payload))
        }
        None => (event.content_type, Cow::Borrowed(event.payload)),
    };
    if !add("content-type", content_type) {
        let message = format!("the event's content type {content_type:?} can't be written as a header");
        return Err(Failure::rejected("invalid-content-type", message));
    }
    let names_agent = headers.iter().any(|(name, _)| name == "user-agent");
    if !names_agent {
        headers.push((HeaderName::from_static("user-agent"), HeaderValue::from_static(USER_AGENT)));
    }
    Ok(Message { id, headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> Settings {
        Settings::parse(json).unwrap()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn event<'a>(headers: &'a [(String, String)], payload: &'a [u8]) -> Event<'a> {
        Event {
            dedup_id: "order.1",
            topic: "order.created",
            key: None,
            tenant: "",
            headers,
            content_type: "application/json",
            payload,
            created_at_us: 0,
        }
    }

    fn header<'m>(message: &'m Message, name: &str) -> Vec<&'m str> {
        let found = message.headers.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.to_str().unwrap()).collect()
    }

    #[test]
    fn a_plain_webhook_carries_the_payload_untouched_under_a_stable_id() {
        let settings = settings(r#"{"url":"http://a/","headers":{"X-Shop":"north"}}"#);
        let payload = b"{ \"odd\" :  1 }\n\x00\xff";
        let message = compose(&settings, &event(&[], payload), 1_700_000_000).unwrap();
        assert_eq!(&*message.body, payload);
        assert_eq!(message.id, signing::message_id("order.1"));
        assert_eq!(header(&message, "webhook-id"), [message.id.as_str()]);
        assert_eq!(header(&message, "webhook-timestamp"), ["1700000000"]);
        assert_eq!(header(&message, "content-type"), ["application/json"]);
        assert_eq!(header(&message, "x-shop"), ["north"]);
        assert_eq!(header(&message, "user-agent"), [USER_AGENT]);
        assert_eq!(header(&message, "traceparent"), [""; 0]);
    }

    #[test]
    fn only_the_producers_trace_headers_are_passed_on_and_a_broken_one_costs_nothing() {
        let headers =
            pairs(&[("TraceParent", "00-1-2-01"), ("tracestate", "a=1\n"), ("x-internal", "secret")]);
        let message = compose(&settings(r#"{"url":"http://a/"}"#), &event(&headers, b"{}"), 0).unwrap();
        assert_eq!(header(&message, "traceparent"), ["00-1-2-01"]);
        assert_eq!(header(&message, "tracestate"), [""; 0]);
        assert_eq!(header(&message, "x-internal"), [""; 0]);
    }

    #[test]
    fn the_agents_name_can_be_chosen() {
        let settings = settings(r#"{"url":"http://a/","headers":{"User-Agent":"shop"}}"#);
        let message = compose(&settings, &event(&[], b"{}"), 0).unwrap();
        assert_eq!(header(&message, "user-agent"), ["shop"]);
    }

    #[test]
    fn cloudevents_modes_choose_the_content_type_and_the_body() {
        let binary = settings(r#"{"url":"http://a/","cloudevents":"binary"}"#);
        let message = compose(&binary, &event(&[], b"{}"), 0).unwrap();
        assert_eq!(header(&message, "content-type"), ["application/json"]);
        assert_eq!(header(&message, "ce-id"), ["order.1"]);
        assert_eq!(&*message.body, b"{}");
        let structured = settings(r#"{"url":"http://a/","cloudevents":"structured"}"#);
        let message = compose(&structured, &event(&[], b"{}"), 0).unwrap();
        assert_eq!(header(&message, "content-type"), [cloudevents::STRUCTURED_CONTENT_TYPE]);
        assert_eq!(header(&message, "ce-id"), [""; 0]);
        assert!(message.body.ends_with(br#""data":{}}"#));
    }

    #[test]
    fn an_event_whose_content_type_is_no_header_is_rejected_for_a_person_to_see() {
        let event = Event { content_type: "text/plain\r\nx: y", ..event(&[], b"{}") };
        let failure = compose(&settings(r#"{"url":"http://a/"}"#), &event, 0).unwrap_err();
        assert!(
            matches!(&failure, Failure::Rejected(it) if it.code == "invalid-content-type"),
            "{failure:?}"
        );
    }
}
