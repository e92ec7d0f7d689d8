//! A destination with a canary: shares, what is not the canary's to decide, and its swap.

use std::collections::BTreeMap;
use std::path::Path;

use outhaul::store::DeliveryStatus;
use outhaul_tests::components::{replace, variant};
use outhaul_tests::guests::guest;

use crate::databases::{Scene, count, deliveries, run, until, until_delivered};
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
    assert_eq!(went, BTreeMap::from([(sha256(&bytes_of("noop")), EVENTS)]));
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
    scene.write_patient_config(&stable("noop"));
    host.wait_for_generation("hook", 3);
    producer.insert("order.created", "last", 10).await;
    until_delivered(&stores, 30).await;
    assert_eq!(
        attempts_by_component(&scene, "last").await,
        BTreeMap::from([(sha256(&bytes_of("noop")), 10)])
    );
    let (_, metrics) = host.get("/metrics").await;
    assert!(!metrics.contains("variant"), "{metrics}");
    host.stop();
}

#[test]
fn a_canary_is_swapped_while_events_flow_and_nothing_is_lost_or_sent_twice() {
    run(swapped_while_events_flow(Scene::sqlite()));
}

const SWAPS: u32 = 5;

async fn swapped_while_events_flow(scene: Scene) {
    scene.migrate().await;
    let canary = scene.path().join("canary.wasm");
    replace(&canary, &variant("noop", 0));
    let config = scene.write_patient_config(&destination(&canary, "50%"));
    let mut host = Host::start(&config);
    let (stores, mut producer) = (scene.stores().await, scene.producer().await);
    for swap in 1..=SWAPS {
        producer.insert("order.created", &format!("o-{swap}"), EVENTS).await;
        replace(&canary, &variant("noop", swap));
        host.hang_up();
        host.wait_for_generation("hook", u64::from(swap) + 1);
    }
    producer.insert("order.created", "o-last", EVENTS).await;
    let all = EVENTS * (SWAPS as usize + 1);
    until_delivered(&stores, all).await;
    for row in deliveries(&stores).await {
        let counted = (row.attempts, row.lost, row.deferrals, row.fence, row.uncertain);
        assert_eq!(counted, (1, 0, 0, 1, false), "{row:?}");
    }
    let last = attempts_by_component(&scene, "o-last").await;
    let of_canary = last.get(&sha256(&variant("noop", SWAPS))).copied().unwrap_or_default();
    assert!((EVENTS / 4..3 * EVENTS / 4).contains(&of_canary), "{last:?}");
    assert_eq!(last[&sha256(&bytes_of("noop"))], EVENTS - of_canary);
    host.stop();
}

#[test]
fn a_batch_is_shared_out_between_the_two_components() {
    run(a_batch_is_shared_out(Scene::sqlite()));
}

async fn a_batch_is_shared_out(scene: Scene) {
    scene.migrate().await;
    let canary = scene.path().join("canary.wasm");
    let next = variant("full", 1);
    replace(&canary, &next);
    let both = format!("{}concurrency = 20\n", destination_of("full", &canary, "50%"));
    let config = scene.write_patient_config(&both);
    scene.producer().await.insert("order.created", "o", 20).await;
    let host = Host::start(&config);
    let stores = scene.stores().await;
    until_delivered(&stores, 20).await;
    let went = attempts_by_component(&scene, "o").await;
    let parts = [sha256(&bytes_of("full")), sha256(&next)].map(|digest| went[&digest]);
    assert_eq!(parts.iter().sum::<usize>(), 20, "one attempt each");
    // Claimed at once, each part went out in one call to its component.
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for row in deliveries(&stores).await {
        let reference = row.reference.expect("it has a receipt");
        *told.entry(reference.split(',').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    for part in parts {
        assert!(part > 1, "{went:?}");
        assert!(told.contains_key(&format!("batch of {part}")), "{went:?} {told:?}");
    }
    host.stop();
}

fn stable(component: &str) -> String {
    let component = guest(component).display().to_string();
    format!("[destination.hook]\ncomponent = \"{component}\"\ntopics = [\"*\"]\n")
}

fn destination_of(component: &str, canary: &Path, share: &str) -> String {
    let canary = canary.display();
    format!("{}canary = {{ component = \"{canary}\", share = \"{share}\" }}\n", stable(component))
}

fn destination(canary: &Path, share: &str) -> String {
    destination_of("noop", canary, share)
}

fn bytes_of(component: &str) -> Vec<u8> {
    std::fs::read(guest(component)).unwrap()
}

/// How many attempts each component had at the events of this prefix, by its digest.
async fn attempts_by_component(scene: &Scene, prefix: &str) -> BTreeMap<String, usize> {
    let (stores, mut counts) = (scene.stores().await, BTreeMap::new());
    for row in deliveries(&stores).await {
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
