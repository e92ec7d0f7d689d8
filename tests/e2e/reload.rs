//! What a reload picks up beside components: secrets, lanes that stopped, and a host that is told to
//! stop meanwhile.

use outhaul::store::{DeliveryStatus, LaneState};
use outhaul_tests::components::{replace, variant};
use outhaul_tests::guests::guest;

use crate::databases::{Scene, count, deliveries, until, until_delivered};
use crate::first_event::noop;
use crate::host::{Host, outhaul_json};

on_both!(
    a_secret_that_was_rotated_in_its_file_is_used_after_a_hangup_and_soon_without_one,
    a_lane_that_stopped_goes_on_when_its_component_or_its_config_changes,
    a_hangup_with_nothing_changed_says_so_and_disturbs_no_delivery,
    a_drain_does_not_wait_for_a_reload,
    two_hosts_that_share_a_config_file_take_its_change_over_once,
);

async fn a_secret_that_was_rotated_in_its_file_is_used_after_a_hangup_and_soon_without_one(scene: Scene) {
    scene.migrate().await;
    let key = scene.path().join("key");
    std::fs::write(&key, "one").unwrap();
    let component = guest("hostile").display().to_string();
    let config = scene.write_config(&format!(
        "[destination.bad]\ncomponent = \"{component}\"\ntopics = [\"hostile.*\"]\n\
         secrets.signing = {{ keys = [{{ file = \"key\" }}], use = [\"reveal\"] }}\n"
    ));
    let mut host = Host::start(&config);
    let (stores, mut producer) = (scene.stores().await, scene.producer().await);
    for (number, (word, hex)) in
        [("one", "6f6e65"), ("two", "74776f"), ("red", "726564")].into_iter().enumerate()
    {
        if number > 0 {
            replace(&key, word.as_bytes());
            if number == 1 {
                host.hang_up();
            }
            host.wait_for_generation("bad", number as u64 + 1);
        }
        producer.insert("hostile.reveal", word, 1).await;
        until_delivered(&stores, number + 1).await;
        let rows = deliveries(&stores).await;
        let row = rows.iter().find(|row| row.event_id == format!("{word}-1")).unwrap();
        assert_eq!(row.reference.as_deref(), Some(hex));
    }
    assert!(!host.log().contains("74776f") && !host.log().contains("\"two\""), "secrets are not logged");
    host.stop();
}

async fn a_lane_that_stopped_goes_on_when_its_component_or_its_config_changes(scene: Scene) {
    scene.migrate().await;
    let component = scene.path().join("plugin.wasm");
    replace(&component, &variant("hostile", 0));
    let destination = |misdeed: &str| {
        let path = component.display();
        format!(
            "[destination.bad]\ncomponent = \"{path}\"\ntopics = [\"*\"]\nsettings = {{ misdeed = \"{misdeed}\" }}\n"
        )
    };
    let config = scene.write_config(&destination("misconfigured"));
    let mut host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", 1).await;
    let stores = scene.stores().await;
    let is_stopped = async || {
        let lanes = stores.operate.lane_reports().await.unwrap();
        (lanes[0].state == LaneState::Stopped).then_some(())
    };
    until("the lane has stopped", is_stopped).await;
    // The same component under another digest: it is tried, and stops the lane again.
    replace(&component, &variant("hostile", 1));
    host.hang_up();
    host.wait_for_generation("bad", 2);
    host.wait_for_record("the stopped lane is active again");
    until("the lane has stopped again", is_stopped).await;
    assert_eq!(count(&stores, DeliveryStatus::Pending).await, 1);
    // Now the fault is mended in the config.
    scene.write_config(&destination("ok"));
    host.hang_up();
    host.wait_for_generation("bad", 3);
    until_delivered(&stores, 1).await;
    host.stop();
}

async fn a_hangup_with_nothing_changed_says_so_and_disturbs_no_delivery(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("noop", "*", ""));
    let mut host = Host::start(&config);
    host.hang_up();
    host.wait_for_record("nothing to reload: what is on disk is what runs");
    scene.producer().await.insert("order.created", "o", 1).await;
    until_delivered(&scene.stores().await, 1).await;
    let (_, readiness) = host.readiness().await;
    assert_eq!(readiness["destinations"]["noop"]["generation"], 1);
    host.stop();
}

async fn a_drain_does_not_wait_for_a_reload(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("noop", "*", ""));
    let mut host = Host::start(&config);
    let component = guest("hostile").display().to_string();
    let spinning = format!(
        "[destination.spins]\ncomponent = \"{component}\"\ntopics = [\"spin.*\"]\nlimits.call = \"10m\"\n\
         settings = {{ misdeed = \"spin-in-configure\" }}\n"
    );
    // Once the key that waits for the next start is named, the candidates are being built.
    let text = std::fs::read_to_string(&config).unwrap();
    let text = text
        .replace("poll = \"500ms\"", "poll = \"400ms\"")
        .replace("[destination.noop]\n", "[destination.noop]\nconcurrency = 3\n");
    let text = text + &spinning;
    replace(&config, text.as_bytes());
    host.wait_for_record("changed keys that take effect at the next start");
    host.terminate();
    host.wait_for_record("stopped");
    assert!(!host.log().contains("the destination has a new generation"), "{}", host.log());
    assert!(host.wait().success());
}

async fn two_hosts_that_share_a_config_file_take_its_change_over_once(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("orders", "order.*", ""));
    let (mut first, mut second) = (Host::start(&config), Host::start(&config));
    let both = format!("{}{}", noop("orders", "order.*", ""), noop("stock", "stock.*", ""));
    scene.write_config(&both);
    first.wait_for_generation("stock", 1);
    second.wait_for_generation("stock", 1);
    let applied = outhaul_json(&config, &["config", "apply", "--json"]);
    assert_eq!((&applied["generation"], &applied["current"]), (&2.into(), &true.into()));
    scene.producer().await.insert("stock.moved", "s", 10).await;
    until_delivered(&scene.stores().await, 10).await;
    assert!(!first.log().contains("another host applied a newer config"), "{}", first.log());
    assert!(!second.log().contains("another host applied a newer config"), "{}", second.log());
    first.stop();
    second.stop();
}
