//! NATS: JetStream, which stores, confirms and deduplicates, and core NATS, which hands on.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outhaul::store::{DeliveryStatus, LaneState, NewEvent};
use outhaul_tests::clients::{self, Got, Listener};
use outhaul_tests::servers::{self, Server, free_port, program};
use outhaul_tests::tls::Authority;

use crate::bus::Bus;
use crate::databases::{Scene, until};
use crate::events::{assert_all_there, assert_keys_in_order, budget, event, numbered};
use crate::host::outhaul;
use crate::proxy::TlsProxy;

const CLIENT: &str = "nats_client.py";
/// More than 1 MiB, so that a payload of that size has room for its headers.
const CONFIG: &str = "max_payload: 2MB\n";

/// With a stream `ORDERS` of `order.>`.
fn with_stream(config: &'static str, options: &str) -> Server {
    let server = servers::nats(config);
    client(&server, &["create", "ORDERS", "order.>", options]);
    server
}

fn client(server: &Server, words: &[&str]) -> String {
    client_as("", server, words)
}

fn client_as(login: &str, server: &Server, words: &[&str]) -> String {
    let url = format!("nats://{login}{}", server.address());
    clients::run(CLIENT, &[&[url.as_str()], words].concat())
}

fn stored(server: &Server) -> Vec<Got> {
    clients::read(CLIENT, &[&format!("nats://{}", server.address()), "read", "ORDERS"])
}

