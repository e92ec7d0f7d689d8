//! What every template does that posts events over HTTP: its component's name is the only difference.

use std::sync::Arc;
use std::time::Duration;

use crate::harness::{Lane, Plan, after, call, detail};
use crate::receiver::{Received, Receiver, bare_server, send};
use axum::body::Body;
use axum::http::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use outhaul::domain::Outcome;
use outhaul::plugin::Deliver;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::Barrier;

pub use crate::pools::*;
use crate::records;

/// All of them as tests of one component.
macro_rules! promises {
    ($component:literal: $($promise:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $promise() {
            crate::promises::$promise($component).await;
        })*
    };
    ($component:literal) => {
        crate::promises::promises! { $component:
            an_event_is_posted_whole_with_its_identity,
            s34_the_requests_of_many_events_share_a_few_connections,
            s35_bodies_around_a_buffers_size_and_past_two_mebibytes_go_out_whole,
            s36_a_pool_whose_replacements_fail_heals,
            s39_calls_under_way_end_on_the_generation_they_began_with,
            every_answer_has_its_meaning,
            s22_a_wish_to_wait_is_seconds_or_a_date_and_anything_else_is_none,
            nobody_listening_pauses_the_lane_and_costs_no_instance,
            silence_and_a_lost_answer_are_uncertain,
            a_request_that_the_config_does_not_allow_names_the_section_to_add,
            each_wrong_setting_is_refused_at_its_pointer,
            requests_are_signed_with_each_key_of_the_secret,
            a_secret_that_is_not_granted_shows_when_the_plugin_is_loaded,
            what_it_logs_comes_out,
            s38_it_fits_the_default_limits,
            s38_too_little_memory_is_said_at_load_with_the_setting_to_raise,
        }
    };
}
pub(crate) use promises;

fn plan(component: &str, receiver: &Receiver) -> Plan {
    let url = format!("{}/orders?shop=7", receiver.origin());
    Plan::of(component, json!({ "url": url })).reaching(&receiver.origin())
}

async fn answering(
    component: &str,
    answer: impl Fn(&Received) -> Response<Body> + Send + Sync + 'static,
) -> Lane {
    let receiver = Receiver::answering(answer).await;
    plan(component, &receiver).load().await
}

