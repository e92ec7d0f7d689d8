//! A destination with a canary: shares, what is not the canary's to decide, and its swap.

use std::collections::BTreeMap;

use outhaul::store::DeliveryStatus;
use outhaul_tests::components::{replace, variant};
use outhaul_tests::guests::guest;

use crate::databases::{Scene, count, run, until, until_delivered};
use crate::host::{Host, outhaul, outhaul_json};

on_both!(a_canary_gets_its_share_and_stops_and_kills_nothing);

const EVENTS: usize = 100;

/// The stable component delivers whatever it gets; the canary does what the topic says.
async fn a_canary_gets_its_share_and_stops_and_kills_nothing(scene: Scene) {
    scene.migrate().await;
    let canary = scene.path().join("canary.wasm");
    replace(&canary, &variant("hostile", 1));
    let config = scene.write_patient_config(&destination(&canary, "50%"));
    let mut host = Host::start(&config);
    let (stores, mut producer) = (scene.stores().await, scene.producer().await);

    producer.insert("hostile.ok", "ok", EVENTS).await;
    until_delivered(&stores, EVENTS).await;
    let went = attempts_by_component(&scene, "ok").await;
    let of_canary = went[&sha256(&variant("hostile", 1))];
    assert_eq!(went.values().sum::<usize>(), EVENTS, "one attempt each");
    assert!((EVENTS / 4..3 * EVENTS / 4).contains(&of_canary), "{went:?}");

    // What it rejects is delivered by the stable component, in the same attempt.
    producer.insert("hostile.rejected", "no", EVENTS).await;
    until_delivered(&stores, 2 * EVENTS).await;
    let went = attempts_by_component(&scene, "no").await;
    assert_eq!(went, BTreeMap::from([(sha256(&bytes_of_noop()), EVENTS)]));
    assert_eq!(count(&stores, DeliveryStatus::Dead).await, 0);

    // Where it says that its destination is gone, it is off and the lane is not.
    producer.insert("hostile.gone", "gone", EVENTS).await;
    until_delivered(&stores, 3 * EVENTS).await;
    let record = host.wait_for_record("the canary is off; its share goes to the stable component");
    assert!(record["fields"]["why"].as_str().unwrap().contains("gone"), "{record}");
    let status = until("status tells of it", async || {
        let status = outhaul_json(&config, &["status", "--json"]);
        status["hosts"][0]["loaded"][0]["canary"]["off"].is_string().then_some(status)
    });
    let status = status.await;
    assert_eq!(status["lanes"][0]["state"], "active");
    let told = &status["hosts"][0]["loaded"][0]["canary"];
    assert_eq!(
        (&told["share"], &told["canary"]["outcomes"]["delivered"]),
        (&"50%".into(), &of_canary.into())
    );
    assert!(told["canary"]["outcomes"]["rejected"].as_u64() > Some(0), "{told}");
    assert!(told["canary"]["p99_micros"].as_u64() >= told["canary"]["p50_micros"].as_u64(), "{told}");
    let table = String::from_utf8(outhaul(&config, &["status"]).stdout).unwrap();
    for part in ["VARIANT", "canary 50%", "is off: it says gone", "the stable component decided"] {
        assert!(table.contains(part), "no {part} in\n{table}");
    }
    let (_, metrics) = host.get("/metrics").await;
    let outcomes =
        "outhaul_variant_outcomes_total{destination=\"hook\",variant=\"canary\",outcome=\"delivered\"}";
    let seconds = "outhaul_variant_call_seconds_count{destination=\"hook\",variant=\"stable\"}";
    for part in [&format!("{outcomes} {of_canary}"), "outhaul_canary_off{destination=\"hook\"} 1", seconds] {
        assert!(metrics.contains(part), "no {part} in\n{metrics}");
    }

    // A hangup tries it again, although nothing changed.
    host.hang_up();
    host.wait_for_generation("hook", 2);
    producer.insert("hostile.ok", "again", EVENTS).await;
    until_delivered(&stores, 4 * EVENTS).await;
    assert!(attempts_by_component(&scene, "again").await.contains_key(&sha256(&variant("hostile", 1))));
    host.stop();
}

#[test]
fn a_canary_that_does_not_load_leaves_all_to_the_stable_component_until_it_is_mended() {
    run(a_canary_that_does_not_load(Scene::sqlite()));
}

async fn a_canary_that_does_not_load(scene: Scene) {
    scene.migrate().await;
    let canary = scene.path().join("canary.wasm");
    let config = scene.write_patient_config(&destination(&canary, "100%"));
    let checked = outhaul(&config, &["check"]);
    let findings = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(1), "{findings}");
    assert!(findings.contains("destination.hook.canary") && findings.contains("canary.wasm"), "{findings}");

    let mut host = Host::start(&config);
    let (stores, mut producer) = (scene.stores().await, scene.producer().await);
    producer.insert("order.created", "early", 10).await;
    until_delivered(&stores, 10).await;
    let (status, readiness) = host.readiness().await;
    assert_eq!((status, &readiness["destinations"]["hook"]["ok"]), (200, &true.into()), "{readiness}");

    let mended = variant("noop", 2);
    replace(&canary, &mended);
    host.wait_for_generation("hook", 2);
    producer.insert("order.created", "late", 10).await;
    until_delivered(&stores, 20).await;
    assert_eq!(attempts_by_component(&scene, "late").await, BTreeMap::from([(sha256(&mended), 10)]));
    // Without the key all is as it was before there was a canary.
    scene.write_patient_config(&noop());
    host.wait_for_generation("hook", 3);
    producer.insert("order.created", "last", 10).await;
    until_delivered(&stores, 30).await;
    assert_eq!(attempts_by_component(&scene, "last").await, BTreeMap::from([(sha256(&bytes_of_noop()), 10)]));
    let (_, metrics) = host.get("/metrics").await;
    assert!(!metrics.contains("variant"), "{metrics}");
    host.stop();
}

fn noop() -> String {
    let component = guest("noop").display().to_string();
    format!("[destination.hook]\ncomponent = \"{component}\"\ntopics = [\"*\"]\n")
}

fn destination(canary: &std::path::Path, share: &str) -> String {
    format!("{}canary = {{ component = \"{}\", share = \"{share}\" }}\n", noop(), canary.display())
}

fn bytes_of_noop() -> Vec<u8> {
    std::fs::read(guest("noop")).unwrap()
}

/// How many attempts each component had at the events of this prefix, by its digest.
async fn attempts_by_component(scene: &Scene, prefix: &str) -> BTreeMap<String, usize> {
    let (stores, mut counts) = (scene.stores().await, BTreeMap::new());
    for row in crate::databases::deliveries(&stores).await {
        if !row.event_id.starts_with(&format!("{prefix}-")) {
            continue;
        }
        let report = stores.operate.show("", &row.event_id).await.unwrap().expect("the event is there");
        for attempt in report.attempts {
            *counts.entry(attempt.component_digest.expect("it was called")).or_default() += 1;
        }
    }
    counts
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