fn bus(server: &Server, settings: &str) -> Bus {
    Bus::new("nats", server.address(), settings)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_stored_once_in_its_keys_order_with_its_exact_bytes() {
    let server = with_stream(CONFIG, "{}");
    let running = bus(&server, "").start().await;
    let events = numbered(budget());
    running.emit(&events).await;
    running.until_all_delivered(events.len()).await;
    let reference = running.rows().await[0].reference.clone().unwrap();
    assert!(reference.starts_with("ORDERS/"), "{reference}");
    running.stop();
    let got = stored(&server);
    assert_eq!(assert_all_there(&events, &got), 0, "nothing is there twice");
    assert_keys_in_order(&got);
    let first = got.iter().find(|message| message.id() == "event-000000").unwrap();
    assert_eq!(first.place, "order.created");
    assert_eq!(first.headers["Nats-Msg-Id"], "event-000000");
    assert_eq!(first.headers["Content-Type"], "application/octet-stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_the_middle_loses_nothing_and_stores_nothing_twice() {
    let mut server = with_stream(CONFIG, "{}");
    let running = bus(&server, "").start().await;
    let events = numbered(budget());
    running.end_in_the_middle(&mut server, &events, Server::kill).await;
    running.until_lane_is(LaneState::Paused).await;
    server.restart();
    running.until_all_delivered(events.len()).await;
    let rows = running.rows().await;
    assert!(rows.iter().any(|row| row.deferrals > 0), "the kill came after the last delivery");
    running.stop();
    let got = stored(&server);
    assert_eq!(assert_all_there(&events, &got), 0, "what was stored before the kill is recognised");
    assert_keys_in_order(&got);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_killed_between_confirmation_and_acknowledgement_delivers_again_and_is_told_of_the_duplicate()
{
    let server = with_stream(CONFIG, "{}");
    let mut running = Bus { is_brief: true, ..bus(&server, "") }.start().await;
    // The server holds its confirmation until the outbox can't be written.
    server.pause();
    running.emit(&[event(7)]).await;
    until("the event is claimed", async || {
        running.rows().await.first().filter(|row| row.lease_until.is_some()).map(drop)
    })
    .await;
    let mut lock = running.scene.producer().await;
    lock.execute("begin immediate").await;
    server.resume();
    until("it is stored", async || (client(&server, &["count", "ORDERS"]).trim() == "1").then_some(())).await;
    running.kill_host();
    lock.execute("rollback").await;
    running.start_host();
    let row = running.until_ended(DeliveryStatus::Delivered).await;
    assert_eq!((row.attempts, row.disposition.as_deref()), (2, Some("duplicate")));
    running.stop();
    assert_eq!(assert_all_there(&[event(7)], &stored(&server)), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_leaves_the_outcome_uncertain_and_recovers() {
    let server = with_stream(CONFIG, "{}");
    let running = bus(&server, "").start().await;
    running.emit(&[event(5)]).await;
    running.until_delivered(1).await;
    // The connection is open and in use; now nobody answers on it.
    server.pause();
    running.emit(&[event(6)]).await;
    running.until_lane_is(LaneState::Paused).await;
    let attempted = running.attempted("event-000006").await;
    assert_eq!(attempted, ("unavailable".to_owned(), "no-answer".to_owned(), true));
    server.resume();
    running.until_delivered(2).await;
    running.stop();
    assert_eq!(assert_all_there(&[event(5), event(6)], &stored(&server)), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn core_nats_reaches_who_listens() {
    let server = servers::nats(CONFIG);
    let url = format!("nats://{}", server.address());
    let listener = Listener::start(CLIENT, &[&url, "listen", "shop.order.>"]);
    let running =
        bus(&server, "mode = \"core\", subject = \"shop.{topic}\", cloudevents = \"binary\"").start().await;
    let events = numbered(20);
    running.emit(&events).await;
    let got = listener.take(20);
    running.until_delivered(20).await;
    running.stop();
    assert_eq!(assert_all_there(&events, &got), 0);
    assert!(got.iter().all(|message| message.headers["ce-id"] == message.id()));
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
async fn a_wrong_password_stops_the_lane_and_the_right_one_delivers() {
    let config = "authorization { user: shop, password: right }\n";
    let server = servers::nats(config);
    client_as("shop:right@", &server, &["create", "ORDERS", "order.>"]);
    let auth = "auth = { user = \"shop\", password = \"login\" }";
    let with = |password: &str| Bus { password: Some(password.to_owned()), ..bus(&server, auth) };
    let told = reason(with("wrong")).await;
    assert!(told.contains("Authorization Violation") && told.contains("setting auth"), "{told}");
    let running = with("right").start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_without_a_stream_stops_the_lane_until_there_is_one() {
    let server = servers::nats(CONFIG);
    let told = reason(bus(&server, "")).await;
    assert!(told.contains("no stream takes the subject order.created; create one"), "{told}");
    let plain = Server::start(|_, port| {
        let mut command = Command::new(program("nats-server"));
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string()]);
        command
    });
    let told = reason(Bus::new("nats", plain.address(), "")).await;
    assert!(told.contains("no JetStream") && told.contains("mode = \"core\""), "{told}");
    client(&server, &["create", "OTHER", "order.>"]);
    let told = reason(bus(&server, "stream = \"ORDERS\"")).await;
    assert!(told.contains("expected stream does not match") && told.contains("setting stream"), "{told}");
}

/// It passes messages on to its hub's streams, and not what the hub says of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_node_without_jetstream_delivers_pauses_while_its_hub_is_down_and_is_told_by_name() {
    let leaves = free_port();
    let config = format!("leafnodes {{ listen: \"127.0.0.1:{leaves}\" }}\n");
    let mut hub = with_stream(config.leak(), "{}");
    let leaf = Server::start(move |folder: &Path, port| {
        let file = folder.join("leaf.conf");
        let remote =
            format!("leafnodes {{ reconnect: 1, remotes: [{{ url: \"nats://127.0.0.1:{leaves}\" }}] }}\n");
        std::fs::write(&file, format!("listen: \"127.0.0.1:{port}\"\n{remote}"))
            .expect("the folder can be written");
        let mut command = Command::new(program("nats-server"));
        command.arg("--config").arg(file);
        command
    });
    let running = bus(&leaf, "").start().await;
    until("the leaf node has found its hub", async || {
        leaf.log().contains("Leafnode connection created").then_some(())
    })
    .await;
    running.emit(&[event(5)]).await;
    running.until_delivered(1).await;
    hub.kill();
    until("the leaf node has lost its hub", async || leaf.log().contains("connection closed").then_some(()))
        .await;
    running.emit(&[event(6)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    assert!(
        lane.reason.as_ref().is_some_and(|reason| reason.contains("the hub of this leaf node may be down")),
        "{lane:?}"
    );
    hub.restart();
    running.until_delivered(2).await;
    running.stop();
    assert_eq!(assert_all_there(&[event(5), event(6)], &stored(&hub)), 0);
    // Where nothing was ever taken, somebody has to look.
    hub.kill();
    let told = reason(bus(&leaf, "")).await;
    assert!(told.contains("leaf node without JetStream"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_a_dead_letter_that_names_the_limit() {
    let server = with_stream("max_payload: 64KB\n", "{\"max_msg_size\": 2000}");
    let running = bus(&server, "").start().await;
    for (number, bytes, word) in [(1, 70_000, "the server takes 65536"), (2, 3_000, "max_msg_size")] {
        let large = NewEvent { payload: vec![7; bytes], ..event(number) };
        running.emit(&[large]).await;
        let row = until("it is dead", async || {
            let rows = running.rows().await;
            rows.into_iter()
                .find(|row| row.event_id == event(number).id && row.status == DeliveryStatus::Dead)
        })
        .await;
        let error = row.last_error.unwrap();
        assert!(error.contains(word), "{error}");
    }
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stream_pauses_the_lane_until_it_takes_more() {
    let server = with_stream(CONFIG, "{\"max_msgs\": 2, \"discard\": \"new\"}");
    let running = bus(&server, "").start().await;
    running.emit(&numbered(2)).await;
    running.until_delivered(2).await;
    running.emit(&[event(8)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    let told = lane.reason.unwrap();
    assert!(told.contains("maximum messages exceeded") && told.contains("make room"), "{told}");
    client(&server, &["purge", "ORDERS"]);
    running.until_delivered(3).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_of_an_unknown_authority_stops_the_lane_and_of_a_known_one_delivers() {
    let server = with_stream(CONFIG, "{}");
    let (authority, stranger) = (Authority::default(), Authority::default());
    let proxy = TlsProxy::start(&authority, server.port).await;
    let folder = tempfile::tempdir().unwrap();
    let told = reason(proxy.bus("nats", "", folder.path(), &stranger)).await;
    assert!(told.contains("roots = \"ca.pem\""), "{told}");
    let running = proxy.bus("nats", "", folder.path(), &authority).start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_of_its_own_is_spoken_to_in_tls_before_the_login() {
    let (authority, stranger) = (Authority::default(), Authority::default());
    let folder = tempfile::tempdir().unwrap();
    let identity = authority.identity(&["localhost"]);
    let (cert, key) = (folder.path().join("server.pem"), folder.path().join("server-key.pem"));
    std::fs::write(&cert, &identity.cert).unwrap();
    std::fs::write(&key, &identity.key).unwrap();
    let tls = format!("tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n", cert.display(), key.display());
    let login = "authorization { user: shop, password: right }\n";
    let server = servers::nats(format!("{login}{tls}").leak());
    let to_it = |endpoint: &str, trusted: &Authority| {
        let roots = folder.path().join("roots.pem");
        std::fs::write(&roots, &trusted.pem).unwrap();
        let auth = "mode = \"core\", auth = { user = \"shop\", password = \"login\" }";
        Bus {
            endpoint: endpoint.replace("ROOTS", &format!("roots = \"{}\"", roots.display())),
            password: Some("right".to_owned()),
            ..Bus::new("nats", format!("localhost:{}", server.port), auth)
        }
    };
    let running = to_it("tls = \"start\"\nROOTS", &authority).start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
    for (endpoint, trusted, word) in [
        ("tls = \"start\"\nROOTS", &stranger, "roots = \"ca.pem\""),
        ("tls = true\nROOTS", &authority, "tls = \"start\""),
        ("", &authority, "tls = \"start\""),
    ] {
        let told = reason(to_it(endpoint, trusted)).await;
        assert!(told.contains(word), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_pauses_the_lane_and_burns_no_attempt() {
    let mut server = with_stream(CONFIG, "{}");
    server.kill();
    let running = bus(&server, "").start().await;
    running.emit(&[event(9)]).await;
    let lane = running.until_lane_is(LaneState::Paused).await;
    assert!(lane.reason.unwrap().contains("nothing listens"));
    server.restart();
    let row = running.until_ended(DeliveryStatus::Delivered).await;
    assert_eq!(row.attempts, 1);
    assert!(row.deferrals > 0);
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_passes_the_conformance_cases() {
    let server = with_stream(CONFIG, "{}");
    crate::conformance::passes("nats", &server.address()).await;
}

/// A public key as NATS writes it: a prefix, the key and a checksum, in base32.
fn nkey(public: &[u8; 32]) -> String {
    let mut bytes = vec![20 << 3];
    bytes.extend(public);
    let mut crc: u16 = 0;
    for byte in &bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    bytes.extend(crc.to_le_bytes());
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect::<Vec<_>>();
    let letter = |five: &[u8]| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[five.iter().fold(0, |sum, bit| sum * 2 + usize::from(*bit))]
    };
    bits.chunks(5).map(|five| char::from(letter(five))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_nkey_signs_in_without_its_seed_leaving_the_host() {
    let seed = [7; 32];
    let public = nkey(ed25519_dalek::SigningKey::from_bytes(&seed).verifying_key().as_bytes());
    let config =
        format!("authorization {{ users: [{{ nkey: {public} }}, {{ user: admin, password: right }}] }}\n");
    let server = servers::nats(config.leak());
    client_as("admin:right@", &server, &["create", "ORDERS", "order.>"]);
    let auth = format!("auth = {{ nkey = \"{public}\", seed = \"login\" }}");
    let with = |seed: [u8; 32]| {
        let key = format!("whsk_{}", STANDARD.encode(seed));
        Bus { password: Some(key), ..bus(&server, &auth) }
    };
    let told = reason(with([8; 32])).await;
    assert!(told.contains("Authorization Violation"), "{told}");
    let running = with(seed).start().await;
    running.emit(&[event(9)]).await;
    running.until_delivered(1).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn check_tells_before_any_event_whether_a_stream_takes_them() {
    let server = with_stream(CONFIG, "{}");
    let told = |settings: &str| {
        let scene = Scene::sqlite();
        let config = bus(&server, settings).write(&scene);
        let output = outhaul(&config, &["check"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (settings, words) in [
        ("subject = \"bill\"", "no stream takes the subject bill"),
        ("stream = \"BILLS\"", "stream not found"),
    ] {
        let text = told(settings);
        assert!(text.contains(words), "{settings}: {text}");
    }
    let text = told("subject = \"order.created\", stream = \"ORDERS\"");
    assert!(!text.contains("stream"), "{text}");
}
