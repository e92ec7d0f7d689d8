//! Plugins that were built for a released contract, in the host as it is now: what crosses the boundary is what
//! was meant, in both directions (S37). `host/docs/plugins/growth.md` says how a version joins.

use std::path::Path;
use std::time::Duration;

use crate::harness::{Lane, Plan, after, call, detail};
use crate::records;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use outhaul::domain::{Event, EventSeq, Fence, Outcome, Timestamp};
use outhaul::plugin::spec::{NetGrant, NetTls};
use outhaul::plugin::{Call, Deliver, WentTo};
use outhaul_tests::fixtures::{Fixture, current_version, line, of_language};
use serde_json::{Value, json};
use sha2::Sha256;

macro_rules! kept {
    ($language:ident: $($promise:ident),* $(,)?) => {
        mod $language {
            $(#[tokio::test]
            async fn $promise() {
                for fixture in super::of_our_line(stringify!($language)) {
                    super::$promise(&fixture).await;
                }
            })*
        }
    };
    ($language:ident) => {
        kept! { $language:
            s37_every_field_of_an_event_reaches_it,
            s37_every_answer_of_it_is_understood,
            s37_its_batches_keep_each_outcome,
            s37_its_log_lines_and_secrets_are_served,
            s37_its_refusals_of_settings_are_understood,
            s37_all_it_exports_is_found_and_called,
        }
    };
}

kept!(rust);
kept!(c);
kept!(go);
kept!(python);
kept!(js);

fn of_our_line(language: &str) -> Vec<Fixture> {
    let current = current_version();
    let found: Vec<_> = of_language(language)
        .into_iter()
        .filter(|fixture| line(&fixture.version) == line(&current))
        .collect();
    assert!(!found.is_empty(), "no fixture in {language} is of the line of {current}");
    found
}

fn plan(fixture: &Fixture, settings: Value) -> Plan {
    Plan::at(&fixture.component, settings)
}

async fn load(fixture: &Fixture) -> Lane {
    plan(fixture, json!({})).load().await
}

fn event(topic: &str) -> Call {
    let mut call = call(b"\0\xff{}");
    call.event.topic = topic.to_owned();
    call
}

fn reference(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Delivered(receipt) | Outcome::Duplicate(receipt) => {
            receipt.reference.as_deref().expect("each receipt has one")
        }
        other => panic!("not delivered: {other:?}"),
    }
}

async fn s37_every_field_of_an_event_reaches_it(fixture: &Fixture) {
    let lane = load(fixture).await;
    let destination = lane.destination().to_owned();
    let full = Call {
        event: Event {
            seq: EventSeq(1 << 40),
            tenant: "acme".to_owned(),
            id: "order-Zoë".to_owned(),
            topic: "order.created".to_owned(),
            key: Some("customer-7".to_owned()),
            headers: vec![("a".into(), "1".into()), ("Trace".into(), "é".into())],
            content_type: "text/plain".to_owned(),
            created_at: Timestamp(-1_234_567),
            expires_at: None,
            payload_bytes: 4,
        },
        dedup_id: "d1e2".to_owned(),
        payload: Bytes::from_static(b"\0\xff{}"),
        attempt: 3,
        is_last_attempt: true,
        uncertain_before: false,
        fence: Fence(1 << 50),
        budget: Duration::from_secs(10),
        is_probe: false,
        went_to: WentTo::default(),
    };
    let expected = [
        "order-Zoë",
        "d1e2",
        &destination,
        "order.created",
        "customer-7",
        "acme",
        "a=1,Trace=é",
        "text/plain",
        "00ff7b7d",
        "-1234567",
        "1099511627776",
        "3",
        "true",
        "false",
        "1125899906842624",
        // budget-ms, which the time before the call is taken from
        "",
        "0",
    ];
    let outcome = lane.deliver(full.clone()).await;
    assert_eq!(outcome.kind(), "delivered");
    let mut fields: Vec<_> = reference(&outcome).split('|').collect();
    let budget_ms: u64 = std::mem::take(&mut fields[15]).parse().expect("a number");
    assert!((5_000..=10_000).contains(&budget_ms), "{budget_ms}");
    assert_eq!(fields, expected, "{}", fixture.version);

    // The other values of what has only a few.
    let mut bare = full;
    bare.event.topic = "duplicate".to_owned();
    bare.event.key = None;
    bare.event.headers = Vec::new();
    (bare.is_last_attempt, bare.uncertain_before) = (false, true);
    let outcome = lane.deliver(bare).await;
    assert_eq!(outcome.kind(), "duplicate");
    let fields: Vec<_> = reference(&outcome).split('|').collect();
    assert_eq!((fields[4], fields[6], fields[12], fields[13]), ("-", "", "false", "true"));
    assert_eq!(lane.stats().instances_created, 1);
}

