//! Kafka's brokers killed, paused and moved: what was confirmed is there, and what is there twice says so by
//! its `id`.

use std::collections::BTreeMap;

use outhaul::store::{DeliveryStatus, LaneState, NewEvent};
use outhaul_tests::clients::{self, Got};
use outhaul_tests::servers::{Kafka, Server};

use crate::bus::{Bus, Running};
use crate::databases::until;
use crate::events::{assert_all_there, assert_keys_in_order, budget, event, numbered};
use crate::kafka::{bus, reason};

/// How often each `id` is there, of those that are there more than once.
fn repeated(got: &[Got]) -> BTreeMap<&str, usize> {
    let mut times = BTreeMap::new();
    got.iter().for_each(|message| *times.entry(message.headers["id"].as_str()).or_default() += 1);
    times.retain(|_, times| *times > 1);
    times
}

/// What is there twice was sent twice: its first outcome was uncertain.
async fn assert_only_the_uncertain_repeat(running: &Running, got: &[Got]) {
    let rows = running.rows().await;
    let again =
        |id: &str| rows.iter().any(|row| row.event_id == id && (row.deferrals > 0 || row.attempts > 1));
    let repeated = repeated(got);
    println!("{} of {} events are there twice", repeated.len(), rows.len());
    repeated.keys().for_each(|id| assert!(again(id), "{id} is there twice and was sent once"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_the_middle_loses_nothing_and_only_uncertain_events_are_there_twice() {
    let mut kafka = Kafka::start();
    kafka.create("orders");
    let running = bus(&kafka, "orders", "").start().await;
    let events = numbered(budget());
    running.end_in_the_middle(&mut kafka, &events, Server::kill).await;
    running.until_lane_is(LaneState::Paused).await;
    kafka.restart();
    running.until_all_delivered(events.len()).await;
    let got = kafka.read("orders");
    assert_all_there(&events, &got);
    assert_keys_in_order(&got);
    assert_only_the_uncertain_repeat(&running, &got).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_between_confirmation_and_acknowledgement_delivers_again_under_the_same_id() {
    let kafka = Kafka::start();
    kafka.create("orders");
    let mut running = Bus { is_brief: true, ..bus(&kafka, "orders", "") }.start().await;
    // The server holds its confirmation until the outbox can't be written.
    kafka.pause();
    running.emit(&[event(7)]).await;
    until("the event is claimed", async || {
        running.rows().await.first().filter(|row| row.lease_until.is_some()).map(drop)
    })
    .await;
    let mut lock = running.scene.producer().await;
    lock.execute("begin immediate").await;
    kafka.resume();
    until("it is stored", async || (kafka.count("orders") == 1).then_some(())).await;
    running.kill_host();
    lock.execute("rollback").await;
    running.start_host();
    let row = running.until_ended(DeliveryStatus::Delivered).await;
    assert_eq!(row.attempts, 2);
    running.stop();
    let got = kafka.read("orders");
    assert_eq!(assert_all_there(&[event(7)], &got), 1);
    assert_eq!(repeated(&got), [("event-000007", 2)].into(), "a reader knows it by its id");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_leaves_the_outcome_uncertain_one_that_is_down_burns_no_attempt_and_both_recover() {
    let mut kafka = Kafka::start();
    kafka.create("orders");
    let running = bus(&kafka, "orders", "").start().await;
    running.emit(&[event(5)]).await;
    running.until_delivered(1).await;
    // The connection is open and in use; now nobody answers on it.
    kafka.pause();
    running.emit(&[event(6)]).await;
    running.until_lane_is(LaneState::Paused).await;
    let attempted = running.attempted("event-000006").await;
    assert_eq!(attempted, ("unavailable".to_owned(), "no-answer".to_owned(), true));
    kafka.resume();
    running.until_delivered(2).await;

    kafka.kill();
    running.emit(&[event(9)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    kafka.restart();
    running.until_delivered(3).await;
    let (row, told) = (running.row("event-000009").await, lane.reason.unwrap());
    assert!(row.attempts == 1 && row.deferrals > 0, "{row:?}");
    assert!(told.contains("nothing listens"), "{told}");
    running.stop();
    assert!(assert_all_there(&[event(5), event(6), event(9)], &kafka.read("orders")) <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_that_move_are_followed_and_replicas_that_are_missing_are_waited_for() {
    let kafka = Kafka::start();
    let mut second = kafka.join();
    let both = "[[2, 1], [1, 2], [2, 1]]";
    let servers = format!("{},{}", kafka.address(), second.address());
    let client = |words: &[&str]| clients::run("kafka_client.py", &[&[servers.as_str()], words].concat());
    client(&["create", "orders", "3", "{}", both]);
    let told = reason(bus(&kafka, "orders", "")).await;
    assert!(told.contains(&format!("add  also = [\"{}\"]", second.address())), "{told}");
    let endpoint = format!("also = [\"{}\"]\n", second.address());
    let running = Bus { endpoint, ..bus(&kafka, "orders", "") }.start().await;
    let events = numbered(budget());
    let mut emitted = events.chunks(events.len().div_ceil(3));
    let mut delivered = 0;
    let mut emit_next = async || {
        let some = emitted.next().expect("there are three");
        running.emit(some).await;
        delivered += some.len();
        // Some are under way when the leader moves.
        running.until_delivered(delivered - some.len() / 2).await;
    };
    emit_next().await;
    second.terminate();
    emit_next().await;
    assert_eq!(client(&["leader", "orders"]).trim(), "1");
    second.restart();
    until("the second is in sync", async || {
        client(&["elect", "orders"]);
        (client(&["leader", "orders"]).trim() == "2").then_some(())
    })
    .await;
    emit_next().await;
    running.until_all_delivered(events.len()).await;
    let got = kafka.read("orders");
    assert_all_there(&events, &got);
    assert_keys_in_order(&got);
    assert_only_the_uncertain_repeat(&running, &got).await;
    running.stop();

    client(&["create", "careful", "1", "{\"min.insync.replicas\": \"2\"}", "[[1, 2]]"]);
    second.kill();
    until("the first is alone", async || {
        (kafka.client(&["replicas", "careful"]).trim() == "1").then_some(())
    })
    .await;
    let running = bus(&kafka, "careful", "").start().await;
    running.emit(&[event(9)]).await;
    let told = running.until_lane_is(LaneState::Paused).await.reason.unwrap();
    assert!(told.contains("fewer replicas in sync than its min.insync.replicas"), "{told}");
    let attempted = running.attempted("event-000009").await;
    assert_eq!(attempted, ("unavailable".to_owned(), "replicas".to_owned(), false));
    second.restart();
    running.until_delivered(1).await;
    running.stop();
    assert_eq!(assert_all_there(&[event(9)], &kafka.read("careful")), 0);
}

/// What the broker counted passes in some ten seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_pauses_the_lane_and_burns_no_attempt() {
    let kafka = Kafka::shared();
    kafka.create("limited");
    kafka.limit("slow", 5_000);
    let running = bus(&kafka, "limited", ", client_id = \"slow\"").start().await;
    let large = |number| NewEvent { payload: vec![7; 100_000], ..event(number) };
    running.emit(&[large(1)]).await;
    running.until_delivered(1).await;
    running.emit(&[large(2)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    let told = lane.reason.unwrap();
    assert!(told.contains("the broker's quota lets this producer wait for"), "{told}");
    running.until_delivered(2).await;
    let row = running.row("event-000002").await;
    assert!(row.attempts == 1 && row.deferrals > 0, "{row:?}");
    running.stop();
    assert_eq!(assert_all_there(&[large(1), large(2)], &kafka.read("limited")), 0);
}
