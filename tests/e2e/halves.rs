//! Hosts that could take up only half of a change: a candidate is refused, another host's config is
//! the current one, or the database is away.

use std::path::{Path, PathBuf};

use outhaul::store::{DeliveryStatus, LaneState};
use outhaul_tests::components::{replace, variant};

use crate::databases::{Scene, count, deliveries, until_delivered};
use crate::first_event::noop;
use crate::host::{Host, outhaul_json};

on_both!(
    a_host_that_refuses_a_candidate_leaves_the_routes_to_one_that_does_not,
    a_refused_rename_leaves_no_rows_behind,
    a_destination_unknown_to_the_current_config_gets_its_lane_once_its_own_is_applied,
);

const REFUSED: &str = "the candidate is refused; the running generation stays";

/// The config of another host on the same database, with other destinations in it.
fn write_other(scene: &Scene, destinations: &str) -> PathBuf {
    let own = std::fs::read_to_string(scene.path().join("outhaul.toml")).unwrap();
    let (outbox, _) = own.split_once("[destination.").unwrap();
    let other = scene.path().join("other.toml");
    replace(&other, format!("{outbox}{destinations}").as_bytes());
    other
}

/// [`noop`] with a component of its own.
fn with_component(name: &str, topic: &str, more: &str, component: &Path) -> String {
    format!("[destination.{name}]\ncomponent = \"{}\"\ntopics = [\"{topic}\"]\n{more}", component.display())
}

/// The current generation of routes, which is that of this config.
fn current(config: &Path) -> u64 {
    let applied = outhaul_json(config, &["config", "apply", "--json"]);
    applied["generation"].as_u64().unwrap()
}

async fn a_host_that_refuses_a_candidate_leaves_the_routes_to_one_that_does_not(scene: Scene) {
    scene.migrate().await;
    let stock = noop("stock", "stock.*", "");
    let config = scene.write_config(&format!("{}{stock}", noop("shop", "order.*", "")));
    let mut whole = Host::start(&config);
    let mut half = Host::start(&write_other(&scene, &format!("{}{stock}", noop("shop", "order.*", ""))));
    // Both get the same new routes, and the component is there for one only.
    let missing = scene.path().join("shop.wasm");
    let wide = noop("stock", "more.*", "");
    scene.write_config(&format!("{}{wide}", noop("shop", "bill.*", "")));
    whole.hang_up();
    whole.wait_for_record("reloaded");
    write_other(&scene, &format!("{}{wide}", with_component("shop", "bill.*", "", &missing)));
    half.wait_for_record(REFUSED);
    half.wait_for_record("reloaded");
    assert_eq!(current(&config), 2);
    // Nor does a later change, of no routes, take over.
    let wide = noop("stock", "more.*", "concurrency = 3\n");
    write_other(&scene, &format!("{}{wide}", with_component("shop", "bill.*", "", &missing)));
    half.wait_for_generation("stock", 2);
    assert_eq!(current(&config), 2);
    let mut producer = scene.producer().await;
    for topic in ["bill.paid", "more.of", "order.created"] {
        producer.insert(topic, topic, 1).await;
    }
    let stores = scene.stores().await;
    until_delivered(&stores, 2).await;
    assert_eq!(count(&stores, DeliveryStatus::Unrouted).await, 1, "no route is the old one");

    replace(&missing, &variant("noop", 1));
    half.wait_for_generation("shop", 2);
    assert_eq!(current(&config), 2);
    assert!(!whole.log().contains("another host applied a newer config"), "{}", whole.log());
    half.stop();
    whole.stop();
}

async fn a_refused_rename_leaves_no_rows_behind(scene: Scene) {
    scene.migrate().await;
    let before = format!("{}{}", noop("shop", "order.*", ""), noop("stock", "stock.*", ""));
    let config = scene.write_config(&before);
    let mut whole = Host::start(&config);
    let mut half = Host::start(&write_other(&scene, &before));
    let renamed_from = "renamed_from = \"shop\"\n";
    let missing = scene.path().join("store.wasm");
    let wide = noop("stock", "more.*", "");
    scene.write_config(&format!("{}{wide}", noop("store", "order.*", renamed_from)));
    whole.wait_for_generation("store", 2);
    let store = with_component("store", "order.*", renamed_from, &missing);
    write_other(&scene, &format!("{store}{wide}"));
    let unusable = "the config on disk can't be used; the host goes on with the one it has";
    let problem = half.wait_for_record(unusable)["fields"]["problem"].clone();
    let told = problem.as_str().unwrap();
    assert!(
        told.contains("[destination.store], renamed from shop, can't be used") && told.contains("store.wasm")
    );
    assert_eq!(current(&config), 2);
    // What is no change of routes is applied, and the lane under the old name goes on.
    write_other(&scene, &format!("{store}{}", noop("stock", "stock.*", "concurrency = 3\n")));
    half.wait_for_generation("stock", 2);
    whole.stop();
    scene.producer().await.insert("order.created", "o", 3).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 3).await;

    write_other(&scene, &format!("{store}{wide}"));
    replace(&missing, &variant("noop", 1));
    half.wait_for_generation("store", 2);
    assert_eq!(current(&config), 2);
    half.stop();
    let lanes = stores.operate.lane_reports().await.unwrap();
    let lanes: Vec<_> = lanes.iter().map(|lane| (lane.destination.as_str(), lane.state)).collect();
    assert_eq!(lanes.len(), 2, "{lanes:?}");
    assert!(lanes.iter().all(|(_, state)| *state == LaneState::Active), "{lanes:?}");
    assert!(deliveries(&stores).await.iter().all(|row| row.destination == "store"));
}

async fn a_destination_unknown_to_the_current_config_gets_its_lane_once_its_own_is_applied(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("shop", "order.*", ""));
    Host::start(&config).stop();
    let newer = write_other(&scene, &noop("store", "order.*", "renamed_from = \"shop\"\n"));
    Host::start(&newer).stop();
    let mut host = Host::start(&config);
    // SIGHUP does not say that all is well.
    host.hang_up();
    let told = host.wait_for_record(
        "another host applied a newer config: this one writes no routes, and delivers nothing of \
         destinations that are not in it; run  outhaul config apply  to make this config the current one",
    );
    assert_eq!(told["fields"]["not_in_it"], "shop");
    assert_eq!(current(&config), 3);
    host.wait_for_generation("shop", 1);
    scene.producer().await.insert("order.created", "o", 3).await;
    until_delivered(&scene.stores().await, 3).await;
    host.stop();
}

#[test]
fn a_reload_that_waits_for_the_database_counts_a_refused_candidate_once() {
    crate::databases::run(owed(Scene::sqlite()));
}

async fn owed(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("shop", "order.*", ""));
    let mut host = Host::start(&config);
    let mut lock = scene.producer().await;
    lock.execute("begin immediate").await;
    let missing = with_component("shop", "order.*", "", &scene.path().join("shop.wasm"));
    scene.write_config(&format!("{missing}{}", noop("stock", "stock.*", "")));
    host.wait_for_record("the reload waits for the database");
    lock.execute("rollback").await;
    host.wait_for_generation("stock", 1);
    host.wait_for_record("reloaded");
    assert_eq!(host.log().matches(REFUSED).count(), 1, "{}", host.log());
    let (_, metrics) = host.get("/metrics").await;
    let line = "outhaul_reload_failures_total{destination=\"shop\"} 1";
    assert!(metrics.lines().any(|found| found == line), "no {line} in\n{metrics}");
    host.stop();
}
