//! What the http plugin makes of requests without an answer: whether they may have left decides.

use std::time::Duration;

use outhaul::domain::HostFailure;
use serde_json::json;
use tokio::net::TcpListener;

use crate::harness::{detail, http};
use crate::receiver::{Receiver, bare_server, send};

/// A port that nobody listens on: it was free a moment ago, and a listener kept it from others.
async fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn a_refused_connection_is_unavailable_and_certain() {
    let origin = format!("http://127.0.0.1:{}", closed_port().await);
    let outcome = http(json!({ "url": origin })).reaching(&origin).load().await.send(b"{}").await;
    assert_eq!((outcome.kind(), outcome.is_uncertain()), ("unavailable", false), "{outcome:?}");
    assert_eq!(detail(&outcome).code, "connection-refused");
}

#[tokio::test]
async fn failed_tls_is_unavailable_and_certain() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("https://{}", server.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = server.accept().await {
            send(&mut stream, "HTTP/1.1 400 this is no TLS\r\n\r\n").await;
        }
    });
    let outcome = http(json!({ "url": origin })).reaching(&origin).load().await.send(b"{}").await;
    assert_eq!((outcome.kind(), outcome.is_uncertain()), ("unavailable", false), "{outcome:?}");
    assert!(detail(&outcome).code.starts_with("tls-"), "{outcome:?}");
}

#[tokio::test]
async fn no_answer_after_the_request_left_is_a_retry_that_may_have_been_applied() {
    let silent = bare_server(|stream| async move {
        let _held_open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let origin = format!("http://{silent}");
    let settings = json!({ "url": origin, "timeout": "300ms" });
    let outcome = http(settings).reaching(&origin).load().await.send(b"{}").await;
    assert_eq!((outcome.kind(), outcome.is_uncertain()), ("retry", true), "{outcome:?}");
    assert_eq!(detail(&outcome).code, "timeout");
}

#[tokio::test]
async fn the_plugin_reports_a_timeout_before_the_host_ends_the_call() {
    let silent = bare_server(|stream| async move {
        let _held_open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let origin = format!("http://{silent}");
    let plan = http(json!({ "url": origin, "timeout": "1h" })).reaching(&origin);
    let lane = plan.change(|spec| spec.limits.call = Duration::from_secs(2)).load().await;
    let outcome = lane.send(b"{}").await;
    assert_eq!((outcome.kind(), detail(&outcome).code.as_str()), ("retry", "timeout"), "{outcome:?}");
    assert_ne!(outcome.kind(), HostFailure::Deadline.as_str());
}

#[tokio::test]
async fn a_connection_that_ends_before_the_whole_answer_may_have_been_applied() {
    for answer in ["", "HTTP/1.1 20", "nonsense\r\n\r\n"] {
        let address = bare_server(move |mut stream| async move { send(&mut stream, answer).await }).await;
        let origin = format!("http://{address}");
        let outcome = http(json!({ "url": origin })).reaching(&origin).load().await.send(b"{}").await;
        assert_eq!((outcome.kind(), outcome.is_uncertain()), ("retry", true), "{answer:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn an_origin_that_was_not_granted_stops_the_lane_and_says_what_to_add() {
    let receiver = Receiver::accepting().await;
    let outcome = http(json!({ "url": receiver.origin() })).load().await.send(b"{}").await;
    assert_eq!((outcome.kind(), outcome.is_uncertain()), ("misconfigured", false), "{outcome:?}");
    let message = &detail(&outcome).message;
    assert!(message.contains(&receiver.address.to_string()), "{message}");
    assert!(message.contains("[[destination.NAME.http]]"), "{message}");
    assert_eq!(receiver.received().len(), 0);
}

#[tokio::test]
async fn s26_a_private_address_is_refused_unless_it_was_granted_as_one() {
    let receiver = Receiver::accepting().await;
    let plan = http(json!({ "url": receiver.origin() })).reaching(&receiver.origin());
    let outcome = plan.change(|spec| spec.http[0].private = false).load().await.send(b"{}").await;
    assert_eq!((outcome.kind(), outcome.is_uncertain()), ("misconfigured", false), "{outcome:?}");
    assert!(detail(&outcome).message.contains("private = true"), "{outcome:?}");
    assert_eq!(receiver.received().len(), 0);
}

#[tokio::test]
async fn an_answer_that_comes_before_the_whole_request_counts() {
    // Reads the head only, refuses and keeps the connection open: the body never gets out.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; 64];
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut head).await;
                send(&mut stream, "HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n").await;
                std::future::pending::<()>().await;
            });
        }
    });
    let plan = http(json!({ "url": origin })).reaching(&origin);
    let lane = plan.change(|spec| spec.limits.payload_bytes = 32 << 20).load().await;
    let outcome = lane.send(&vec![b'x'; 16 << 20]).await;
    assert_eq!(outcome.kind(), "rejected", "{outcome:?}");
    assert_eq!(detail(&outcome).code, "http-413");
}
