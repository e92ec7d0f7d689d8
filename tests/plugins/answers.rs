//! What the http plugin makes of answers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::Response;
use serde_json::json;

use crate::harness::{after, call, detail, http};
use crate::receiver::{Received, Receiver, bare_server, send, status};

/// Answers with the status that the path ends with, and the payload as `Retry-After`.
fn as_asked(request: &Received) -> Response<Body> {
    let asked = request.target.rsplit('/').next().unwrap().parse().unwrap();
    let mut answer = status(asked);
    if !request.body.is_empty() {
        answer.headers_mut().insert("retry-after", String::from_utf8_lossy(&request.body).parse().unwrap());
    }
    answer
}

#[tokio::test]
async fn every_answer_has_its_documented_outcome_and_redirects_are_not_followed() {
    let receiver = Receiver::answering(as_asked).await;
    let origin = receiver.origin();
    let table = [
        (200, "delivered"),
        (202, "delivered"),
        (204, "delivered"),
        (301, "retry"),
        (302, "retry"),
        (304, "retry"),
        (400, "rejected"),
        (401, "misconfigured"),
        (403, "misconfigured"),
        (404, "retry"),
        (405, "retry"),
        (408, "retry"),
        (409, "retry"),
        (410, "gone"),
        (413, "rejected"),
        (415, "rejected"),
        (418, "retry"),
        (422, "rejected"),
        (425, "retry"),
        (429, "rate-limited"),
        (500, "retry"),
        (501, "retry"),
        (502, "unavailable"),
        (503, "unavailable"),
        (504, "unavailable"),
    ];
    for (status, kind) in table {
        let lane = http(json!({ "url": format!("{origin}/{status}") })).reaching(&origin).load().await;
        let outcome = lane.send(b"").await;
        assert_eq!(outcome.kind(), kind, "{status}");
        if !outcome.is_success() {
            assert_eq!(detail(&outcome).code, format!("http-{status}"));
        }
    }
    assert_eq!(receiver.received().len(), table.len());
}

#[tokio::test]
async fn the_operator_can_say_what_a_status_means() {
    let receiver = Receiver::answering(as_asked).await;
    let origin = receiver.origin();
    for (status, kind) in [(409, "duplicate"), (404, "gone"), (451, "rejected"), (500, "retry")] {
        let overrides = json!({ "409": "duplicate", "404": "gone", "4xx": "rejected" });
        let settings = json!({ "url": format!("{origin}/{status}"), "status": overrides });
        let outcome = http(settings).reaching(&origin).load().await.send(b"").await;
        assert_eq!(outcome.kind(), kind, "{status}");
    }
}

#[tokio::test]
async fn s22_retry_after_as_seconds_date_negative_a_year_and_garbage() {
    let receiver = Receiver::answering(as_asked).await;
    let origin = receiver.origin();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for (status, kind) in [(429, "rate-limited"), (503, "unavailable"), (500, "retry")] {
        let lane = http(json!({ "url": format!("{origin}/{status}") })).reaching(&origin).load().await;
        for (text, expected) in [
            ("120", Some(Duration::from_secs(120))),
            ("31536000", Some(Duration::from_secs(31_536_000))),
            ("-5", None),
            ("soon", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ] {
            let outcome = lane.send(text.as_bytes()).await;
            assert_eq!((outcome.kind(), after(&outcome)), (kind, expected), "{status} {text}");
        }
        let outcome = lane.send(b"Fri, 31 Dec 9999 23:59:59 GMT").await;
        let expected = Duration::from_secs(253_402_300_799) - now;
        assert!(after(&outcome).unwrap().abs_diff(expected) < Duration::from_secs(600), "{outcome:?}");
    }
}

#[tokio::test]
async fn the_beginning_of_the_answer_is_kept_for_the_person_who_reads_the_history() {
    let receiver = Receiver::answering(|_| {
        let body = format!("{{\"error\":\"no such shop\"}}{}", " padding".repeat(10_000));
        Response::builder().status(422).body(body.into()).unwrap()
    })
    .await;
    let lane = http(json!({ "url": receiver.origin() })).reaching(&receiver.origin()).load().await;
    let outcome = lane.send(b"{}").await;
    let message = &detail(&outcome).message;
    assert!(message.starts_with("the receiver answered 422: {\"error\":\"no such shop\"}"), "{message}");
    assert!(message.len() < 400, "{}", message.len());
}

/// S27: the status is known, and a body that trickles in for ever does not hold the call.
#[tokio::test]
async fn s27_a_body_of_a_byte_a_second_does_not_change_or_delay_the_outcome() {
    let address = bare_server(|mut stream| async move {
        send(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
        loop {
            send(&mut stream, "x").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    let origin = format!("http://{address}");
    let lane = http(json!({ "url": origin })).reaching(&origin).load().await;
    let mut call = call(b"{}");
    call.budget = Duration::from_secs(30);
    let delivered = tokio::time::timeout(Duration::from_secs(15), lane.deliver(call)).await;
    assert!(delivered.expect("the call outlasted what its outcome needs").is_success());
}

#[tokio::test]
async fn s27_ten_thousand_headers_and_a_body_without_end_are_an_ordinary_failure_or_success() {
    let headers = bare_server(|mut stream| async move {
        let many: String = (0..10_000).map(|n| format!("x-{n}: y\r\n")).collect();
        send(&mut stream, &format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n")).await;
    })
    .await;
    let origin = format!("http://{headers}");
    let outcome = http(json!({ "url": origin })).reaching(&origin).load().await.send(b"{}").await;
    assert_eq!(outcome.kind(), "retry", "{outcome:?}");
    assert!(outcome.is_uncertain());

    let endless = bare_server(|mut stream| async move {
        send(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        for _ in 0..100_000 {
            if tokio::io::AsyncWriteExt::write_all(&mut stream, chunk.as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await;
    let origin = format!("http://{endless}");
    let outcome = http(json!({ "url": origin })).reaching(&origin).load().await.send(b"{}").await;
    assert!(outcome.is_success(), "{outcome:?}");
}