async fn s37_every_answer_of_it_is_understood(fixture: &Fixture) {
    let lane = load(fixture).await;
    for kind in
        ["retry", "rate-limited", "unavailable", "rejected", "conflict", "gone", "misconfigured", "other"]
    {
        let outcome = lane.deliver(event(kind)).await;
        assert_eq!(outcome.kind(), kind, "{outcome:?}");
        let said = detail(&outcome);
        assert_eq!(
            (said.code.as_str(), said.message.as_str()),
            (kind, format!("{kind} on purpose").as_str())
        );
        assert!(outcome.is_uncertain(), "{kind} says maybe-applied");
        if let "retry" | "rate-limited" | "unavailable" = kind {
            assert_eq!(after(&outcome), Some(Duration::from_secs(7)), "{kind}");
        }
    }
    assert_eq!(lane.stats().instances_created, 1);
}

async fn s37_its_batches_keep_each_outcome(fixture: &Fixture) {
    let lane = load(fixture).await;
    let topics = ["order.created", "rejected", "duplicate", "retry", "order.created"];
    let calls = topics.iter().enumerate().map(|(number, topic)| {
        let mut call = event(topic);
        call.dedup_id = format!("order-{number}");
        call
    });
    let outcomes = lane.plugin.deliver_batch(calls.collect()).await;
    let kinds: Vec<_> = outcomes.iter().map(Outcome::kind).collect();
    assert_eq!(kinds, ["delivered", "rejected", "duplicate", "retry", "delivered"]);
    for number in [0, 2, 4] {
        let id = reference(&outcomes[number]).split('|').nth(1);
        assert_eq!(id, Some(format!("order-{number}").as_str()));
    }
    assert_eq!((lane.stats().batches, lane.stats().batched_events), (1, 5));
}

async fn s37_its_log_lines_and_secrets_are_served(fixture: &Fixture) {
    records::keep();
    let bare = load(fixture).await;
    assert_eq!(reference(&bare.deliver(event("log")).await), "logged");
    let expected = ("WARN".to_owned(), "a line\nof two".to_owned());
    assert_eq!(records::of(bare.destination()), [expected]);
    for topic in ["sign", "reveal"] {
        assert_eq!(reference(&bare.deliver(event(topic)).await), "denied", "{topic}");
    }

    let folder = tempfile::tempdir().expect("a folder");
    let keys: [&[u8]; 2] = [b"new", b"old"];
    let plan = plan(fixture, json!({})).signing(folder.path(), &keys, &["hmac-sha256", "reveal"]);
    let lane = plan.load().await;
    let signed = |key: &[u8]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length will do");
        mac.update(b"\0\xff{}");
        hex(&mac.finalize().into_bytes())
    };
    let expected = format!("0:{},1:{}", signed(b"new"), signed(b"old"));
    assert_eq!(reference(&lane.deliver(event("sign")).await), expected);
    assert_eq!(reference(&lane.deliver(event("reveal")).await), format!("{},{}", hex(b"new"), hex(b"old")));
}

async fn s37_its_refusals_of_settings_are_understood(fixture: &Fixture) {
    let message = plan(fixture, json!({ "refuse": true })).refusal().await;
    assert!(message.contains("/refuse: refused on purpose"), "{message}");
    let lane = plan(fixture, json!({ "later": true })).load().await;
    let outcome = lane.deliver(event("order.created")).await;
    assert_eq!(outcome.kind(), "unavailable");
    assert_eq!(detail(&outcome).message, "not now, on purpose");
}

async fn s37_all_it_exports_is_found_and_called(fixture: &Fixture) {
    records::keep();
    let lane = load(fixture).await;
    let said = lane.plugin.description().expect("it can be read").expect("it has one");
    assert_eq!((said.name.as_str(), said.version.as_str()), ("fixture", fixture.version.as_str()));
    assert_eq!(said.settings_schema, "{}");
    let need = &said.needs[0];
    assert_eq!((need.capability.as_str(), need.name.as_str(), need.optional), ("secret", "signing", true));
    assert_eq!(need.purpose, "is asked for");
    assert_eq!((&*need.uses, need.attributes["asked"].as_str()), (&["reveal".to_owned()][..], "yes"));
    assert!(said.attributes.contains_key("language"), "{said:?}");
    let problem = lane.plugin.check().await.expect("it exports check").expect_err("it says so on purpose");
    assert_eq!((problem.kind(), detail(&problem).message.as_str()), ("unavailable", "check on purpose"));
    while lane.stats().ticks == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lane.plugin.retire().await;
    let stats = lane.stats();
    assert_eq!((stats.ticks_failed, stats.closes_failed), (0, 0));
    let written = records::of(lane.destination());
    assert!(written.contains(&("INFO".to_owned(), "closed".to_owned())), "{written:?}");
}

