//! Components over the same events, with nothing leaving the machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outhaul::clock::{SharedClock, SystemClock};
use outhaul::domain::{Event, EventSeq, Fence, Timestamp};
use outhaul::kit::replay::{Answering, Made, Side, Step, differences, read_answer, told};
use outhaul::plugin::spec::{
    HttpGrant, NetGrant, PluginSpec, SecretGrant, SecretSource, SocketsGrant, SqlGrant, SqlIsolation, SqlUrl,
};
use outhaul::plugin::{Call, RuntimeSettings, WentTo};
use outhaul_tests::guests::{compiled, guest};
use outhaul_tests::tcp::{Behaviour, TcpServer};
use serde_json::json;

const WALL: Timestamp = Timestamp(1_700_000_000_000_000);

async fn side(spec: PluginSpec, answers: &[&str]) -> Side {
    let clock: SharedClock = Arc::new(SystemClock);
    let mut settings = RuntimeSettings::new(clock.clone());
    settings.cache_dir = Some(compiled());
    settings.guest_threads = 1;
    let answers: Vec<Step> = answers.iter().map(|text| read_answer(text).unwrap()).collect();
    let side = Side::load(&settings, &clock, spec, &Answering::new(answers, WALL)).await;
    side.unwrap_or_else(|error| panic!("{error}"))
}

