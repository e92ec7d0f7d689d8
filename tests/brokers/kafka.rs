//! Kafka: partitions by key, batches that are stored once however often they are sent, and who must act on
//! what Kafka says. What takes a broker of its own, which ends or stands still, is in `kafka_outages`.

use outhaul::store::{DeliveryStatus, NewEvent};
use outhaul_tests::clients::Got;
use outhaul_tests::servers::{Kafka, PASSWORD};
use outhaul_tests::tls::Authority;

use crate::bus::Bus;
use crate::databases::Scene;
use crate::events::{assert_all_there, assert_keys_in_order, budget, event, numbered};
use crate::host::outhaul;
use crate::lossy::Lossy;

/// To a topic of this name, with further settings.
pub fn bus(kafka: &Kafka, topic: &str, settings: &str) -> Bus {
    Bus::new("kafka", kafka.address(), &format!("topic = \"{topic}\"{settings}"))
}

/// By the port for logins.
fn login(kafka: &Kafka, topic: &str, mechanism: &str, password: &str) -> Bus {
    let auth = format!(", auth = {{ mechanism = \"{mechanism}\", user = \"shop\", password = \"login\" }}");
    let address = format!("127.0.0.1:{}", kafka.ports.login);
    Bus { address, password: Some(password.to_owned()), ..bus(kafka, topic, &auth) }
}

/// The reason of the lane after one event.
pub async fn reason(bus: Bus) -> String {
    let running = bus.start().await;
    running.emit(&[event(9)]).await;
    let reason = running.until_stopped().await;
    running.stop();
    reason
}

