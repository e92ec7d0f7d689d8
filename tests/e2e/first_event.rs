//! The main job: one `INSERT` by an application, delivered by a plugin.

use outhaul::store::DeliveryStatus;
use outhaul_tests::guests::guest;

use crate::databases::{Scene, count, deliveries, until_delivered};
use crate::host::{Host, outhaul, outhaul_json};
use crate::receiver::Receiver;

on_both!(
    an_event_inserted_by_plain_sql_is_delivered,
    an_event_inserted_by_plain_sql_reaches_a_real_http_server,
    s10_a_plugin_that_fails_to_load_is_named_and_stops_no_other,
    check_finds_nothing_wrong_with_a_good_config_and_names_what_is_wrong_with_a_bad_one,
    metrics_count_what_was_delivered,
);

async fn an_event_inserted_by_plain_sql_is_delivered(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("noop", "*", ""));
    let host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", 3).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 3).await;
    assert!(deliveries(&stores).await.iter().all(|row| row.attempts == 1 && row.destination == "noop"));
    assert_eq!(host.readiness().await.0, 200);
    host.stop();
}

async fn an_event_inserted_by_plain_sql_reaches_a_real_http_server(scene: Scene) {
    scene.migrate().await;
    let receiver = Receiver::start().await;
    let config = scene.write_config(&receiver.destination(""));
    let host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", 1).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 1).await;
    let received = receiver.received();
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].id(), &received[0].body[..]), ("o-1", &b"{}"[..]));
    host.stop();
}

async fn s10_a_plugin_that_fails_to_load_is_named_and_stops_no_other(scene: Scene) {
    scene.migrate().await;
    std::fs::write(scene.path().join("broken.wasm"), "this is no component").unwrap();
    let broken = "[destination.broken]\ncomponent = \"broken.wasm\"\ntopics = [\"*\"]\n";
    let config = scene.write_config(&format!("{}{broken}", noop("noop", "*", "")));
    let host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", 5).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 5).await;
    assert_eq!(count(&stores, DeliveryStatus::Pending).await, 5, "the broken lane keeps its deliveries");
    assert!(deliveries(&stores).await.iter().all(|row| row.destination == "noop" || row.attempts == 0));

    // It is not required, so the host is ready, and says what is wrong.
    let (status, body) = host.readiness().await;
    assert_eq!((status, &body["destinations"]["noop"]["ok"]), (200, &true.into()), "{body}");
    let problem = body["destinations"]["broken"]["problem"].as_str().expect("the problem is told");
    assert!(problem.contains("broken.wasm"), "{problem}");
    let text = crate::databases::until("status names the broken lane", async || {
        let status = String::from_utf8(outhaul(&config, &["status"]).stdout).unwrap();
        status.contains("problem: broken on ").then_some(status)
    });
    assert!(text.await.contains("broken.wasm"));
    host.stop();

    let required = broken.replace("topics", "required = true\ntopics");
    let config = scene.write_config(&format!("{}{required}", noop("noop", "*", "")));
    let host = Host::start(&config);
    let (status, body) = host.readiness().await;
    assert_eq!((status, &body["ready"]), (503, &false.into()), "{body}");
    host.stop();
}

async fn check_finds_nothing_wrong_with_a_good_config_and_names_what_is_wrong_with_a_bad_one(scene: Scene) {
    scene.migrate().await;
    let good = scene.write_config(&noop("noop", "*", ""));
    let output = outhaul(&good, &["check"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let bad = scene.write_config(&noop("noop", "*", "lease = \"2s\"\n"));
    let findings = outhaul_json(&bad, &["check", "--json"]);
    let wrong: Vec<_> =
        findings.as_array().unwrap().iter().filter(|finding| finding["ok"] == false).collect();
    assert_eq!(wrong.len(), 1, "{findings}");
    assert!(wrong[0]["text"].as_str().unwrap().contains("a lease of 2s can't be kept"), "{findings}");
    assert_eq!(outhaul(&bad, &["check"]).status.code(), Some(1));
    // S5: what check finds, run refuses.
    let refused = outhaul(&bad, &["run"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a lease of 2s can't be kept"));
}

async fn metrics_count_what_was_delivered(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("noop", "*", ""));
    let host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", 7).await;
    until_delivered(&scene.stores().await, 7).await;
    let (status, text) = host.get("/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "outhaul_outcomes_total{destination=\"noop\",outcome=\"delivered\"} 7",
        "outhaul_plugin_calls_total{destination=\"noop\"} 7",
        "outhaul_pending{destination=\"noop\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    host.stop();
}

/// A destination whose plugin delivers at once.
pub fn noop(name: &str, topic: &str, more: &str) -> String {
    let component = guest("noop");
    format!("[destination.{name}]\ncomponent = \"{}\"\ntopics = [\"{topic}\"]\n{more}", component.display())
}
