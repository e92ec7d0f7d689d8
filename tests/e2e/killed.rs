//! `kill -9` of the real host in the middle of its work.

use std::collections::{BTreeMap, BTreeSet};

use outhaul::store::DeliveryStatus;

use crate::databases::{Scene, deliveries, until_delivered};
use crate::host::Host;
use crate::receiver::Receiver;

on_both!(s4_a_host_killed_in_mid_delivery_loses_nothing_and_repeats_only_what_was_in_flight);

const EVENTS: usize = 1_000;

async fn s4_a_host_killed_in_mid_delivery_loses_nothing_and_repeats_only_what_was_in_flight(scene: Scene) {
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    receiver.allow(300);
    let config = scene.write_config(&receiver.destination("lease = \"4s\"\nmargin = \"500ms\"\n"));
    scene.producer().await.insert("order.created", "o", EVENTS).await;

    let host = Host::start(&config);
    // Held requests are in the plugin's hands: the host is in the middle of a delivery.
    receiver.wait_for(310).await;
    host.kill();
    let stores = scene.stores().await;
    let at_the_kill = deliveries(&stores).await;
    let in_flight: BTreeSet<String> = at_the_kill
        .iter()
        .filter(|row| row.status == DeliveryStatus::Pending && row.lease_until.is_some())
        .map(|row| row.event_id.clone())
        .collect();
    assert!(!in_flight.is_empty(), "the kill met nothing in flight");
    let untouched = at_the_kill.iter().filter(|row| row.attempts == 0).count();
    assert!(untouched > 0, "the kill came after the last claim");

    receiver.allow(usize::MAX);
    let host = Host::start(&config);
    until_delivered(&stores, EVENTS).await;
    host.stop();

    let times = receiver.times_by_id();
    assert_eq!(times.len(), EVENTS, "every event arrived");
    let repeated: BTreeSet<String> =
        times.iter().filter(|(_, times)| **times > 1).map(|(id, _)| id.clone()).collect();
    assert!(repeated.is_subset(&in_flight), "repeated {repeated:?}, in flight {in_flight:?}");

    let rows = deliveries(&stores).await;
    assert_eq!(rows.len(), EVENTS);
    assert!(rows.iter().all(|row| row.status == DeliveryStatus::Delivered));
    // Attempts are counted at the claim: two for what was in flight, one for everything else.
    let attempts: BTreeMap<String, u32> =
        rows.iter().map(|row| (row.event_id.clone(), row.attempts)).collect();
    for (id, attempts) in &attempts {
        assert_eq!(*attempts, if in_flight.contains(id) { 2 } else { 1 }, "{id}");
    }
    let some = in_flight.first().expect("not empty");
    let report = stores.operate.show("", some).await.unwrap().expect("the event is there");
    let history: Vec<(&str, bool)> =
        report.attempts.iter().map(|attempt| (attempt.outcome.as_str(), attempt.uncertain)).collect();
    assert_eq!(history, [("lost", true), ("delivered", false)]);
}