/// Of those that are compiled in a moment, only to be refused; the sentence is the same for all.
#[tokio::test]
async fn s37_one_of_another_line_is_told_both_versions_and_the_fix() {
    let current = current_version();
    for fixture in ["rust", "c", "go"].into_iter().flat_map(of_language) {
        let bytes = std::fs::read(&fixture.component).expect("the fixture can be read");
        let folder = tempfile::tempdir().expect("a folder");
        let component = folder.path().join("other.wasm");
        std::fs::write(&component, renumbered(bytes, &fixture.version)).expect("it can be written");
        let other = Fixture { version: "9.9.9".to_owned(), component };
        let message = plan(&other, json!({})).refusal().await;
        for word in ["outhaul:delivery 9.9.9", &format!("outhaul:delivery {current}"), "use a newer host"] {
            assert!(message.contains(word), "{message}");
        }
    }
}

/// Untouched: who upgrades the host learns which plugins are to be built again.
#[tokio::test]
async fn s37_one_of_a_line_that_is_over_is_told_to_be_built_again() {
    let current = current_version();
    let is_over = |fixture: &Fixture| line(&fixture.version) != line(&current);
    let past: Vec<_> = ["rust", "c"].into_iter().flat_map(of_language).filter(is_over).collect();
    assert!(past.len() >= 2, "0.1.0 is kept in Rust and in C");
    for fixture in past {
        let message = plan(&fixture, json!({})).refusal().await;
        let versions =
            format!("outhaul:delivery {}, and this host has outhaul:delivery {current}", fixture.version);
        for word in [versions.as_str(), "build the plugin again with the wit/ folder of this host's version"]
        {
            assert!(message.contains(word), "{message}");
        }
    }
}

/// The same component, exported for 9.9.9. Versions of the same length, so that the binary's lengths stay right.
fn renumbered(mut bytes: Vec<u8>, version: &str) -> Vec<u8> {
    assert_eq!(version.len(), 5, "write another number here for {version}");
    let name = format!("outhaul:delivery/deliver@{version}");
    let mut found = 0;
    for at in 0..bytes.len().saturating_sub(name.len()) {
        if bytes[at..].starts_with(name.as_bytes()) {
            bytes[at..at + name.len()].copy_from_slice(b"outhaul:delivery/deliver@9.9.9");
            found += 1;
        }
    }
    assert!(found > 0, "it does not hold {name}");
    bytes
}

#[tokio::test]
async fn s37_a_connection_that_it_asks_for_is_opened_or_denied() {
    for fixture in of_our_line("rust") {
        let bare = load(&fixture).await;
        assert_eq!(reference(&bare.deliver(event("net")).await), "denied");
        let address = greeting_server().await;
        let grant = NetGrant { address, private: true, ..NetGrant::default() };
        let plan = plan(&fixture, json!({})).change(|spec| {
            spec.net.insert("broker".to_owned(), grant.clone());
        });
        let lane = plan.load().await;
        for topic in ["net", "net-in-clear"] {
            assert_eq!(reference(&lane.deliver(event(topic)).await), format!("read {}", hex(b"hello")));
        }
        // The greeting is all it says, so the TLS it asks for is not to be had there.
        let grant = NetGrant { tls: NetTls::Start, ..grant };
        let plan = self::plan(&fixture, json!({})).change(|spec| {
            spec.net.insert("broker".to_owned(), grant);
        });
        let lane = plan.load().await;
        assert_eq!(reference(&lane.deliver(event("net")).await), "denied");
        let told = lane.deliver(event("net-in-clear")).await;
        assert_eq!(reference(&told), format!("read {}, unreachable", hex(b"hello")));
    }
}

async fn greeting_server() -> String {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"hello").await.ok();
        }
    });
    address
}

/// What is committed as compiled is small.
#[test]
fn committed_fixtures_are_small() {
    for language in ["rust", "c"] {
        for fixture in of_language(language) {
            let bytes = Path::new(&fixture.component).metadata().expect("it is there").len();
            assert!(bytes < 128 << 10, "{} has {bytes} bytes", fixture.component.display());
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
