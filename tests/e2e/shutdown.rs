//! SIGTERM while deliveries run.

use outhaul::store::DeliveryStatus;

use crate::databases::{Scene, deliveries, until_delivered};
use crate::host::Host;
use crate::receiver::Receiver;

on_both!(
    s40_a_drain_waits_for_what_runs_and_starts_nothing_more,
    s40_calls_that_outlast_the_drain_are_interrupted_and_the_next_host_takes_over,
    a_second_signal_ends_the_host_at_once_and_loses_nothing,
);

async fn s40_a_drain_waits_for_what_runs_and_starts_nothing_more(scene: Scene) {
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let config = scene.write_config(&receiver.destination("concurrency = 2\n"));
    scene.producer().await.insert("order.created", "o", 20).await;
    let mut host = Host::start(&config);
    receiver.wait_for(2).await;
    host.terminate();
    host.wait_for_record("draining: no more claims");
    receiver.allow(usize::MAX);
    assert!(host.wait().success());

    assert_eq!(receiver.received().len(), 2, "nothing was started after the signal");
    let rows = deliveries(&scene.stores().await).await;
    let delivered = rows.iter().filter(|row| row.status == DeliveryStatus::Delivered);
    assert_eq!(delivered.map(|row| row.attempts).collect::<Vec<_>>(), [1, 1]);
    let waiting: Vec<_> = rows.iter().filter(|row| row.status == DeliveryStatus::Pending).collect();
    assert_eq!(waiting.len(), 18);
    assert!(waiting.iter().all(|row| row.attempts == 0 && row.lease_until.is_none()), "{waiting:?}");
}

async fn s40_calls_that_outlast_the_drain_are_interrupted_and_the_next_host_takes_over(scene: Scene) {
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let relay = "[relay]\ndrain = \"1s\"\nlease = \"4s\"\nmargin = \"500ms\"\n";
    let config = scene.write_config(&format!("{relay}{}", receiver.destination("concurrency = 2\n")));
    scene.producer().await.insert("order.created", "o", 10).await;
    let host = Host::start(&config);
    receiver.wait_for(2).await;
    host.terminate();
    assert!(host.wait().success());

    let stores = scene.stores().await;
    let rows = deliveries(&stores).await;
    assert!(rows.iter().all(|row| row.lease_until.is_none()), "{rows:?}");
    let (interrupted, free): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.attempts > 0);
    assert_eq!((interrupted.len(), free.len()), (2, 8));
    assert!(interrupted.iter().all(|row| row.attempts == 1 && row.status == DeliveryStatus::Pending));
    assert!(interrupted.iter().all(|row| row.uncertain && row.lost == 0), "{rows:?}");
    assert!(free.iter().all(|row| row.attempts == 0 && row.status == DeliveryStatus::Pending));

    receiver.allow(usize::MAX);
    let next = Host::start(&config);
    until_delivered(&stores, 10).await;
    next.stop();
    for row in interrupted {
        let report = stores.operate.show("", &row.event_id).await.unwrap().expect("the event is there");
        let outcomes: Vec<&str> = report.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
        assert_eq!(outcomes, ["interrupted", "delivered"], "{}", row.event_id);
    }
}

async fn a_second_signal_ends_the_host_at_once_and_loses_nothing(scene: Scene) {
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let relay = "[relay]\ndrain = \"100s\"\nlease = \"4s\"\nmargin = \"500ms\"\n";
    let config = scene.write_config(&format!("{relay}{}", receiver.destination("concurrency = 2\n")));
    scene.producer().await.insert("order.created", "o", 3).await;
    let mut host = Host::start(&config);
    receiver.wait_for(2).await;
    host.signal(libc::SIGINT);
    host.wait_for_record("draining: no more claims");
    host.terminate();
    assert_eq!(host.wait().code(), Some(1), "the drain had 100 s left");

    receiver.allow(usize::MAX);
    let next = Host::start(&config);
    let stores = scene.stores().await;
    until_delivered(&stores, 3).await;
    next.stop();
    let mut attempts: Vec<u32> = deliveries(&stores).await.iter().map(|row| row.attempts).collect();
    attempts.sort();
    assert_eq!(attempts, [1, 2, 2]);
}
