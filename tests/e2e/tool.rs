//! The commands beside a running host, as an operator uses them.

use std::process::Command;

use outhaul::store::DeliveryStatus;
use outhaul_tests::guests::guest;
use serde_json::Value;

use crate::databases::{Scene, count, deliveries, until, until_delivered};
use crate::first_event::noop;
use crate::host::{Host, outhaul, outhaul_json};
use crate::receiver::Receiver;

on_both!(
    s24_a_redriven_dead_letter_keeps_the_history_of_both_series,
    s41_200_deliveries_run_at_once_on_a_pool_of_4,
    lines_from_a_pipe_are_emitted_whole,
    an_unrouted_event_is_kept_and_delivered_once_a_config_routes_it,
    every_act_of_an_operator_is_recorded,
    metrics_are_shown_to_who_has_the_token_and_probes_to_everyone,
    a_schema_newer_than_known_is_refused_where_the_host_may_not_migrate_too,
);

/// A destination whose plugin does what the topic says.
fn hostile(more: &str) -> String {
    let component = guest("hostile").display().to_string();
    format!("[destination.bad]\ncomponent = \"{component}\"\ntopics = [\"hostile.*\"]\n{more}\n")
}

async fn s24_a_redriven_dead_letter_keeps_the_history_of_both_series(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&hostile("retry = { max_attempts = 2, base = \"1ms\" }"));
    let host = Host::start(&config);
    scene.producer().await.insert("hostile.retry", "r", 1).await;
    let stores = scene.stores().await;
    let died = async || (count(&stores, DeliveryStatus::Dead).await == 1).then_some(());
    until("it is a dead letter", died).await;
    let listed = outhaul_json(&config, &["dead", "list", "--json"]);
    assert_eq!(
        (&listed[0]["event_id"], &listed[0]["disposition"]),
        (&"r-1".into(), &"attempts exhausted".into())
    );

    let redriven = outhaul_json(&config, &["dead", "redrive", "r-1", "--json"]);
    assert_eq!(redriven["redriven"], 1);
    until("it has died twice", async || {
        let report = stores.operate.show("", "r-1").await.unwrap().expect("the event is there");
        let attempts: Vec<(i64, u32)> = report.attempts.iter().map(|row| (row.fence, row.attempt)).collect();
        (report.deliveries[0].status == DeliveryStatus::Dead && attempts == [(1, 1), (2, 2), (3, 1), (4, 2)])
            .then_some(())
    })
    .await;
    let again = outhaul(&config, &["events", "redeliver", "r-1"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("r-1 is dead for bad; only delivered ones can be")
    );
    host.stop();
}

async fn s41_200_deliveries_run_at_once_on_a_pool_of_4(scene: Scene) {
    const EVENTS: usize = 200;
    scene.migrate().await;
    let receiver = Receiver::holding().await;
    let more = "concurrency = 200\nbatch = 200\nlimits = { call = \"60s\", http = { connections = 200 } }\n";
    let config = scene.write_config_with("pool = 4", "", &receiver.destination(more));
    scene.producer().await.insert("order.created", "o", EVENTS).await;
    let host = Host::start(&config);
    receiver.wait_for(EVENTS).await;
    receiver.allow(usize::MAX);
    let stores = scene.stores().await;
    until_delivered(&stores, EVENTS).await;
    host.stop();
    assert!(receiver.times_by_id().values().all(|times| *times == 1));
    assert!(deliveries(&stores).await.iter().all(|row| row.attempts == 1));
}

async fn an_unrouted_event_is_kept_and_delivered_once_a_config_routes_it(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("orders", "order.*", ""));
    let host = Host::start(&config);
    scene.producer().await.insert("stock.moved", "s", 3).await;
    let stores = scene.stores().await;
    assert_eq!(count(&stores, DeliveryStatus::Unrouted).await, 3);
    let status = outhaul_json(&config, &["status", "--json"]);
    let unrouted =
        status["lanes"].as_array().unwrap().iter().find(|lane| lane["destination"] == "(unrouted)");
    assert_eq!(unrouted.expect("it is listed")["pending"], 3);
    host.stop();

    let both = format!("{}{}", noop("orders", "order.*", ""), noop("stock", "stock.*", ""));
    let host = Host::start(&scene.write_config(&both));
    until_delivered(&stores, 3).await;
    host.stop();
    let rows = deliveries(&stores).await;
    assert_eq!(rows.len(), 3, "each event has one delivery: {rows:?}");
    assert!(rows.iter().all(|row| row.destination == "stock" && row.attempts == 1));
}