pub async fn an_event_is_posted_whole_with_its_identity(component: &str) {
    let receiver = Receiver::answering(|_| {
        Response::builder()
            .status(201)
            .header("Location", "/orders/9")
            .body(Body::from("made"))
            .expect("an answer")
    })
    .await;
    let lane = plan(component, &receiver).load().await;
    let mut call = call("{\"name\":\"Zoë\"}\0\u{1F600}".as_bytes());
    call.dedup_id = "d1e2".to_owned();
    call.event.content_type = "text/plain; charset=utf-8".to_owned();
    let Outcome::Delivered(receipt) = lane.deliver(call).await else { panic!("not delivered") };
    assert_eq!(receipt.reference.as_deref(), Some("/orders/9"));
    let request = receiver.only();
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/orders?shop=7"));
    assert_eq!(request.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(request.header("webhook-id"), Some("d1e2"));
    assert_eq!(request.header("user-agent"), Some("my-plugin/0.1.0"));
    assert_eq!(request.body, "{\"name\":\"Zoë\"}\0\u{1F600}");
}

pub async fn s35_bodies_around_a_buffers_size_and_past_two_mebibytes_go_out_whole(component: &str) {
    let receiver = Receiver::accepting().await;
    let lane = plan(component, &receiver).change(|spec| spec.limits.payload_bytes = 4 << 20).load().await;
    let sizes = [0, 1, 4095, 4096, 4097, 65_537, (2 << 20) + 1];
    for size in sizes {
        let payload: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let outcome = lane.send(&payload).await;
        assert!(outcome.is_success(), "{size}: {outcome:?}");
        assert!(receiver.received().last().is_some_and(|received| received.body == payload), "{size}");
    }
    assert_eq!(receiver.received().len(), sizes.len());
}

pub async fn every_answer_has_its_meaning(component: &str) {
    let lane = answering(component, |request| {
        let wanted: u16 = String::from_utf8_lossy(&request.body).parse().expect("a status");
        Response::builder()
            .status(wanted)
            .header("Retry-After", "7")
            .body(Body::from(" why \n"))
            .expect("an answer")
    })
    .await;
    for (status, kind) in [
        (200, "delivered"),
        (299, "delivered"),
        (301, "retry"),
        (400, "rejected"),
        (401, "misconfigured"),
        (403, "misconfigured"),
        (404, "retry"),
        (409, "conflict"),
        (410, "gone"),
        (413, "rejected"),
        (415, "rejected"),
        (422, "rejected"),
        (429, "rate-limited"),
        (500, "retry"),
        (502, "unavailable"),
        (503, "unavailable"),
        (504, "unavailable"),
    ] {
        let outcome = lane.send(status.to_string().as_bytes()).await;
        assert_eq!(outcome.kind(), kind, "{status}: {outcome:?}");
        assert_eq!(outcome.is_uncertain(), matches!(status, 502 | 504), "{status}");
        if kind == "delivered" {
            continue;
        }
        assert_eq!(detail(&outcome).code, format!("http-{status}"));
        assert_eq!(detail(&outcome).message, format!("the receiver answered {status}: why"));
        if matches!(kind, "retry" | "rate-limited" | "unavailable") {
            assert_eq!(after(&outcome), Some(Duration::from_secs(7)), "{status}");
        }
    }
    assert_eq!(lane.stats().instances_created, 1);
}

/// A receiver that answers none before it has all shows that one does not wait for another.
pub async fn events_of_a_batch_are_under_way_at_once_and_each_keeps_its_outcome(component: &str) {
    const EVENTS: usize = 8;
    let all = Arc::new(Barrier::new(EVENTS));
    let address = bare_server(move |mut stream| {
        let all = all.clone();
        async move {
            all.wait().await;
            send(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    })
    .await;
    let origin = format!("http://{address}");
    let lane = Plan::of(component, json!({ "url": origin })).reaching(&origin).load().await;
    let mut calls = vec![call(b"{}"); EVENTS];
    // A type that is no header's value: this event can't be sent, and the others are.
    calls.insert(3, call(b"{}"));
    calls[3].event.content_type = "text/plain\r\nx: y".to_owned();
    let outcomes = lane.plugin.deliver_batch(calls).await;
    let kinds: Vec<_> = outcomes.iter().map(Outcome::kind).collect();
    let mut expected = ["delivered"; EVENTS + 1];
    expected[3] = "rejected";
    assert_eq!(kinds, expected, "{outcomes:?}");
    assert_eq!(lane.stats().instances_created, 1);
}

/// Answers with bodies keep their connections until they are read, and a large request can't be written before it
/// has one.
pub async fn a_batch_of_more_events_than_the_host_has_connections_goes_out_whole(component: &str) {
    let receiver = Receiver::answering(|_| Response::new(Body::from("x".repeat(1_000)))).await;
    let lane = plan(component, &receiver).change(|spec| spec.limits.http.connections = 33).load().await;
    let mut large = call(&[b'x'; 200_000]);
    large.budget = Duration::from_secs(10);
    let outcomes = lane.plugin.deliver_batch(vec![large; 50]).await;
    assert!(outcomes.iter().all(Outcome::is_success), "{outcomes:?}");
    assert_eq!((receiver.received().len(), lane.stats().instances_created), (50, 1));
}

pub async fn s22_a_wish_to_wait_is_seconds_or_a_date_and_anything_else_is_none(component: &str) {
    let lane = answering(component, |request| {
        let wish = request.body.to_vec();
        Response::builder().status(429).header("Retry-After", wish).body(Body::empty()).expect("an answer")
    })
    .await;
    for (wish, expected_s) in [
        ("120", Some(120..=120)),
        ("0", Some(0..=0)),
        // Far away, so that the host's cap answers, whatever it is now.
        ("Fri, 31 Dec 2100 23:59:59 GMT", Some(3_600..=u64::MAX)),
        ("99999999999999999999999", Some(3_600..=u64::MAX)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("2026", Some(2026..=2026)),
    ] {
        let outcome = lane.send(wish.as_bytes()).await;
        assert_eq!(outcome.kind(), "rate-limited");
        let wait_s = after(&outcome).map(|wait| wait.as_secs());
        match expected_s {
            Some(range) => assert!(wait_s.is_some_and(|wait| range.contains(&wait)), "{wish:?}: {wait_s:?}"),
            None => assert_eq!(wait_s, None, "{wish:?}"),
        }
    }
}

pub async fn nobody_listening_pauses_the_lane_and_costs_no_instance(component: &str) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let lane = Plan::of(component, json!({ "url": origin })).reaching(&origin).load().await;
    for _ in 0..3 {
        let outcome = lane.send(b"{}").await;
        assert_eq!(outcome.kind(), "unavailable", "{outcome:?}");
        assert!(!outcome.is_uncertain());
        assert!(detail(&outcome).message.contains("can't be reached"), "{outcome:?}");
    }
    assert_eq!(lane.stats().instances_created, 1);
}

pub async fn silence_and_a_lost_answer_are_uncertain(component: &str) {
    let silent = bare_server(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let cut = bare_server(|mut stream| async move { send(&mut stream, "HTTP/1.1 200 O").await }).await;
    for address in [silent, cut] {
        let origin = format!("http://{address}");
        let settings = json!({ "url": origin, "timeout_ms": 300 });
        let lane = Plan::of(component, settings).reaching(&origin).load().await;
        let outcome = lane.send(b"{}").await;
        assert_eq!(outcome.kind(), "retry", "{outcome:?}");
        assert!(outcome.is_uncertain());
        assert_eq!(lane.stats().timeouts, 0);
    }
}

pub async fn a_request_that_the_config_does_not_allow_names_the_section_to_add(component: &str) {
    let receiver = Receiver::accepting().await;
    let lane = Plan::of(component, json!({ "url": receiver.origin() })).load().await;
    let outcome = lane.send(b"{}").await;
    assert_eq!(outcome.kind(), "misconfigured", "{outcome:?}");
    assert!(detail(&outcome).message.contains("[[destination.NAME.http]]"), "{outcome:?}");
    assert!(receiver.received().is_empty());
}

pub async fn each_wrong_setting_is_refused_at_its_pointer(component: &str) {
    let url = "http://127.0.0.1:1";
    let cases: [(Value, &[&str]); 8] = [
        (json!({}), &["/url: must be an address"]),
        (json!({ "url": "ftp://127.0.0.1" }), &["/url: "]),
        (json!({ "url": "http://user:word@127.0.0.1" }), &["/url: "]),
        (json!({ "url": url, "timeout_ms": 0 }), &["/timeout_ms: "]),
        (json!({ "url": url, "timeout_ms": true }), &["/timeout_ms: "]),
        (json!({ "url": url, "signing_secret": 5 }), &["/signing_secret: "]),
        (json!({ "url": url, "ti/me": 1 }), &["/ti~1me: unknown", "url, timeout_ms, signing_secret"]),
        (json!({ "url": 1, "timeout_ms": "2" }), &["/url: ", "/timeout_ms: "]),
    ];
    for (settings, words) in cases {
        let message = Plan::of(component, settings.clone()).refusal().await;
        for word in words {
            assert!(message.contains(word), "{settings}: {message}");
        }
    }
}

pub async fn requests_are_signed_with_each_key_of_the_secret(component: &str) {
    let receiver = Receiver::accepting().await;
    let folder = tempfile::tempdir().expect("a folder");
    let keys: [&[u8]; 2] = [b"the new key", b"the old key"];
    let settings = json!({ "url": receiver.origin(), "signing_secret": "signing" });
    let plan = Plan::of(component, settings).reaching(&receiver.origin());
    let lane = plan.signing(folder.path(), &keys, &["hmac-sha256"]).load().await;
    assert!(lane.send(b"{\"order\":1}").await.is_success());
    let request = receiver.only();
    let header = |name| request.header(name).expect("it is signed");
    let signed = format!("{}.{}.{{\"order\":1}}", header("webhook-id"), header("webhook-timestamp"));
    let expected = keys.map(|key| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length will do");
        mac.update(signed.as_bytes());
        format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    });
    assert_eq!(header("webhook-signature"), expected.join(" "));
}

pub async fn a_secret_that_is_not_granted_shows_when_the_plugin_is_loaded(component: &str) {
    let settings = json!({ "url": "http://127.0.0.1:1", "signing_secret": "signing" });
    let message = Plan::of(component, settings).refusal().await;
    assert!(message.contains("/signing_secret: "), "{message}");
    assert!(message.contains("secrets.signing"), "{message}");
}

pub async fn what_it_logs_comes_out(component: &str) {
    records::keep();
    let plan = Plan::of(component, json!({ "url": "http://127.0.0.1:1/here" }));
    let destination = plan.spec.destination.clone();
    plan.load().await;
    let expected = ("INFO".to_owned(), "posting to http://127.0.0.1:1/here".to_owned());
    assert_eq!(records::of(&destination), [expected]);
}

/// With the most that an event may hold by default, on each of several warm instances.
pub async fn s38_it_fits_the_default_limits(component: &str) {
    let receiver = Receiver::accepting().await;
    let lane = plan(component, &receiver).change(|spec| spec.concurrency = 3).load().await;
    let mut largest = call(b"");
    largest.payload = Bytes::from(vec![b'x'; 1 << 20]);
    largest.event.payload_bytes = 1 << 20;
    for _ in 0..5 {
        let calls = (0..3).map(|_| lane.deliver(largest.clone()));
        for outcome in futures_util::future::join_all(calls).await {
            assert!(outcome.is_success(), "{outcome:?}");
        }
    }
    let stats = lane.stats();
    assert_eq!((stats.instances_dropped, stats.out_of_memory), (0, 0));
}

pub async fn s38_too_little_memory_is_said_at_load_with_the_setting_to_raise(component: &str) {
    let plan = Plan::of(component, json!({ "url": "http://127.0.0.1:1" }));
    let message = plan.change(|spec| spec.limits.memory_bytes = 4 << 20).refusal().await;
    assert!(message.contains("limits.memory"), "{message}");
}
