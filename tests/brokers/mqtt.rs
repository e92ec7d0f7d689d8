//! MQTT 5 and 3.1.1, with Mosquitto.

use std::collections::BTreeSet;
use std::process::Command;

use outhaul::store::{DeliveryStatus, LaneState, NewEvent};
use outhaul_tests::clients::{Got, Listener};
use outhaul_tests::servers::{self, Server, program};
use outhaul_tests::tls::Authority;

use crate::bus::Bus;
use crate::events::{assert_all_there, assert_keys_in_order, budget, event, numbered};
use crate::proxy::TlsProxy;

const CLIENT: &str = "mqtt_client.py";

const OPEN: &str = "allow_anonymous true";

fn listen(server: &Server, topic: &str) -> Listener {
    Listener::start(CLIENT, &[&server.port.to_string(), "listen", topic])
}

fn bus(server: &Server, settings: &str) -> Bus {
    Bus::new("mqtt", server.address(), settings)
}

/// Every event as a subscriber gets it, with this setting of `qos`.
async fn carried(qos: u8) -> Vec<Got> {
    let server = servers::mosquitto(OPEN);
    let listener = listen(&server, "shop/order/#");
    let running = bus(&server, &format!("topic = \"shop/{{topic}}\", qos = {qos}")).start().await;
    let events = numbered(budget());
    running.emit(&events).await;
    running.until_all_delivered(events.len()).await;
    running.stop();
    let got = listener.take_events(events.len());
    assert_all_there(&events, &got);
    assert_eq!(sent_twice(&got), 0);
    assert_keys_in_order(&got);
    got
}

