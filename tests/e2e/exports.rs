//! What a plugin exports besides `deliver`, in the real program.

use outhaul::store::DeliveryStatus;
use outhaul_tests::guests::guest;

use crate::databases::{Scene, deliveries, until, until_delivered};
use crate::host::{Host, outhaul};

on_both!(
    a_burst_goes_out_in_batches_and_a_host_that_stops_lets_its_plugin_close,
    a_batch_that_traps_is_retried_singly_and_all_of_it_is_delivered,
    a_required_destination_whose_check_fails_keeps_the_host_from_being_ready,
);

fn hostile(rest: &str) -> String {
    let component = guest("hostile-exports");
    format!("[destination.d]\ncomponent = \"{}\"\ntopics = [\"*\"]\n{rest}\n", component.display())
}

async fn a_burst_goes_out_in_batches_and_a_host_that_stops_lets_its_plugin_close(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_patient_config(&hostile("concurrency = 20"));
    scene.producer().await.insert("order.created", "o", 60).await;
    let host = Host::start(&config);
    let stores = scene.stores().await;
    until_delivered(&stores, 60).await;
    let rows = deliveries(&stores).await;
    assert!(rows.iter().all(|row| row.attempts == 1 && row.fence == 1), "{rows:?}");
    let in_a_batch = |text: &str| text.starts_with("batch of 20,");
    assert!(rows.iter().all(|row| row.reference.as_deref().is_some_and(in_a_batch)), "{rows:?}");

    let (_, metrics) = host.get("/metrics").await;
    for line in [
        "outhaul_plugin_batches_total{destination=\"d\"} 3",
        "outhaul_plugin_batched_events_total{destination=\"d\"} 60",
        "outhaul_batch_events_count{destination=\"d\"} 3",
        "outhaul_batch_events_sum{destination=\"d\"} 60",
        "outhaul_plugin_ticks_total{destination=\"d\"}",
        "outhaul_plugin_checks_total{destination=\"d\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    host.terminate();
    let mut host = host;
    let closed = host.wait_for_record("plugin log");
    assert_eq!(closed["fields"]["text"], "closed");
    assert!(host.wait().success());
}

async fn a_batch_that_traps_is_retried_singly_and_all_of_it_is_delivered(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_patient_config(&hostile(
        "retry = { base = \"50ms\" }\nsettings = { misdeed = \"batch-traps-on-the-third\" }",
    ));
    scene.producer().await.insert("order.created", "o", 10).await;
    let host = Host::start(&config);
    let stores = scene.stores().await;
    until_delivered(&stores, 10).await;
    host.stop();
    for row in deliveries(&stores).await {
        assert_eq!((row.status, row.attempts), (DeliveryStatus::Delivered, 2), "{row:?}");
        assert!(row.reference.as_deref().is_some_and(|text| text.starts_with("one,")), "{row:?}");
        let history = stores.operate.show("", &row.event_id).await.unwrap().expect("the event is there");
        let first = history.attempts.iter().find(|attempt| attempt.attempt == 1).expect("the first");
        assert_eq!((first.outcome.as_str(), first.uncertain), ("trap", true));
        let message = first.message.as_deref().unwrap_or_default();
        assert!(message.contains("one of a batch of 10"), "{first:?}");
    }
}

async fn a_required_destination_whose_check_fails_keeps_the_host_from_being_ready(scene: Scene) {
    scene.migrate().await;
    let config =
        scene.write_patient_config(&hostile("required = true\nsettings = { misdeed = \"check-fails\" }"));
    let host = Host::start(&config);
    let problem = until("the check failed", async || {
        let (status, body) = host.readiness().await;
        assert_eq!((status, &body["ready"]), (503, &false.into()), "before the first answer, and after");
        let problem = body["destinations"]["d"]["problem"].as_str().expect("it is named").to_owned();
        (!problem.contains("under way")).then_some(problem)
    })
    .await;
    assert_eq!(problem, "its check says unavailable: nothing listens there");
    // It stops no delivery.
    scene.producer().await.insert("order.created", "o", 1).await;
    until_delivered(&scene.stores().await, 1).await;
    host.stop();

    let output = outhaul(&config, &["check"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains("nothing listens there"), "{text}");
    assert!(text.contains("--offline"), "{text}");
    let output = outhaul(&config, &["check", "--offline"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let well = scene.write_patient_config(&hostile("required = true"));
    let host = Host::start(&well);
    until("it is ready", async || (host.readiness().await.0 == 200).then_some(())).await;
    host.stop();
    let output = outhaul(&well, &["check"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("its check finds the destination well"), "{text}");
}
