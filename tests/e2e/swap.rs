//! The component of a destination replaced while its calls run.

use std::collections::BTreeSet;

use outhaul_tests::components::{replace, variant};

use crate::databases::{Scene, deliveries, run, until, until_delivered};
use crate::host::{Host, outhaul_json};
use crate::receiver::Receiver;

on_both!(s39_a_thousand_calls_in_flight_survive_fifty_swaps);

const CALLS: usize = 1_000;
const SWAPS: u32 = 50;

async fn s39_a_thousand_calls_in_flight_survive_fifty_swaps(scene: Scene) {
    allow_many_files();
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let component = scene.path().join("http.wasm");
    replace(&component, &variant("http", 0));
    let more = format!(
        "concurrency = {CALLS}\nbatch = {CALLS}\nlimits = {{ call = \"10m\", http = {{ connections = {CALLS}, \
         first_byte = \"10m\", total = \"10m\" }} }}\n"
    );
    let config = scene.write_patient_config(&receiver.destination_of(&component, &more));
    scene.producer().await.insert("order.created", "o", 2 * CALLS).await;
    let mut host = Host::start(&config);
    receiver.wait_for(CALLS).await;
    let first: BTreeSet<String> = receiver.received().iter().map(|one| one.id().to_owned()).collect();
    assert_eq!(first.len(), CALLS);

    for swap in 1..=SWAPS {
        replace(&component, &variant("http", swap));
        host.hang_up();
        host.wait_for_generation("hook", u64::from(swap) + 1);
    }
    assert_eq!(receiver.received().len(), CALLS, "no call of the first generation has ended");
    receiver.allow(usize::MAX);
    let stores = scene.stores().await;
    until_delivered(&stores, 2 * CALLS).await;
    let ended = "the replaced generation has ended its calls";
    while host.wait_for_record(ended)["fields"]["generation"] != 1 {}

    let times = receiver.times_by_id();
    assert_eq!((times.len(), times.values().max()), (2 * CALLS, Some(&1)), "each arrived once");
    let rows = deliveries(&stores).await;
    assert_eq!(rows.len(), 2 * CALLS);
    for row in &rows {
        let counted = (row.attempts, row.lost, row.deferrals, row.fence, row.uncertain);
        assert_eq!(counted, (1, 0, 0, 1, false), "{row:?}");
    }
    // What was running ended on what it started with, and what was not runs on the last one.
    let digest = async |id: &String| {
        let report = stores.operate.show("", id).await.unwrap().expect("the event is there");
        report.attempts[0].component_digest.clone().expect("it was called")
    };
    let (one_of_first, later) = (first.first().unwrap(), times.keys().find(|id| !first.contains(*id)));
    assert_eq!(digest(one_of_first).await, sha256(&variant("http", 0)));
    assert_eq!(digest(later.unwrap()).await, sha256(&variant("http", SWAPS)));
    let (_, metrics) = host.get("/metrics").await;
    let line = format!("outhaul_generation{{destination=\"hook\"}} {}", SWAPS + 1);
    assert!(metrics.lines().any(|found| found == line), "no {line} in\n{metrics}");
    let calls = format!("outhaul_plugin_calls_total{{destination=\"hook\"}} {}", 2 * CALLS);
    assert!(metrics.lines().any(|found| found == calls), "no {calls} in\n{metrics}");
    host.stop();
}

#[test]
fn fifty_swaps_leave_memory_mappings_threads_and_files_as_they_were() {
    run(fifty_swaps_leave_nothing_behind(Scene::sqlite()));
}

async fn fifty_swaps_leave_nothing_behind(scene: Scene) {
    scene.migrate().await;
    let receiver = Receiver::start().await;
    let component = scene.path().join("http.wasm");
    replace(&component, &variant("http", 0));
    // One warm instance, one connection: how many are warm by chance is not what this is about.
    let config = scene.write_patient_config(&receiver.destination_of(&component, "concurrency = 1\n"));
    let mut host = Host::start(&config);
    let (stores, mut producer) = (scene.stores().await, scene.producer().await);
    let mut generation = 1;
    // Three components in turn: what is compiled once is not what this is about.
    let mut swap = async |host: &mut Host, times: u32| {
        for _ in 0..times {
            generation += 1;
            producer.insert("order.created", &format!("o-{generation}"), 20).await;
            replace(&component, &variant("http", u32::try_from(generation % 3).unwrap()));
            host.hang_up();
            host.wait_for_generation("hook", generation);
            let ended = "the replaced generation has ended its calls";
            while host.wait_for_record(ended)["fields"]["generation"] != generation - 1 {}
            until_delivered(&stores, 20 * (usize::try_from(generation).unwrap() - 1)).await;
        }
    };
    swap(&mut host, 20).await;
    let before = Held::by(host.pid());
    swap(&mut host, 50).await;
    let after = Held::by(host.pid());
    assert!(after.mappings <= before.mappings + 20, "{before:?} {after:?}");
    assert!(after.resident_bytes <= before.resident_bytes + (16 << 20), "{before:?} {after:?}");
    assert!(after.files <= before.files + 5, "{before:?} {after:?}");
    // Threads for waiting come and go.
    assert!(after.threads <= before.threads + 5, "{before:?} {after:?}");
    println!("held before and after fifty swaps: {before:?} {after:?}");
    host.stop();
}

#[test]
fn a_component_still_being_written_is_left_alone_and_a_half_written_one_heals() {
    run(a_half_written_component(Scene::sqlite()));
}

async fn a_half_written_component(scene: Scene) {
    scene.migrate().await;
    let component = scene.path().join("noop.wasm");
    let (old, new) = (variant("noop", 1), variant("noop", 2));
    replace(&component, &old);
    let destination =
        format!("[destination.noop]\ncomponent = \"{}\"\ntopics = [\"*\"]\n", component.display());
    let config = scene.write_patient_config(&destination);
    let mut host = Host::start(&config);
    // In place, as a copy over the old file does it; then the copy stands still for a while.
    std::fs::write(&component, &new[..new.len() / 2]).unwrap();
    let refused = host.wait_for_record("the candidate is refused; the running generation stays");
    assert!(refused["fields"]["error"].as_str().unwrap().contains("does not compile"), "{refused}");
    scene.producer().await.insert("order.created", "o", 1).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 1).await;
    let told = async || {
        let status = outhaul_json(&config, &["status", "--json"]);
        status["hosts"][0]["loaded"][0]["reload_error"].is_string().then_some(())
    };
    until("status tells of it", told).await;

    std::fs::write(&component, &new).unwrap();
    let record = host.wait_for_generation("noop", 2);
    assert_eq!(record["fields"]["digest"], sha256(&new).as_str());
    let (status, readiness) = host.readiness().await;
    let noop = &readiness["destinations"]["noop"];
    assert_eq!(
        (status, &noop["generation"], noop.get("reload_error")),
        (200, &2.into(), None),
        "{readiness}"
    );
    host.stop();
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a process holds.
#[derive(Debug)]
struct Held {
    resident_bytes: usize,
    mappings: usize,
    threads: usize,
    files: usize,
}

impl Held {
    fn by(pid: u32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        let count = |name: &str| std::fs::read_dir(format!("/proc/{pid}/{name}")).unwrap().count();
        let resident_pages: usize = read("statm").split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            resident_bytes: resident_pages * 4096,
            mappings: read("maps").lines().count(),
            threads: count("task"),
            files: count("fd"),
        }
    }
}

/// A connection a call, on both sides.
fn allow_many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both only read or fill the struct they are given.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}