/// How many came again by a message of its own. What a subscriber had not confirmed when its connection ended,
/// the broker repeats by itself, and says so.
fn sent_twice(got: &[Got]) -> usize {
    let sent: Vec<_> = got.iter().filter(|message| message.headers["dup"] == "False").collect();
    let ids: BTreeSet<_> = sent.iter().map(|message| message.id()).collect();
    sent.len() - ids.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_once_in_its_keys_order_with_its_exact_bytes() {
    let got = carried(1).await;
    let first = got.iter().find(|message| message.id() == "event-000000").unwrap();
    assert_eq!(
        (first.place.as_str(), first.headers["content-type"].as_str()),
        ("shop/order/created", "application/octet-stream")
    );
    assert_eq!((first.headers["id"].as_str(), first.headers["retain"].as_str()), ("event-000000", "False"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_once_with_qos_2_too() {
    carried(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_restarted_in_the_middle_loses_nothing_and_repeats_only_what_was_uncertain() {
    let mut server = servers::mosquitto(OPEN);
    let listener = listen(&server, "order/#");
    let running = bus(&server, "").start().await;
    let events = numbered(budget());
    // In good order: Mosquitto confirms before it writes, so kill -9 would lose what it confirmed.
    running.end_in_the_middle(&mut server, &events, Server::terminate).await;
    running.until_lane_is(LaneState::Paused).await;
    server.restart();
    running.until_all_delivered(events.len()).await;
    let rows = running.rows().await;
    let deferrals: u32 = rows.iter().map(|row| row.deferrals).sum();
    assert!(deferrals > 0, "the restart came after the last delivery");
    running.emit(&[event(events.len())]).await;
    running.until_all_delivered(events.len() + 1).await;
    running.stop();
    let got = listener.take_events(events.len() + 1);
    let all = numbered(events.len() + 1);
    assert_all_there(&all, &got);
    let repeated = sent_twice(&got);
    println!("{repeated} of {} events were sent twice", events.len());
    assert!(
        repeated <= deferrals as usize,
        "{repeated} were sent twice, and {deferrals} deliveries were deferred"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn mqtt_3_1_1_carries_the_payload_and_a_cloudevent_all_of_the_event() {
    let server = servers::mosquitto(OPEN);
    let listener = listen(&server, "order/#");
    let running = bus(&server, "version = \"3.1.1\", cloudevents = \"structured\"").start().await;
    running.emit(&[event(6)]).await;
    let got = listener.take(1).remove(0);
    running.until_delivered(1).await;
    running.stop();
    let body: serde_json::Value = serde_json::from_slice(&got.payload()).unwrap();
    assert_eq!(
        (&body["id"], &body["type"], &body["partitionkey"]),
        (&"event-000006".into(), &"order.created".into(), &"customer-6".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_cloudevent_is_there_for_who_comes_later() {
    let server = servers::mosquitto(OPEN);
    let running = bus(&server, "retain = true, cloudevents = \"binary\"").start().await;
    running.emit(&[event(6)]).await;
    running.until_delivered(1).await;
    running.stop();
    let got = listen(&server, "order/#").take(1).remove(0);
    assert_eq!(got.headers["retain"], "True");
    assert_eq!((got.headers["specversion"].as_str(), got.headers["id"].as_str()), ("1.0", "event-000006"));
}

/// The reason of the lane after one event.
async fn reason(bus: Bus) -> String {
    let running = bus.start().await;
    running.emit(&[event(9)]).await;
    let reason = running.until_stopped().await;
    running.stop();
    reason
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_or_a_topic_that_is_denied_stops_the_lane_and_the_right_ones_deliver() {
    let folder = tempfile::tempdir().unwrap();
    let passwords = folder.path().join("passwords");
    std::fs::write(&passwords, "shop:right\n").unwrap();
    // The tool hashes a file of passwords in place.
    let hashed = Command::new(program("mosquitto_passwd")).arg("-U").arg(&passwords).status().unwrap();
    assert!(hashed.success());
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "user shop\ntopic write order/#\n").unwrap();
    let config = format!("password_file {}\nacl_file {}", passwords.display(), rules.display());
    let server = servers::mosquitto(config.leak());
    let with = |password: &str, topic: &str| {
        let settings = format!("auth = {{ user = \"shop\", password = \"login\" }}, topic = \"{topic}\"");
        Bus { password: Some(password.to_owned()), ..bus(&server, &settings) }
    };
    let told = reason(with("wrong", "{topic}")).await;
    assert!(told.contains("setting auth"), "{told}");
    let told = reason(with("right", "secret/{topic}")).await;
    assert!(told.contains("secret/order/created") && told.contains("not authorized"), "{told}");
    let running = with("right", "{topic}").start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_a_dead_letter_that_names_the_limit() {
    let server = servers::mosquitto("allow_anonymous true\nmax_packet_size 2000");
    let running = bus(&server, "").start().await;
    running.emit(&[NewEvent { payload: vec![7; 3_000], ..event(1) }]).await;
    let row = running.until_ended(DeliveryStatus::Dead).await;
    let error = row.last_error.unwrap();
    assert!(error.contains("the broker takes 2000"), "{error}");
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_broker_leaves_the_outcome_uncertain_and_recovers() {
    let server = servers::mosquitto(OPEN);
    let running = bus(&server, "").start().await;
    running.emit(&[event(5)]).await;
    running.until_delivered(1).await;
    server.pause();
    running.emit(&[event(6)]).await;
    running.until_lane_is(LaneState::Paused).await;
    let attempted = running.attempted("event-000006").await;
    assert_eq!(attempted, ("unavailable".to_owned(), "no-answer".to_owned(), true));
    server.resume();
    running.until_delivered(2).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_of_an_unknown_authority_stops_the_lane_and_of_a_known_one_delivers() {
    let server = servers::mosquitto(OPEN);
    let (authority, stranger) = (Authority::default(), Authority::default());
    let proxy = TlsProxy::start(&authority, server.port).await;
    let folder = tempfile::tempdir().unwrap();
    let told = reason(proxy.bus("mqtt", "", folder.path(), &stranger)).await;
    assert!(told.contains("roots = \"ca.pem\""), "{told}");
    let running = proxy.bus("mqtt", "", folder.path(), &authority).start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_passes_the_conformance_cases() {
    let server = servers::mosquitto(OPEN);
    crate::conformance::passes("mqtt", &server.address()).await;
}
