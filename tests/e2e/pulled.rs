//! Destinations whose component is in a registry, which comes and goes.

use std::path::{Path, PathBuf};

use outhaul::store::DeliveryStatus;
use outhaul_tests::components::variant;
use outhaul_tests::registry::{Plan, Registry};

use crate::databases::{Scene, count, run, until, until_delivered};
use crate::first_event::noop;
use crate::host::{Host, outhaul};

/// With a cache that is empty at first.
fn config(scene: &Scene, host: &str, destinations: &str) -> PathBuf {
    let path = scene.write_config(&format!("[registry.\"{host}\"]\ninsecure = true\n{destinations}"));
    let text = std::fs::read_to_string(&path).unwrap();
    let own = format!("cache = \"{}\"", scene.path().join("cache").display());
    let lines = text.lines().map(|line| if line.starts_with("cache = ") { own.as_str() } else { line });
    std::fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
    path
}

fn data(scene: &Scene) -> PathBuf {
    let folder = scene.path().join("registry");
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn start_again(folder: &Path, port: u16) -> Registry {
    Registry::start_as(folder, Plan { port: Some(port), ..Plan::default() })
}

#[test]
fn a_pulled_component_delivers_and_a_restart_needs_no_registry() {
    run(async {
        let scene = Scene::sqlite();
        scene.migrate().await;
        let registry = Registry::start(&data(&scene));
        registry.push("plugins/noop", "v1", &variant("noop", 1));
        let tag = format!("oci://{}/plugins/noop:v1", registry.host());
        let by_tag = format!("[destination.far]\ncomponent = \"{tag}\"\ntopics = [\"*\"]\n");

        // A tag is refused, and the refusal says what prints the line to write.
        let path = config(&scene, &registry.host(), &by_tag);
        let refused = outhaul(&path, &["check"]);
        let text = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert!(text.contains(&format!("outhaul plugin pull {tag}")), "{text}");
        assert_eq!(refused.status.code(), Some(1));
        let path = config(&scene, &registry.host(), "");
        let copy = scene.path().join("copy.wasm");
        let pulled = outhaul(&path, &["plugin", "pull", &tag, "--output", &copy.display().to_string()]);
        let lines = String::from_utf8_lossy(&pulled.stdout).into_owned();
        assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
        assert_eq!(std::fs::read(&copy).unwrap(), variant("noop", 1));

        // What was pulled by hand warmed the cache, but the host asks by itself where it is cold.
        std::fs::remove_dir_all(scene.path().join("cache")).unwrap();
        let path = config(&scene, &registry.host(), &format!("[destination.far]\n{lines}topics = [\"*\"]\n"));
        let (stores, mut producer) = (scene.stores().await, scene.producer().await);
        let host = Host::start(&path);
        producer.insert("order.created", "one", 1).await;
        until_delivered(&stores, 1).await;
        host.stop();
        drop(registry);
        let host = Host::start(&path);
        producer.insert("order.created", "two", 1).await;
        until_delivered(&stores, 2).await;
        host.stop();
    });
}

#[test]
fn a_registry_that_is_down_stops_its_own_destination_only_until_it_is_back() {
    run(async {
        let scene = Scene::sqlite();
        scene.migrate().await;
        let folder = data(&scene);
        let registry = Registry::start(&folder);
        let digest = registry.push("plugins/noop", "v1", &variant("noop", 2));
        let (host_port, port) = (registry.host(), registry.port);
        drop(registry);
        let far = format!(
            "[destination.far]\ncomponent = \"oci://{host_port}/plugins/noop@sha256:{digest}\"\n\
             topics = [\"far.*\"]\nrequired = true\n"
        );
        let path = config(&scene, &host_port, &(far + &noop("near", "near.*", "")));
        let (stores, mut producer) = (scene.stores().await, scene.producer().await);
        let mut host = Host::start(&path);
        producer.insert("near.created", "near", 1).await;
        producer.insert("far.created", "far", 1).await;
        until_delivered(&stores, 1).await;
        let (status, ready) = host.readiness().await;
        assert_eq!(status, 503);
        let why = ready.to_string();
        assert!(why.contains("can't be had") && why.contains(&host_port), "{why}");

        let _registry = start_again(&folder, port);
        host.wait_for_generation("far", 1);
        until_delivered(&stores, 2).await;
        assert_eq!(count(&stores, DeliveryStatus::Dead).await, 0);
        until("the host is ready", async || (host.readiness().await.0 == 200).then_some(())).await;
        host.stop();
    });
}
