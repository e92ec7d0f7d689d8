//! What the http plugin sends.

use outhaul::domain::Outcome;
use serde_json::{Value, json};

use crate::harness::{call, http};
use crate::receiver::{Receiver, status};

#[tokio::test]
async fn a_webhook_arrives_byte_for_byte_with_its_length_and_a_stable_id() {
    let receiver = Receiver::accepting().await;
    let origin = receiver.origin();
    let settings = json!({ "url": format!("{origin}/orders?shop=1"), "headers": { "X-Shop": "north" } });
    let lane = http(settings).reaching(&origin).load().await;
    let payload = b"{ \"odd\" :  1.10 }\r\n\x00\xff";
    assert!(lane.send(payload).await.is_success());
    let mut again = call(payload);
    again.attempt = 2;
    assert!(lane.deliver(again).await.is_success());

    let received = receiver.received();
    assert_eq!(received.len(), 2);
    for request in &received {
        assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/orders?shop=1"));
        assert_eq!(&request.body[..], payload);
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("content-length"), Some("21"));
        assert_eq!(request.header("transfer-encoding"), None);
        assert_eq!(request.header("x-shop"), Some("north"));
        assert_eq!(request.header("webhook-id"), Some("order-1"));
        assert!(request.header("webhook-timestamp").unwrap().parse::<u64>().unwrap() > 1_700_000_000);
        assert_eq!(request.header("webhook-signature"), None);
    }
}

#[tokio::test]
async fn an_id_with_a_dot_is_sent_as_its_hash() {
    let receiver = Receiver::accepting().await;
    let lane = http(json!({ "url": receiver.origin() })).reaching(&receiver.origin()).load().await;
    let mut call = call(b"{}");
    call.dedup_id = "a.b".to_owned();
    assert!(lane.deliver(call).await.is_success());
    let expected = "2e7336dc8eba87ef472df568c35482abf2575dc3e5eac0c5c62b8ffaeac2c934";
    assert_eq!(receiver.only().header("webhook-id"), Some(expected));
}

#[tokio::test]
async fn the_producers_trace_goes_on_at_the_receiver_and_its_other_headers_stay_here() {
    let receiver = Receiver::accepting().await;
    let lane = http(json!({ "url": receiver.origin() })).reaching(&receiver.origin()).load().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut call = call(b"{}");
    call.event.headers =
        [("TraceParent", trace), ("tracestate", "shop=1"), ("x-internal", "1")].map(own).to_vec();
    assert!(lane.deliver(call).await.is_success());
    let request = receiver.only();
    assert_eq!(request.header("traceparent"), Some(trace));
    assert_eq!(request.header("tracestate"), Some("shop=1"));
    assert_eq!(request.header("x-internal"), None);
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test]
async fn s35_bodies_around_the_size_of_a_chunk_and_past_two_mebibytes_go_out_whole() {
    let receiver = Receiver::accepting().await;
    let plan = http(json!({ "url": receiver.origin() })).reaching(&receiver.origin());
    let lane = plan.change(|spec| spec.limits.payload_bytes = 8 << 20).load().await;
    let sizes = [0, 1, 4095, 4096, 4097, 65_536, 1 << 20, (2 << 20) + 1, 5 << 20];
    for size in sizes {
        let payload: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        let outcome = lane.send(&payload).await;
        assert!(outcome.is_success(), "{size}: {outcome:?}");
        let received = receiver.received();
        assert!(received.last().unwrap().body == payload, "{size} bytes differ");
    }
    assert_eq!(receiver.received().len(), sizes.len());
}

#[tokio::test]
async fn s34_requests_one_after_the_other_share_one_connection() {
    let receiver = Receiver::answering(|_| {
        axum::http::Response::builder().status(200).body("a body that is read to its end".into()).unwrap()
    })
    .await;
    let plan = http(json!({ "url": receiver.origin() })).reaching(&receiver.origin());
    // A request waits for the one before it to give its connection back, however late that is.
    let lane = plan.change(|spec| spec.limits.http.connections = 1).load().await;
    for number in 1..=1_000 {
        let outcome = lane.send(b"{}").await;
        assert!(outcome.is_success(), "request {number}: {outcome:?}");
    }
    let stats = lane.plugin.stats();
    assert_eq!((stats.http_requests, stats.http_connections_opened), (1_000, 1));
    // More requests than an instance may hold handles: none is left behind by a request.
    assert_eq!(stats.instances_created, 1);
}

#[tokio::test]
async fn cloudevents_in_binary_mode_keep_the_payload_and_add_headers() {
    let receiver = Receiver::accepting().await;
    let settings = json!({ "url": receiver.origin(), "method": "PUT", "cloudevents": "binary" });
    let lane = http(settings).reaching(&receiver.origin()).load().await;
    let mut call = call(b"{\"n\":1}");
    call.event.key = Some("customer 7".to_owned());
    assert!(lane.deliver(call).await.is_success());
    let request = receiver.only();
    assert_eq!(request.method, "PUT");
    assert_eq!(&request.body[..], b"{\"n\":1}");
    for (name, value) in [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "order-1"),
        ("ce-source", "/outhaul"),
        ("ce-type", "order.created"),
        ("ce-time", "1994-11-06T08:49:37.000000Z"),
        ("ce-partitionkey", "customer%207"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn cloudevents_in_structured_mode_are_one_json_text() {
    let receiver = Receiver::accepting().await;
    let settings =
        json!({ "url": receiver.origin(), "cloudevents": { "mode": "structured", "source": "/shop" } });
    let lane = http(settings).reaching(&receiver.origin()).load().await;
    assert!(lane.send(b"{\"n\":1}").await.is_success());
    let mut binary = call(b"\x00\xff");
    binary.event.content_type = "application/octet-stream".to_owned();
    binary.event.tenant = "north".to_owned();
    assert!(lane.deliver(binary).await.is_success());

    let bodies: Vec<Value> = receiver
        .received()
        .iter()
        .map(|request| {
            assert_eq!(request.header("content-type"), Some("application/cloudevents+json; charset=utf-8"));
            serde_json::from_slice(&request.body).unwrap()
        })
        .collect();
    assert_eq!(bodies[0]["data"], json!({ "n": 1 }));
    assert_eq!(bodies[0]["source"], json!("/shop"));
    assert_eq!(bodies[0].get("tenant"), None);
    assert_eq!(bodies[1]["data_base64"], json!("AP8="));
    assert_eq!(bodies[1]["tenant"], json!("north"));
}

#[tokio::test]
async fn the_receivers_name_for_what_it_stored_is_kept() {
    let receiver = Receiver::answering(|_| {
        let mut answer = status(201);
        answer.headers_mut().insert("location", "/orders/77".parse().unwrap());
        answer
    })
    .await;
    let lane = http(json!({ "url": receiver.origin() })).reaching(&receiver.origin()).load().await;
    let Outcome::Delivered(receipt) = lane.send(b"{}").await else { panic!("not delivered") };
    assert_eq!(receipt.reference.as_deref(), Some("/orders/77"));
}
