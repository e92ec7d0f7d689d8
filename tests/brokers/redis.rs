//! Redis Streams, where a script adds each event once.

use outhaul::store::{DeliveryStatus, LaneState, NewEvent};
use outhaul_tests::clients::{self, Got};
use outhaul_tests::servers::{self, Server};
use outhaul_tests::tls::Authority;

use crate::bus::Bus;
use crate::databases::until;
use crate::events::{assert_all_there, assert_keys_in_order, budget, event, numbered};
use crate::proxy::TlsProxy;

const CLIENT: &str = "redis_client.py";
const STREAMS: [&str; 3] = ["order.created", "order.paid", "order.shipped"];

fn run(server: &Server, words: &[&str]) -> String {
    clients::run(CLIENT, &[&[&server.port.to_string(), "run"], words].concat()).trim().to_owned()
}

fn read(server: &Server, streams: &[&str]) -> Vec<Got> {
    clients::read(CLIENT, &[&[&server.port.to_string(), "read"], streams].concat())
}

fn bus(server: &Server, settings: &str) -> Bus {
    Bus::new("redis", server.address(), settings)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_an_entry_once_in_its_keys_order_with_its_exact_bytes() {
    let server = servers::redis(&[]);
    let running = bus(&server, "stream = \"orders\"").start().await;
    let events = numbered(budget());
    running.emit(&events).await;
    running.until_all_delivered(events.len()).await;
    let reference = running.rows().await[0].reference.clone().unwrap();
    assert!(reference.starts_with("orders/"), "{reference}");
    running.stop();
    let got = read(&server, &["orders"]);
    assert_eq!(assert_all_there(&events, &got), 0, "nothing is there twice");
    assert_keys_in_order(&got);
    assert_eq!(got[0].headers["content-type"], "application/octet-stream");
    assert_eq!(got[0].headers["id"], got[0].id());
    // What remembers an ID goes by itself.
    let ttl: i64 = run(&server, &["PTTL", "outhaul:{orders}:event-000000"]).parse().unwrap();
    assert!((1..=86_400_000).contains(&ttl), "{ttl}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_the_middle_loses_nothing_and_holds_nothing_twice() {
    let mut server = servers::redis(&[]);
    let running = bus(&server, "").start().await;
    let events = numbered(budget());
    running.end_in_the_middle(&mut server, &events, Server::kill).await;
    running.until_lane_is(LaneState::Paused).await;
    server.restart();
    running.until_all_delivered(events.len()).await;
    assert!(
        running.rows().await.iter().any(|row| row.deferrals > 0),
        "the kill came after the last delivery"
    );
    running.stop();
    assert_eq!(
        assert_all_there(&events, &read(&server, &STREAMS)),
        0,
        "what was added before the kill is recognised"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_delivered_again_is_a_duplicate_and_one_with_other_content_a_conflict() {
    let server = servers::redis(&[]);
    let running = bus(&server, "stream = \"orders\"").start().await;
    running.emit(&[event(7)]).await;
    running.until_delivered(1).await;
    running.stop();
    // Another outbox, which knows nothing of the first.
    let again = bus(&server, "stream = \"orders\"").start().await;
    again.emit(&[event(7)]).await;
    let row = again.until_ended(DeliveryStatus::Delivered).await;
    assert_eq!(row.disposition.as_deref(), Some("duplicate"));
    again.stop();
    let other = bus(&server, "stream = \"orders\"").start().await;
    other.emit(&[NewEvent { payload: b"other".to_vec(), ..event(7) }]).await;
    let row = other.until_ended(DeliveryStatus::Dead).await;
    let error = row.last_error.unwrap();
    assert!(error.contains("this ID and other content"), "{error}");
    other.stop();
    assert_eq!(read(&server, &["orders"]).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_between_confirmation_and_acknowledgement_adds_nothing_twice() {
    let server = servers::redis(&[]);
    let mut running = Bus { is_brief: true, ..bus(&server, "stream = \"orders\"") }.start().await;
    server.pause();
    running.emit(&[event(7)]).await;
    until("the event is claimed", async || {
        running.rows().await.first().filter(|row| row.lease_until.is_some()).map(drop)
    })
    .await;
    let mut lock = running.scene.producer().await;
    lock.execute("begin immediate").await;
    server.resume();
    until("it is added", async || (run(&server, &["XLEN", "orders"]) == "1").then_some(())).await;
    running.kill_host();
    lock.execute("rollback").await;
    running.start_host();
    let row = running.until_ended(DeliveryStatus::Delivered).await;
    assert_eq!((row.attempts, row.disposition.as_deref()), (2, Some("duplicate")));
    running.stop();
    assert_eq!(assert_all_there(&[event(7)], &read(&server, &["orders"])), 0);
}

/// From Redis 7.2 on, WAIT waits for what its own connection wrote, and a repeated event adds no entry: the
/// script has to write something else. Before, as here, it waits for everything in any case.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_event_counts_only_once_the_replica_has_its_entry() {
    let server = servers::redis(&[]);
    let replica = servers::redis(&[]);
    run(&replica, &["REPLICAOF", "127.0.0.1", &server.port.to_string()]);
    until("the replica follows", async || {
        run(&replica, &["INFO", "replication"]).contains("'master_link_status': 'up'").then_some(())
    })
    .await;
    let settings = "stream = \"orders\", replicas = { count = 1, timeout = \"100ms\" }";
    let mut running = Bus { is_brief: true, ..bus(&server, settings) }.start().await;
    running.emit(&[event(5)]).await;
    running.until_delivered(1).await;
    replica.pause();
    running.emit(&[event(6)]).await;
    running.until_lane_is(LaneState::Paused).await;
    assert_eq!(running.attempted("event-000006").await.1, "replicas");
    assert_eq!(run(&server, &["XLEN", "orders"]), "2", "the master has it");
    // Another connection, which finds the entry there.
    running.kill_host();
    running.start_host();
    let before = running.row("event-000006").await;
    let row = until("it was tried over that connection", async || {
        let row = running.row("event-000006").await;
        (row.deferrals > before.deferrals + 1 || row.status == DeliveryStatus::Delivered).then_some(row)
    })
    .await;
    assert_eq!(row.status, DeliveryStatus::Pending, "the replica has nothing of it yet");
    let written = run(&server, &["INFO", "commandstats"]);
    assert!(written.contains("'cmdstat_pexpire'"), "the repeat wrote nothing: {written}");
    replica.resume();
    let row = until("it is delivered", async || {
        let row = running.row("event-000006").await;
        (row.status == DeliveryStatus::Delivered).then_some(row)
    })
    .await;
    assert_eq!(row.disposition.as_deref(), Some("duplicate"));
    running.stop();
    assert_eq!(run(&server, &["XLEN", "orders"]), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_trimmed_when_they_grow() {
    let server = servers::redis(&["--stream-node-max-entries", "10"]);
    let running = bus(&server, "stream = \"orders\", trim = { entries = 50 }").start().await;
    running.emit(&numbered(200)).await;
    running.until_delivered(200).await;
    running.stop();
    let left: usize = run(&server, &["XLEN", "orders"]).parse().unwrap();
    assert!((50..=60).contains(&left), "{left}");
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
async fn a_wrong_password_or_a_missing_permission_stops_the_lane_and_the_right_one_delivers() {
    let server = servers::redis(&[]);
    run(
        &server,
        &[
            "ACL",
            "SETUSER",
            "shop",
            "on",
            ">right",
            "~*",
            "+evalsha",
            "+script|load",
            "+xadd",
            "+get",
            "+set",
        ],
    );
    run(&server, &["ACL", "SETUSER", "reader", "on", ">right", "~*", "+get"]);
    let with = |user: &str, password: &str| {
        let auth = format!("auth = {{ user = \"{user}\", password = \"login\" }}");
        Bus { password: Some(password.to_owned()), ..bus(&server, &auth) }
    };
    let told = reason(with("shop", "wrong")).await;
    assert!(told.contains("WRONGPASS") && told.contains("setting auth"), "{told}");
    let told = reason(with("reader", "right")).await;
    assert!(told.contains("NOPERM") && told.contains("EVALSHA"), "{told}");
    let running = with("shop", "right").start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_a_missing_database_and_a_cluster_stop_the_lane() {
    let plain = servers::redis(&[]);
    run(&plain, &["SET", "orders", "a string"]);
    let told = reason(bus(&plain, "stream = \"orders\"")).await;
    assert!(told.contains("the key orders exists and is no stream"), "{told}");
    let told = reason(bus(&plain, "database = 99")).await;
    assert!(told.contains("DB index") && told.contains("setting database"), "{told}");
    // A node that owns no slot sends everybody elsewhere, or says that the cluster is not whole.
    let cluster = servers::redis(&["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"]);
    let running = bus(&cluster, "stream = \"orders\"").start().await;
    running.emit(&[event(9)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    assert!(lane.reason.unwrap().contains("CLUSTERDOWN"));
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_memory_pauses_the_lane_until_there_is_room() {
    let server = servers::redis(&["--maxmemory", "100kb", "--maxmemory-policy", "noeviction"]);
    let running = bus(&server, "").start().await;
    running.emit(&[event(9)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    let told = lane.reason.unwrap();
    assert!(told.contains("OOM") && told.contains("raise maxmemory"), "{told}");
    run(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    let row = running.until_ended(DeliveryStatus::Delivered).await;
    assert_eq!(row.attempts, 1, "it cost no attempt");
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_leaves_the_outcome_uncertain_and_recovers() {
    let server = servers::redis(&[]);
    let running = bus(&server, "stream = \"orders\"").start().await;
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
    assert_eq!(assert_all_there(&[event(5), event(6)], &read(&server, &["orders"])), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_of_an_unknown_authority_stops_the_lane_and_of_a_known_one_delivers() {
    let server = servers::redis(&[]);
    let (authority, stranger) = (Authority::default(), Authority::default());
    let proxy = TlsProxy::start(&authority, server.port).await;
    let folder = tempfile::tempdir().unwrap();
    let told = reason(proxy.bus("redis", "", folder.path(), &stranger)).await;
    assert!(told.contains("roots = \"ca.pem\""), "{told}");
    let running = proxy.bus("redis", "", folder.path(), &authority).start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_passes_the_conformance_cases() {
    let server = servers::redis(&[]);
    crate::conformance::passes("redis", &server.address()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_kept_alive_and_used_again() {
    let server = servers::redis(&[]);
    let running = bus(&server, "stream = \"orders\"").start().await;
    running.emit(&[event(5)]).await;
    running.until_delivered(1).await;
    let connections = || run(&server, &["INFO", "stats"]);
    let opened = |text: &str| {
        let (_, rest) = text.split_once("total_connections_received': ").expect("Redis counts them");
        rest.split([',', '}']).next().and_then(|number| number.trim().parse::<u32>().ok()).expect("a number")
    };
    until("a ping", async || run(&server, &["CLIENT", "LIST"]).contains("cmd=ping").then_some(())).await;
    let before = opened(&connections());
    running.emit(&[event(6)]).await;
    running.until_delivered(2).await;
    assert_eq!(opened(&connections()), before + 1, "only the test itself connected again");
    running.stop();
}
