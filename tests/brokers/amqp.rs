//! AMQP 0-9-1 and RabbitMQ, which confirms what its queues have stored and deduplicates nothing.

use std::collections::BTreeMap;

use outhaul::store::{DeliveryStatus, LaneState, NewEvent};
use outhaul_tests::clients::Got;
use outhaul_tests::servers::{Rabbit, Server, free_port};
use outhaul_tests::tls::Authority;

use crate::bus::Bus;
use crate::databases::until;
use crate::events::{assert_all_there, assert_keys_in_order, budget, event, numbered};
use crate::proxy::TlsProxy;

/// With a queue `orders` of all that begins with `order.`.
fn with_queue(config: &'static str, arguments: &str) -> Rabbit {
    let rabbit = Rabbit::with(config);
    rabbit.client(&["create", "orders", "order.#", arguments]);
    rabbit
}

fn bus(rabbit: &Rabbit, settings: &str) -> Bus {
    Bus::new("amqp", rabbit.address(), settings)
}

/// The reason of the lane after one event.
async fn reason(bus: Bus) -> String {
    let running = bus.start().await;
    running.emit(&[event(9)]).await;
    let reason = running.until_stopped().await;
    running.stop();
    reason
}

fn times(got: &[Got]) -> BTreeMap<&str, usize> {
    let mut times = BTreeMap::new();
    got.iter()
        .for_each(|message| *times.entry(message.headers["property message_id"].as_str()).or_default() += 1);
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_queued_once_in_its_keys_order_with_its_exact_bytes() {
    let rabbit = with_queue("", "{}");
    let running = bus(&rabbit, "").start().await;
    let events = numbered(budget());
    running.emit(&events).await;
    running.until_delivered(events.len()).await;
    running.stop();
    let got = rabbit.read("orders");
    assert_eq!(assert_all_there(&events, &got), 0, "nothing is there twice");
    assert_keys_in_order(&got);
    let first = got.iter().find(|message| message.id() == "event-000000").unwrap();
    assert_eq!(first.place, "order.created");
    for (name, value) in [
        ("message_id", "event-000000"),
        ("content_type", "application/octet-stream"),
        ("delivery_mode", "2"),
        ("type", "order.created"),
    ] {
        assert_eq!(first.headers[&format!("property {name}")], value);
    }
    assert_ne!(first.headers["property timestamp"], "None");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_the_middle_loses_nothing_and_only_uncertain_events_are_there_twice() {
    let mut rabbit = with_queue("", "{}");
    let running = bus(&rabbit, "").start().await;
    let events = numbered(budget());
    running.end_in_the_middle(&mut rabbit, &events, Server::kill).await;
    running.until_lane_is(LaneState::Paused).await;
    rabbit.restart();
    running.until_delivered(events.len()).await;
    let rows = running.rows().await;
    assert!(rows.iter().any(|row| row.deferrals > 0), "the kill came after the last delivery");
    let again: Vec<_> = rows.iter().filter(|row| row.deferrals > 0 || row.attempts > 1).collect();
    running.stop();
    let got = rabbit.read("orders");
    let duplicates = assert_all_there(&events, &got);
    println!("{duplicates} of {} events are there twice, {} were sent again", events.len(), again.len());
    for (id, _) in times(&got).into_iter().filter(|(_, times)| *times > 1) {
        assert!(again.iter().any(|row| row.event_id == id), "{id} is there twice and was sent once");
    }
    assert_keys_in_order(&got);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_between_confirmation_and_acknowledgement_delivers_again_under_the_same_message_id() {
    let rabbit = with_queue("", "{}");
    let mut running = Bus { is_brief: true, ..bus(&rabbit, "") }.start().await;
    // The server holds its confirmation until the outbox can't be written.
    rabbit.pause();
    running.emit(&[event(7)]).await;
    until("the event is claimed", async || {
        running.rows().await.first().filter(|row| row.lease_until.is_some()).map(drop)
    })
    .await;
    let mut lock = running.scene.producer().await;
    lock.execute("begin immediate").await;
    rabbit.resume();
    until("it is queued", async || (rabbit.client(&["count", "orders"]).trim() == "1").then_some(())).await;
    running.kill_host();
    lock.execute("rollback").await;
    running.start_host();
    let row = running.until_ended(DeliveryStatus::Delivered).await;
    assert_eq!(row.attempts, 2);
    running.stop();
    let got = rabbit.read("orders");
    assert_eq!(assert_all_there(&[event(7)], &got), 1);
    assert_eq!(times(&got), [("event-000007", 2)].into(), "a reader knows it by its message-id");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_leaves_the_outcome_uncertain_and_recovers() {
    let rabbit = with_queue("", "{}");
    let running = bus(&rabbit, "").start().await;
    running.emit(&[event(5)]).await;
    running.until_delivered(1).await;
    // The connection is open and in use; now nobody answers on it.
    rabbit.pause();
    running.emit(&[event(6)]).await;
    running.until_lane_is(LaneState::Paused).await;
    let attempted = running.attempted("event-000006").await;
    assert_eq!(attempted, ("unavailable".to_owned(), "no-answer".to_owned(), true));
    rabbit.resume();
    running.until_delivered(2).await;
    running.stop();
    assert!(assert_all_there(&[event(5), event(6)], &rabbit.read("orders")) <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_login_a_missing_vhost_and_a_missing_permission_stop_the_lane_and_the_right_ones_deliver() {
    let rabbit = with_queue("", "{}");
    rabbit.control(&["add_user", "shop", "right"]);
    let with = |password: &str, settings: &str| {
        let auth = format!("auth = {{ user = \"shop\", password = \"login\" }}{settings}");
        Bus { password: Some(password.to_owned()), ..bus(&rabbit, &auth) }
    };
    let told = reason(with("wrong", "")).await;
    assert!(told.contains("ACCESS_REFUSED") && told.contains("setting auth"), "{told}");
    let told = reason(with("right", ", vhost = \"nowhere\"")).await;
    assert!(told.contains("vhost nowhere not found") && told.contains("setting vhost"), "{told}");
    rabbit.control(&["set_permissions", "shop", ".*", "^nothing$", ".*"]);
    let told = reason(with("right", "")).await;
    assert!(told.contains("give it write permission on \"amq.topic\""), "{told}");
    rabbit.control(&["set_permissions", "shop", ".*", ".*", ".*"]);
    let running = with("right", "").start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_no_queue_takes_is_what_the_setting_says() {
    let rabbit = Rabbit::start();
    let told = reason(bus(&rabbit, "")).await;
    assert!(told.contains("no queue takes a message with the routing key \"order.created\""), "{told}");
    let told = reason(bus(&rabbit, "exchange = \"shop\"")).await;
    assert!(told.contains("no exchange 'shop'") && told.contains("setting exchange"), "{told}");
    for (word, status) in [("reject", DeliveryStatus::Dead), ("accept", DeliveryStatus::Delivered)] {
        let running = bus(&rabbit, &format!("unroutable = \"{word}\"")).start().await;
        running.emit(&[event(9)]).await;
        running.until_ended(status).await;
        running.stop();
    }
    // Straight into a queue, as a CloudEvent.
    rabbit.client(&["create", "order.created", "none"]);
    let running = bus(&rabbit, "exchange = \"\", cloudevents = \"binary\"").start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
    let got = rabbit.read("order.created");
    assert_eq!(assert_all_there(&[event(9)], &got), 0);
    assert_eq!(got[0].headers["cloudEvents_id"], "event-000009");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_a_dead_letter_and_the_others_of_its_batch_arrive() {
    let rabbit = with_queue("max_message_size = 65536\n", "{}");
    let running = bus(&rabbit, "").start().await;
    let mut events: Vec<NewEvent> = (10..30).map(event).collect();
    events.insert(10, NewEvent { payload: vec![7; 70_000], ..event(9) });
    running.emit(&events).await;
    let row = running.until_ended(DeliveryStatus::Dead).await;
    let error = row.last_error.unwrap();
    assert!(error.contains("has 70000 bytes, and the broker takes 65536"), "{error}");
    running.until_delivered(20).await;
    let rows = running.rows().await;
    assert!(rows.iter().all(|row| row.attempts == 1), "only the one was at fault");
    running.stop();
    events.remove(10);
    assert_all_there(&events, &rabbit.read("orders"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_pauses_the_lane_until_it_takes_more() {
    let rabbit = with_queue("", "{\"x-max-length\": 2, \"x-overflow\": \"reject-publish\"}");
    let running = bus(&rabbit, "").start().await;
    running.emit(&numbered(2)).await;
    running.until_delivered(2).await;
    running.emit(&[event(8)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    let told = lane.reason.unwrap();
    assert!(told.contains("a queue is full"), "{told}");
    rabbit.client(&["purge", "orders"]);
    running.until_delivered(3).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_short_of_memory_blocks_the_lane_and_gets_everything_once_it_has_some() {
    let rabbit = with_queue("", "{}");
    rabbit.control(&["set_vm_memory_high_watermark", "0"]);
    let running = bus(&rabbit, "").start().await;
    let events = numbered(30);
    running.emit(&events).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    let told = lane.reason.unwrap();
    assert!(told.contains("the broker takes no messages now: low on memory"), "{told}");
    rabbit.control(&["set_vm_memory_high_watermark", "0.9"]);
    running.until_delivered(30).await;
    running.stop();
    assert_all_there(&events, &rabbit.read("orders"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_of_an_unknown_authority_stops_the_lane_and_of_a_known_one_delivers() {
    let rabbit = with_queue("", "{}");
    let (authority, stranger) = (Authority::default(), Authority::default());
    let proxy = TlsProxy::start(&authority, rabbit.port).await;
    let folder = tempfile::tempdir().unwrap();
    let told = reason(proxy.bus("amqp", "", folder.path(), &stranger)).await;
    assert!(told.contains("roots = \"ca.pem\""), "{told}");
    let running = proxy.bus("amqp", "", folder.path(), &authority).start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_logs_in() {
    let authority = Authority::default();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let (server, client) = (authority.identity(&["localhost"]), authority.identity(&["client"]));
    let roots = write("ca.pem", &authority.pem);
    let (cert, key) = (write("server.pem", &server.cert), write("server.key", &server.key));
    let (client_cert, client_key) = (write("client.pem", &client.cert), write("client.key", &client.key));
    write("enabled_plugins", "[rabbitmq_auth_mechanism_ssl].");
    let tls = free_port();
    let config = format!(
        "listeners.ssl.1 = 127.0.0.1:{tls}\nssl_options.cacertfile = {roots}\nssl_options.certfile = {cert}\n\
         ssl_options.keyfile = {key}\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n\
         auth_mechanisms.1 = EXTERNAL\nauth_mechanisms.2 = PLAIN\nssl_cert_login_from = common_name\n"
    );
    let rabbit =
        Rabbit::listening(folder, move |_, port| format!("listeners.tcp.1 = 127.0.0.1:{port}\n{config}"));
    rabbit.client(&["create", "orders", "order.#"]);
    let told = reason(bus(&rabbit, "auth = \"external\"")).await;
    assert!(told.contains("and not EXTERNAL; it needs TLS with client_cert"), "{told}");
    let endpoint = format!(
        "tls = true\nroots = \"{roots}\"\nclient_cert = {{ cert = \"{client_cert}\", key = {{ file = \"{client_key}\" }} }}\n"
    );
    let with = || Bus {
        endpoint: endpoint.clone(),
        ..Bus::new("amqp", format!("localhost:{tls}"), "auth = \"external\"")
    };
    let told = reason(with()).await;
    assert!(told.contains("ACCESS_REFUSED"), "{told}");
    rabbit.control(&["add_user", "client", "unused"]);
    rabbit.control(&["set_permissions", "client", ".*", ".*", ".*"]);
    let running = with().start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
    assert_eq!(assert_all_there(&[event(9)], &rabbit.read("orders")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_pauses_the_lane_and_burns_no_attempt() {
    let mut rabbit = with_queue("", "{}");
    rabbit.kill();
    let running = bus(&rabbit, "").start().await;
    running.emit(&[event(9)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    assert!(lane.reason.unwrap().contains("nothing listens"));
    rabbit.restart();
    let row = running.until_ended(DeliveryStatus::Delivered).await;
    assert_eq!(row.attempts, 1);
    assert!(row.deferrals > 0);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_passes_the_conformance_cases() {
    let rabbit = with_queue("", "{}");
    crate::conformance::passes("amqp", &rabbit.address()).await;
}