fn call(topic: &str, headers: &[(&str, &str)]) -> Call {
    let payload = Bytes::from_static(br#"{"order":1}"#);
    let event = Event {
        seq: EventSeq(1),
        tenant: String::new(),
        id: "order-1".to_owned(),
        topic: topic.to_owned(),
        key: None,
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        content_type: "application/json".to_owned(),
        created_at: WALL,
        expires_at: None,
        payload_bytes: payload.len() as u64,
    };
    Call {
        event,
        dedup_id: "order-1".to_owned(),
        payload,
        attempt: 1,
        is_last_attempt: false,
        uncertain_before: false,
        fence: Fence(1),
        budget: Duration::from_secs(10),
        is_probe: false,
        went_to: WentTo::default(),
    }
}

/// The HTTP plugin, signing, towards an origin where nobody would answer, with a secret header.
fn signed_http(folder: &std::path::Path) -> PluginSpec {
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        SecretSource::File(folder.join(name))
    };
    let mut spec = PluginSpec::bare("hook", guest("http"));
    spec.settings_json = json!({
        "url": "https://hooks.example.invalid/orders?a=1",
        "signing": { "secret": "signing", "algorithms": ["hmac-sha256"] }
    })
    .to_string();
    spec.http.push(HttpGrant {
        origin: "https://hooks.example.invalid".to_owned(),
        headers: vec![("Authorization".to_owned(), file("token", "Bearer secret"))],
        private: false,
        roots: None,
        client_cert: None,
    });
    let keys = vec![file("key", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0")];
    spec.secrets.insert("signing".to_owned(), SecretGrant { keys, uses: vec!["hmac-sha256".to_owned()] });
    spec
}

fn same(one: &Made, other: &Made) {
    assert_eq!(differences(one, other, &BTreeSet::new()), []);
}

#[tokio::test]
async fn a_request_is_answered_inside_the_host_and_kept_without_the_operators_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let side = side(signed_http(folder.path()), &[]).await;
    let made = side.make(call("order.created", &[])).await;
    assert_eq!(told(&made.outcome), "delivered");
    let [request] = &made.heard.requests[..] else { panic!("one request: {:?}", made.heard) };
    assert_eq!((&*request.method, &*request.url), ("POST", "https://hooks.example.invalid/orders?a=1"));
    assert_eq!((&request.body[..], request.body_bytes), (&br#"{"order":1}"#[..], 11));
    let header = |name: &str| request.headers.iter().find(|(it, _)| it == name).map(|(_, value)| &**value);
    assert_eq!(header("webhook-timestamp"), Some("1700000000"), "guests see the time of the replay");
    assert!(header("webhook-signature").is_some_and(|value| value.starts_with("v1,")));
    assert_eq!(header("authorization"), None);
}

#[tokio::test]
async fn the_same_component_makes_the_same_of_every_event_however_often() {
    let folder = tempfile::tempdir().unwrap();
    let spec = signed_http(folder.path());
    let (one, other) = (side(spec.clone(), &[]).await, side(spec, &[]).await);
    let first = one.make(call("order.created", &[])).await;
    for _ in 0..3 {
        same(&first, &one.make(call("order.created", &[])).await);
        same(&first, &other.make(call("order.created", &[])).await);
    }
}

#[tokio::test]
async fn the_answers_are_what_the_plugin_gets() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = async |answer: &str| {
        let side = side(signed_http(folder.path()), &[answer]).await;
        told(&side.make(call("order.created", &[])).await.outcome)
    };
    for (answer, expected) in [
        ("201", "delivered"),
        ("422", "rejected (http-422"),
        ("503", "unavailable (http-503"),
        ("refuse", "unavailable ("),
        ("reset", "retry ("),
        ("silent", "retry ("),
    ] {
        let told = outcome(answer).await;
        assert!(told.starts_with(expected), "{answer}: {told}");
        let is_uncertain = matches!(answer, "reset" | "silent");
        assert_eq!(told.contains("it may have been applied"), is_uncertain, "{answer}: {told}");
    }
}

#[tokio::test]
async fn an_origin_that_is_not_granted_is_told_and_what_asks_for_it_differs() {
    let folder = tempfile::tempdir().unwrap();
    let granted = signed_http(folder.path());
    let ungranted = PluginSpec { http: Vec::new(), ..granted.clone() };
    let (granted, ungranted) = (side(granted, &[]).await, side(ungranted, &[]).await);
    let (one, other) =
        (granted.make(call("order.created", &[])).await, ungranted.make(call("order.created", &[])).await);
    assert_eq!(other.heard.unreached, ["http https://hooks.example.invalid"]);
    let found = differences(&one, &other, &BTreeSet::new());
    let whats: Vec<_> = found.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(whats, ["outcome", "requests", "unreached"], "{found:?}");
}

#[tokio::test]
async fn no_connection_is_made_to_an_endpoint_or_by_a_socket_whatever_is_granted() {
    let server = TcpServer::start(Behaviour::Echo).await;
    let address = server.address.to_string();
    let mut spec = PluginSpec::bare("bus", guest("connections"));
    let endpoint = NetGrant { address: address.clone(), private: true, ..NetGrant::default() };
    spec.net.insert("broker".to_owned(), endpoint);
    let tcp = vec![address.clone(), "localhost:80".to_owned()];
    spec.sockets = Some(SocketsGrant { tcp, resolve: true, private: true });
    let side = side(spec, &[]).await;

    let net = side.make(call("net.echo", &[])).await;
    assert_eq!(net.heard.unreached, [format!("net {address}")]);
    let found = format!("{:?}", net.outcome);
    assert!(found.contains("unreachable: ") && found.contains("while this runs offline"), "{found}");

    let socket = side.make(call("sockets.echo", &[("address", &address)])).await;
    assert_eq!(socket.heard.unreached, [format!("sockets {address}")]);
    assert!(format!("{:?}", socket.outcome).contains("connect: "), "{socket:?}");

    let name = side.make(call("sockets.resolve", &[("name", "localhost")])).await;
    assert_eq!(name.heard.unreached, ["sockets localhost"]);
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn no_transaction_begins_in_a_database_whatever_is_granted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stock.db");
    let mut spec = PluginSpec::bare("stock", guest("stock-ledger"));
    spec.settings_json = json!({ "database": "stock" }).to_string();
    let url = SqlUrl::Text(format!("sqlite:{}?mode=rwc", file.display()));
    spec.sql.insert("stock".to_owned(), SqlGrant { url, pool: 1, isolation: SqlIsolation::default() });
    let side = side(spec, &[]).await;
    let payload = Bytes::from_static(br#"{"sku":"A","quantity":3}"#);
    let made = side.make(Call { payload, ..call("shipment.requested", &[]) }).await;
    assert_eq!(made.heard.unreached, ["sql stock"], "{made:?}");
    assert_eq!(made.outcome.kind(), "unavailable", "{made:?}");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_fault_of_one_component_shows_in_what_comes_of_an_event() {
    let [good, bad] = ["noop", "hostile"].map(|name| PluginSpec::bare("hook", guest(name)));
    let (good, bad) = (side(good, &[]).await, side(bad, &[]).await);
    for (topic, expected) in [("hostile.trap", "trap ("), ("hostile.rejected", "rejected (")] {
        let (one, other) = (good.make(call(topic, &[])).await, bad.make(call(topic, &[])).await);
        let found = differences(&one, &other, &BTreeSet::new());
        assert_eq!((found.len(), &*found[0].current), (1, "delivered"), "{found:?}");
        assert!(found[0].candidate.starts_with(expected) && found[0].is_of_outcome(), "{found:?}");
    }
    // A fresh instance for each: what broke is gone, and what is counted begins anew.
    same(&good.make(call("hostile.ok", &[])).await, &bad.make(call("hostile.ok", &[])).await);
    let remembered = bad.make(call("hostile.remember", &[])).await;
    same(&remembered, &bad.make(call("hostile.remember", &[])).await);
}