/// Delivers events and reads them back.
async fn arrive(kafka: &Kafka, topic: &str, bus: Bus, events: &[NewEvent]) -> Vec<Got> {
    let running = bus.start().await;
    running.emit(events).await;
    running.until_all_delivered(events.len()).await;
    running.stop();
    let got = kafka.read(topic);
    assert_eq!(assert_all_there(events, &got), 0, "nothing is there twice");
    got
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_stored_once_in_its_keys_partition_and_order_with_its_exact_bytes() {
    let kafka = Kafka::shared();
    kafka.client(&["create", "all", "7"]);
    kafka.client(&["create", "compared", "7"]);
    let running = bus(&kafka, "all", "").start().await;
    let events = numbered(budget());
    running.emit(&events).await;
    running.until_all_delivered(events.len()).await;
    let reference = running.rows().await[0].reference.clone().unwrap();
    assert!(reference.starts_with("all/"), "{reference}");
    running.stop();
    let got = kafka.read("all");
    assert_eq!(assert_all_there(&events, &got), 0, "nothing is there twice");
    assert_keys_in_order(&got);
    let chosen = kafka.partitions("compared", 150);
    for message in &got {
        let key = &message.headers["record key"];
        assert_eq!(key, &message.headers["Outhaul-Key"]);
        assert_eq!(message.headers["record partition"], chosen[key].to_string(), "{key}");
    }
    let first = got.iter().find(|message| message.id() == "event-000000").unwrap();
    assert_eq!((first.headers["id"].as_str(), first.place.as_str()), ("event-000000", "all"));
    assert_eq!(first.headers["content-type"], "application/octet-stream");
    assert!(first.headers["record time"].len() == 13, "milliseconds: {}", first.headers["record time"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_compression_is_one_that_kafka_and_its_client_read() {
    let kafka = Kafka::shared();
    for compression in ["gzip", "snappy", "lz4", "zstd"] {
        kafka.create(compression);
        let bus = bus(&kafka, compression, &format!(", compression = \"{compression}\""));
        arrive(&kafka, compression, bus, &numbered(40)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloudevent_has_its_attributes_as_headers_or_is_one_json_text() {
    let kafka = Kafka::shared();
    kafka.create("binary");
    let binary = bus(&kafka, "binary", ", cloudevents = \"binary\"");
    let got = arrive(&kafka, "binary", binary, &[event(9)]).await;
    assert_eq!(got[0].headers["ce_id"], "event-000009");
    assert_eq!(got[0].headers["ce_type"], "order.created");
    kafka.create("structured");
    let running = bus(&kafka, "structured", ", cloudevents = \"structured\"").start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
    let got = kafka.read("structured");
    let body: serde_json::Value = serde_json::from_slice(&got[0].payload()).unwrap();
    assert_eq!((&body["id"], &body["type"]), (&"event-000009".into(), &"order.created".into()));
    assert_eq!(got[0].headers["content-type"], "application/cloudevents+json; charset=utf-8");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_whose_confirmation_was_lost_is_sent_again_and_stored_once() {
    let kafka = Kafka::shared();
    kafka.create("lossy");
    let network = Lossy::start(kafka.ports.front, kafka.ports.behind, 3).await;
    let address = format!("127.0.0.1:{}", kafka.ports.front);
    let running = Bus { address, ..bus(&kafka, "lossy", "") }.start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    let row = running.row("event-000009").await;
    assert_eq!((network.losses_left(), row.attempts, row.deferrals, row.uncertain), (0, 1, 0, false));
    running.stop();
    assert_eq!(assert_all_there(&[event(9)], &kafka.read("lossy")), 0, "it is there once");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_login_delivers_and_a_wrong_or_missing_one_stops_the_lane() {
    let kafka = Kafka::shared();
    kafka.create("logins");
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let told = reason(login(&kafka, "logins", mechanism, "wrong")).await;
        assert!(told.contains("refuses the login") && told.contains("setting auth"), "{told}");
        let running = login(&kafka, "logins", mechanism, PASSWORD).start().await;
        running.emit(&[event(9)]).await;
        running.until_delivered(1).await;
        running.stop();
    }
    let missing = Bus { address: format!("127.0.0.1:{}", kafka.ports.login), ..bus(&kafka, "logins", "") };
    let told = reason(missing).await;
    assert!(told.contains("wants a login on this port (") && told.contains("SCRAM-SHA-512"), "{told}");
    let needless = Bus { address: kafka.address(), ..login(&kafka, "logins", "PLAIN", PASSWORD) };
    let told = reason(needless).await;
    assert!(told.contains("takes no login on this port; remove the setting auth"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_the_right_stops_the_lane() {
    let kafka = Kafka::shared();
    kafka.create("forbidden");
    kafka.client(&["deny", "shop", "forbidden"]);
    let told = reason(login(&kafka, "forbidden", "PLAIN", PASSWORD)).await;
    assert!(
        told.contains("may not write to the topic \"forbidden\"") && told.contains("give it WRITE"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_there_stops_the_lane_or_is_made() {
    let kafka = Kafka::shared();
    let told = reason(bus(&kafka, "nowhere", "")).await;
    assert!(told.contains("has no topic \"nowhere\"") && told.contains("create_topics"), "{told}");
    let made = bus(&kafka, "made.{topic}", ", create_topics = true");
    arrive(&kafka, "made.order.created", made, &[event(9)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_too_large_or_has_no_key_is_a_dead_letter_and_the_others_of_its_batch_arrive() {
    let kafka = Kafka::shared();
    kafka.client(&["create", "small", "1", "{\"max.message.bytes\": \"65536\"}"]);
    kafka.client(&["create", "compacted", "1", "{\"cleanup.policy\": \"compact\"}"]);
    let large = NewEvent { payload: vec![7; 70_000], ..event(9) };
    let without_key = NewEvent { key: None, ..event(9) };
    for (topic, odd, word) in [("small", large, "max.message.bytes"), ("compacted", without_key, "key")] {
        let running = bus(&kafka, topic, "").start().await;
        let mut events: Vec<NewEvent> = (10..30).map(event).collect();
        events.insert(10, odd);
        running.emit(&events).await;
        let row = running.until_ended(DeliveryStatus::Dead).await;
        let error = row.last_error.unwrap();
        assert!(error.contains(word), "{error}");
        running.until_delivered(20).await;
        assert!(running.rows().await.iter().all(|row| row.attempts == 1), "only the one was at fault");
        running.stop();
        events.remove(10);
        assert_eq!(assert_all_there(&events, &kafka.read(topic)), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_of_an_unknown_authority_stops_the_lane_and_of_a_known_one_delivers() {
    let kafka = Kafka::shared();
    kafka.create("secured");
    let folder = tempfile::tempdir().unwrap();
    let with = |authority: &Authority| {
        let roots = folder.path().join("roots.pem");
        std::fs::write(&roots, &authority.pem).unwrap();
        let endpoint = format!("tls = true\nroots = \"{}\"\n", roots.display());
        Bus { endpoint, address: format!("localhost:{}", kafka.ports.tls), ..bus(&kafka, "secured", "") }
    };
    let told = reason(with(&Authority::default())).await;
    assert!(told.contains("roots = \"ca.pem\""), "{told}");
    let plain = Bus { endpoint: String::new(), ..with(&kafka.authority) };
    let told = reason(plain).await;
    assert!(told.contains("speaks TLS on this port; add  tls = true"), "{told}");
    let got = arrive(&kafka, "secured", with(&kafka.authority), &[event(9)]).await;
    assert_eq!(got.len(), 1);
    // With a login, too.
    let both = Bus {
        address: format!("localhost:{}", kafka.ports.both),
        endpoint: with(&kafka.authority).endpoint,
        ..login(&kafka, "secured", "SCRAM-SHA-512", PASSWORD)
    };
    let running = both.start().await;
    running.emit(&[event(10)]).await;
    running.until_delivered(1).await;
    running.stop();
    assert_eq!(assert_all_there(&[event(9), event(10)], &kafka.read("secured")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_tells_before_any_event_whether_the_topic_is_there() {
    let kafka = Kafka::shared();
    kafka.create("checked");
    let told = |topic: &str| {
        let scene = Scene::sqlite();
        let config = bus(&kafka, topic, "").write(&scene);
        let output = outhaul(&config, &["check"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (topic, words) in
        [("unchecked", "has no topic \"unchecked\""), ("checked", "finds the destination well")]
    {
        let text = told(topic);
        assert!(text.contains(words), "{topic}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_passes_the_conformance_cases() {
    let kafka = Kafka::shared();
    kafka.create("orders");
    crate::conformance::passes("kafka", &kafka.address()).await;
}