async fn every_act_of_an_operator_is_recorded(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("noop", "*", ""));
    assert!(outhaul(&config, &["config", "apply"]).status.success());
    let payload = scene.path().join("payload.json");
    std::fs::write(&payload, "{}").unwrap();
    let payload = payload.to_str().unwrap();
    for id in ["a", "b"] {
        assert!(outhaul(&config, &["emit", "order.created", payload, "--id", id]).status.success());
    }
    let ada = ["--as", "ada"];
    for act in
        [vec!["lanes", "pause", "noop"], vec!["events", "cancel", "a"], vec!["lanes", "resume", "noop"]]
    {
        let output = outhaul(&config, &[&act[..], &ada].concat());
        assert!(output.status.success(), "{act:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let stores = scene.stores().await;
    let mut actions: Vec<(String, String, i64)> = stores
        .operate
        .actions(100)
        .await
        .unwrap()
        .into_iter()
        .filter(|row| row.who == "ada")
        .map(|row| (row.who, row.action, row.count))
        .collect();
    actions.sort();
    let ada = |action: &str| ("ada".to_owned(), action.to_owned(), 1);
    assert_eq!(actions, [ada("cancel"), ada("pause"), ada("resume")]);
    assert_eq!(count(&stores, DeliveryStatus::Cancelled).await, 1);
}

async fn metrics_are_shown_to_who_has_the_token_and_probes_to_everyone(scene: Scene) {
    scene.migrate().await;
    std::fs::write(scene.path().join("token"), "open sesame\n").unwrap();
    let config = scene.write_config_with("", "token = { file = \"token\" }", &noop("noop", "*", ""));
    let host = Host::start(&config);
    assert_eq!(host.get("/metrics").await.0, 401);
    assert_eq!(host.get_with("/metrics", "authorization: Bearer open\r\n").await.0, 401);
    assert_eq!(host.get_with("/metrics", "authorization: Bearer open sesame\r\n").await.0, 200);
    assert_eq!(host.get("/livez").await.0, 200);
    assert_eq!(host.readiness().await.0, 200);
    // Rotated in its file, without a restart.
    outhaul_tests::components::replace(&scene.path().join("token"), b"open barley\n");
    let with = async |token: &str| {
        let header = format!("authorization: Bearer {token}\r\n");
        host.get_with("/metrics", &header).await.0
    };
    until("the new token is taken", async || (with("open barley").await == 200).then_some(())).await;
    assert_eq!(with("open sesame").await, 401);
    host.stop();
}

async fn a_schema_newer_than_known_is_refused_where_the_host_may_not_migrate_too(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config_with("migrate = false", "", &noop("noop", "*", ""));
    let host = Host::start(&config);
    assert_eq!(host.readiness().await.0, 200);
    let newer = "insert into outbox_migration (version, name) values (99, '0099_later')";
    scene.producer().await.execute(newer).await;
    let names_both = |text: &str| text.contains("version 99") && text.contains("up to 1");
    let unready = async || Some(host.readiness().await).filter(|(status, _)| *status == 503);
    let (_, readiness) = until("the host is not ready any more", unready).await;
    assert!(names_both(&readiness["migrations"].to_string()), "{readiness}");
    host.stop();
    for command in [["run"], ["check"], ["status"]] {
        let refused = outhaul(&config, &command);
        let text = [&refused.stdout[..], &refused.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(!refused.status.success() && names_both(&text), "{command:?}: {text}");
    }
}

/// A pipe can be read only once.
async fn lines_from_a_pipe_are_emitted_whole(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config("");
    let pipe = scene.path().join("events");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, "{\"n\":1}\n{\"n\":2}\n").unwrap()
    });
    let output =
        outhaul(&config, &["emit", "order.created", &pipe.display().to_string(), "--lines", "--json"]);
    assert!(output.status.success(), "{output:?}");
    writer.join().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["inserted"], 2, "{told}");
}
