//! Two host processes on one database, with nothing between them but their claims.

use std::collections::BTreeSet;

use outhaul::store::DeliveryStatus;

use crate::databases::{Scene, deliveries, until, until_delivered};
use crate::first_event::noop;
use crate::host::{Host, outhaul, outhaul_json};
use crate::receiver::Receiver;

on_both!(
    two_hosts_deliver_each_of_5000_events_exactly_once,
    a_killed_hosts_deliveries_are_taken_over_within_lease_and_poll,
    status_sums_what_the_hosts_delivered_in_the_last_minute,
    s7_a_second_host_started_while_slow_deliveries_run_repeats_none_of_them,
);

async fn two_hosts_deliver_each_of_5000_events_exactly_once(scene: Scene) {
    const EVENTS: usize = 5_000;
    scene.migrate().await;
    let receiver = Receiver::start().await;
    let config = scene.write_patient_config(&receiver.destination(""));
    let (first, second) = (Host::start(&config), Host::start(&config));
    let mut producer = scene.producer().await;
    for part in 0..10 {
        producer.insert("order.created", &format!("o-{part}"), EVENTS / 10).await;
    }
    let stores = scene.stores().await;
    until_delivered(&stores, EVENTS).await;
    first.stop();
    second.stop();
    let times = receiver.times_by_id();
    assert_eq!(times.len(), EVENTS);
    assert_eq!(times.values().filter(|times| **times != 1).count(), 0, "each arrived once");
    let rows = deliveries(&stores).await;
    assert_eq!(rows.len(), EVENTS);
    let is_as_expected = |row: &&outhaul::store::DeliveryRow| {
        row.status == DeliveryStatus::Delivered && row.attempts == 1 && row.lost == 0
    };
    let others: Vec<_> = rows.iter().filter(|row| !is_as_expected(row)).collect();
    assert!(others.is_empty(), "{others:?}");
}

async fn a_killed_hosts_deliveries_are_taken_over_within_lease_and_poll(scene: Scene) {
    const EVENTS: usize = 40;
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let more = "concurrency = 8\nlease = \"4s\"\nmargin = \"500ms\"\n";
    let config = scene.write_config(&receiver.destination(more));
    scene.producer().await.insert("order.created", "o", EVENTS).await;
    let doomed = Host::start(&config);
    receiver.wait_for(8).await;
    let survivor = Host::start(&config);
    receiver.wait_for(16).await;
    doomed.kill();

    let stores = scene.stores().await;
    let held: Vec<_> =
        deliveries(&stores).await.into_iter().filter(|row| row.lease_until.is_some()).collect();
    assert_eq!(held.len(), 16);
    receiver.allow(usize::MAX);
    until_delivered(&stores, EVENTS).await;
    survivor.stop();

    let taken_over: BTreeSet<String> = deliveries(&stores)
        .await
        .iter()
        .filter(|row| row.attempts > 1)
        .map(|row| row.event_id.clone())
        .collect();
    assert_eq!(taken_over.len(), 8, "what the killed host held, and nothing else: {taken_over:?}");
    for row in held.iter().filter(|row| taken_over.contains(&row.event_id)) {
        let report = stores.operate.show("", &row.event_id).await.unwrap().expect("the event is there");
        let outcomes: Vec<&str> = report.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
        assert_eq!(outcomes, ["lost", "delivered"]);
        // By the database's clock: not before the lease ended, and within the poll interval
        // (500 ms) and one statement's timeout (1 s) after it.
        let lease_until = row.lease_until.expect("it was leased");
        let taken_at = report.attempts[1].started_at.expect("it was started");
        assert!(taken_at >= lease_until, "{} was taken while leased", row.event_id);
        let late = taken_at.since(lease_until);
        assert!(late.as_millis() <= 1_500, "{} waited {late:?} after its lease", row.event_id);
    }
}

async fn status_sums_what_the_hosts_delivered_in_the_last_minute(scene: Scene) {
    const EVENTS: usize = 60;
    scene.migrate().await;
    // Small batches, so that both get some.
    let both = format!("{}{}", noop("hook", "order.*", "batch = 2\n"), noop("idle", "stock.*", ""));
    let config = scene.write_config(&both);
    let rates = |status: &serde_json::Value| -> Vec<_> {
        let lanes = status["lanes"].as_array().unwrap().iter();
        lanes.map(|lane| (lane["destination"].to_string(), lane["delivered_per_minute"].as_u64())).collect()
    };
    assert!(outhaul(&config, &["config", "apply"]).status.success());
    let told = rates(&outhaul_json(&config, &["status", "--json"]));
    assert!(told.iter().all(|(_, rate)| rate.is_none()), "no host runs a lane: {told:?}");
    let hosts = [Host::start(&config), Host::start(&config)];
    scene.producer().await.insert("order.created", "o", EVENTS).await;
    let stores = scene.stores().await;
    until_delivered(&stores, EVENTS).await;
    // Each host tells its own within a heartbeat.
    let told = until("the sum is told", async || {
        let told = rates(&outhaul_json(&config, &["status", "--json"]));
        told.contains(&("\"hook\"".to_owned(), Some(EVENTS as u64))).then_some(told)
    });
    assert!(told.await.contains(&("\"idle\"".to_owned(), Some(0))));
    let table = String::from_utf8(outhaul(&config, &["status"]).stdout).unwrap();
    assert!(table.contains("PER MIN"), "{table}");
    hosts.into_iter().for_each(Host::stop);
}

async fn s7_a_second_host_started_while_slow_deliveries_run_repeats_none_of_them(scene: Scene) {
    const EVENTS: usize = 20;
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let more = "concurrency = 20\nlease = \"4s\"\nmargin = \"500ms\"\nlimits = { call = \"60s\" }\n";
    let config = scene.write_config(&receiver.destination(more));
    scene.producer().await.insert("order.created", "o", EVENTS).await;
    let first = Host::start(&config);
    receiver.wait_for(EVENTS).await;
    let stores = scene.stores().await;
    let first_leases: Vec<_> = deliveries(&stores).await.iter().filter_map(|row| row.lease_until).collect();
    assert_eq!(first_leases.len(), EVENTS);
    let second = Host::start(&config);

    // By the database's clock every lease of the first claim is over, and only renewal held them.
    let last = *first_leases.iter().max().expect("not empty");
    until("the first leases have ended", async || {
        (stores.store.now().await.expect("the database answers") > last).then_some(())
    })
    .await;
    assert_eq!(receiver.received().len(), EVENTS, "the second host started none of them");
    receiver.allow(usize::MAX);
    until_delivered(&stores, EVENTS).await;
    first.stop();
    second.stop();
    assert!(receiver.times_by_id().values().all(|times| *times == 1));
    let rows = deliveries(&stores).await;
    assert!(rows.iter().all(|row| row.attempts == 1 && row.lost == 0 && row.fence == 1), "{rows:?}");
}
