//! Destinations added, re-routed, renamed, removed and added again while events keep coming.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use outhaul::store::{DeliveryStatus, LaneState};
use outhaul_tests::components::{replace, variant};

use crate::databases::{Producer, Scene, count, deliveries, until, until_delivered};
use crate::first_event::noop;
use crate::host::Host;

on_both!(
    destinations_come_change_their_name_and_their_routes_and_go_while_events_flow,
    a_refused_candidate_keeps_the_routes_of_what_runs,
);

const TOPICS: [&str; 3] = ["order.created", "stock.moved", "bill.paid"];

/// Events of every topic until it is stopped.
struct Load {
    stops: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Load {
    fn start(mut producer: Producer) -> Self {
        let (stops, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stop, count) = (stops.clone(), sent.clone());
        let task = tokio::spawn(async move {
            for round in 0.. {
                for topic in TOPICS {
                    producer.insert(topic, &format!("{topic}-{round}"), 5).await;
                    count.fetch_add(5, Ordering::SeqCst);
                }
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { stops, sent, task }
    }

    /// Waits until so many more came that each topic has had some.
    async fn flow(&self) {
        let start = self.sent.load(Ordering::SeqCst);
        until("more events", async || (self.sent.load(Ordering::SeqCst) >= start + 30).then_some(())).await;
    }

    async fn stop(self) -> usize {
        self.stops.store(true, Ordering::SeqCst);
        self.task.await.expect("the producer's statements succeed");
        self.sent.load(Ordering::SeqCst)
    }
}

async fn destinations_come_change_their_name_and_their_routes_and_go_while_events_flow(scene: Scene) {
    scene.migrate().await;
    let orders = noop("orders", "order.*", "");
    let config = scene.write_patient_config(&orders);
    let mut host = Host::start(&config);
    let stores = scene.stores().await;
    let load = Load::start(scene.producer().await);
    load.flow().await;
    // Added.
    scene.write_patient_config(&format!("{orders}{}", noop("stock", "stock.*", "")));
    host.wait_for_generation("stock", 1);
    load.flow().await;
    // Re-routed, which needs no new generation.
    let wide = noop("stock", "stock.*", "").replace("\"stock.*\"", "\"stock.*\", \"bill.*\"");
    scene.write_patient_config(&format!("{orders}{wide}"));
    let bills = async || {
        deliveries(&stores)
            .await
            .iter()
            .any(|row| row.topic == "bill.paid" && row.destination == "stock")
            .then_some(())
    };
    until("bills are routed", bills).await;
    load.flow().await;
    // Renamed, with its rows.
    let shop = noop("shop", "order.*", "renamed_from = \"orders\"\n");
    scene.write_patient_config(&format!("{shop}{wide}"));
    let renamed = host.wait_for_generation("shop", 2);
    assert_eq!(renamed["fields"]["renamed_from"], "orders");
    load.flow().await;
    // Removed: its rows stay, and new events wait unrouted.
    scene.write_patient_config(&shop);
    host.wait_for_record("the destination was removed; its rows are kept");
    load.flow().await;
    let lanes = stores.operate.lane_reports().await.unwrap();
    let state = |name: &str| lanes.iter().find(|lane| lane.destination == name).map(|lane| lane.state);
    assert_eq!(
        (state("stock"), state("shop"), state("orders")),
        (Some(LaneState::Removed), Some(LaneState::Active), None)
    );
    // And back again.
    scene.write_patient_config(&format!("{shop}{wide}"));
    host.wait_for_generation("stock", 1);
    load.flow().await;
    let sent = load.stop().await;
    until_delivered(&stores, sent).await;
    host.stop();

    let rows = deliveries(&stores).await;
    assert_eq!(rows.len(), sent, "each event has one delivery");
    for row in &rows {
        let wanted = if row.topic == "order.created" { "shop" } else { "stock" };
        let is = (row.destination.as_str(), row.status, row.attempts, row.lost);
        assert_eq!(is, (wanted, DeliveryStatus::Delivered, 1, 0), "{row:?}");
    }
}

async fn a_refused_candidate_keeps_the_routes_of_what_runs(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_patient_config(&noop("orders", "order.*", ""));
    let mut host = Host::start(&config);
    // The other plugin that should get these events is not there yet.
    let missing = scene.path().join("stock.wasm");
    scene.write_patient_config(&format!(
        "[destination.orders]\ncomponent = \"{}\"\ntopics = [\"stock.*\"]\n",
        missing.display()
    ));
    host.wait_for_record("the candidate is refused; the running generation stays");
    host.wait_for_record("reloaded");
    let mut producer = scene.producer().await;
    producer.insert("stock.moved", "s", 3).await;
    producer.insert("order.created", "o", 2).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 2).await;
    assert_eq!(count(&stores, DeliveryStatus::Unrouted).await, 3, "the old plugin does not get them");
    replace(&missing, &variant("noop", 1));
    host.wait_for_generation("orders", 2);
    until_delivered(&stores, 5).await;
    host.stop();
}
