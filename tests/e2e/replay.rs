//! `outhaul plugin replay` beside a running host: what is compared, and that nothing comes of it.

use std::path::Path;
use std::process::Output;

use outhaul::store::DeliveryStatus;
use outhaul_tests::components::{replace, variant};
use outhaul_tests::guests::guest;
use serde_json::Value;

use crate::databases::{Scene, count, deliveries, run, until, until_delivered};
use crate::first_event::noop;
use crate::host::{Host, outhaul};
use crate::receiver::Receiver;

on_both!(
    a_component_is_replayed_beside_the_one_that_runs_and_nothing_is_written,
    requests_are_compared_and_none_leaves_the_machine,
    events_are_paged_through_the_newest_first,
);

fn replay(config: &Path, component: &Path, more: &[&str]) -> Output {
    let component = component.to_str().unwrap();
    outhaul(config, &[&["plugin", "replay", component, "--destination", "hook"], more].concat())
}

/// Exit code and report.
fn replay_json(config: &Path, component: &Path, more: &[&str]) -> (Option<i32>, Value) {
    let output = replay(config, component, &[more, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text} {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Everything that an operator can see of the database.
async fn dump(scene: &Scene) -> String {
    let (stores, mut all) = (scene.stores().await, String::new());
    for row in deliveries(&stores).await {
        let report = stores.operate.show("", &row.event_id).await.unwrap().unwrap();
        all += &format!("{report:?}\n");
    }
    all + &format!("{:?} {:?}", stores.operate.actions(1_000).await, stores.operate.hosts().await)
}

async fn a_component_is_replayed_beside_the_one_that_runs_and_nothing_is_written(scene: Scene) {
    scene.migrate().await;
    let component = guest("hostile");
    let section = format!("[destination.hook]\ncomponent = \"{}\"\ntopics = [\"*\"]\n", component.display());
    let config = scene.write_config(&section);
    let host = Host::start(&config);
    let (stores, mut producer) = (scene.stores().await, scene.producer().await);
    producer.insert("hostile.ok", "ok", 3).await;
    producer.insert("hostile.rejected", "no", 2).await;
    producer.insert("hostile.duplicate", "twice", 1).await;
    until("all have ended", async || {
        let ended =
            (count(&stores, DeliveryStatus::Delivered).await, count(&stores, DeliveryStatus::Dead).await);
        (ended == (4, 2)).then_some(())
    })
    .await;
    // While it runs; what differs is told with what was recorded.
    let output = replay(&config, &guest("noop"), &[]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for part in [
        "no-2, hostile.rejected, recorded as dead (rejected: ",
        "outcome: rejected (",
        "→ delivered",
        "twice-1, hostile.duplicate, recorded as duplicate",
        "6 events: 3 the same, 3 with another outcome, 0 with another request only",
    ] {
        assert!(told.contains(part), "no {part:?} in\n{told}");
    }
    assert!(!told.contains("ok-1"), "{told}");
    host.stop();

    let before = dump(&scene).await;
    let (code, report) = replay_json(&config, &guest("noop"), &["--topic", "hostile.rejected"]);
    assert_eq!((code, &report["events"], &report["other_outcome"]), (Some(1), &2.into(), &2.into()));
    let first = &report["differences"][0];
    assert_eq!((&first["event_id"], &first["candidate"]), (&"no-2".into(), &"delivered".into()), "{report}");
    assert_eq!(first["differences"][0]["what"], "outcome");
    // The same behaviour in another file, and the very same file.
    let other = scene.path().join("other.wasm");
    replace(&other, &variant("hostile", 1));
    let (code, report) = replay_json(&config, &other, &[]);
    assert_eq!((code, &report["same"], &report["events"]), (Some(0), &6.into(), &6.into()), "{report}");
    assert_ne!(report["current"], report["candidate"]);
    let output = replay(&config, &component, &[]);
    assert!(output.status.success() && text(&output).contains("they are the same component"), "{output:?}");
    assert_eq!(dump(&scene).await, before);
}

async fn requests_are_compared_and_none_leaves_the_machine(scene: Scene) {
    scene.migrate().await;
    let receiver = Receiver::start().await;
    let config = scene.write_config(&receiver.destination(""));
    let host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", 3).await;
    until_delivered(&scene.stores().await, 3).await;
    host.stop();
    assert_eq!(receiver.received().len(), 3);

    let other = scene.path().join("other.wasm");
    replace(&other, &variant("http", 1));
    let (code, report) = replay_json(&config, &other, &["--answer", "503", "--answer", "200"]);
    assert_eq!((code, &report["same"]), (Some(0), &3.into()), "{report}");
    assert_eq!(report["outcomes"]["candidate"]["unavailable"], 3, "the answers begin anew: {report}");

    // Another plugin with the same setting sends something else, and takes 409 for something else.
    let template = guest("template-rust");
    let (code, report) = replay_json(&config, &template, &[]);
    assert_eq!((code, &report["other_request"], &report["other_outcome"]), (Some(1), &3.into(), &0.into()));
    let whats: Vec<_> = report["differences"][0]["differences"].as_array().unwrap().iter().collect();
    let of = |what: &str| whats.iter().find(|it| it["what"] == what).map(|it| &it["candidate"]);
    assert_eq!(of("request 1 header idempotency-key"), Some(&"o-3".into()), "{report}");
    assert_eq!(of("request 1 header webhook-id"), Some(&"none".into()), "{report}");
    let ignoring = ["idempotency-key", "Webhook-Id", "webhook-timestamp", "user-agent"];
    let ignoring: Vec<_> = ignoring.iter().flat_map(|name| ["--ignore-header", name]).collect();
    assert_eq!(replay_json(&config, &template, &ignoring).0, Some(0));
    let answers = scene.path().join("answers.toml");
    std::fs::write(&answers, "[[server]]\nstatus = 409\nbody = \"other content\"\n").unwrap();
    let conflict = ["--answers-file", answers.to_str().unwrap(), "--limit", "1"];
    let (code, report) = replay_json(&config, &template, &[&conflict[..], &ignoring].concat());
    assert_eq!((code, &report["events"], &report["other_outcome"]), (Some(1), &1.into(), &1.into()));
    assert_eq!(report["outcomes"]["candidate"]["conflict"], 1, "{report}");
    assert_eq!(receiver.received().len(), 3, "no request of a replay arrived");
}

async fn events_are_paged_through_the_newest_first(scene: Scene) {
    const EVENTS: usize = 450;
    scene.migrate().await;
    let config = scene.write_config(&noop("hook", "*", "batch = 500"));
    let nothing = replay(&config, &guest("noop"), &[]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(text(&nothing).contains("no destination \"hook\""), "{}", text(&nothing));
    let host = Host::start(&config);
    let mut producer = scene.producer().await;
    producer.insert("order.created", "first", 1).await;
    producer.insert("order.paid", "later", EVENTS).await;
    until_delivered(&scene.stores().await, EVENTS + 1).await;
    host.stop();
    let events = |more: &[&str]| replay_json(&config, &guest("noop"), more).1["events"].as_u64();
    assert_eq!(events(&["--limit", "1000"]), Some(EVENTS as u64 + 1));
    assert_eq!(events(&["--limit", "201"]), Some(201));
    // The oldest of all, behind pages of others.
    assert_eq!(events(&["--topic", "order.created"]), Some(1));
    let (code, report) = replay_json(&config, &guest("noop"), &["--topic", "stock.*"]);
    assert_eq!((code, &report["events"]), (Some(1), &0.into()), "nothing compared is nothing proved");
}

#[test]
fn events_of_a_file_are_replayed_without_a_database() {
    run(events_of_a_file(Scene::sqlite()));
}

async fn events_of_a_file(scene: Scene) {
    let config = scene.write_config(&noop("hook", "*", ""));
    let events = scene.path().join("events.jsonl");
    std::fs::write(&events, "{\"id\":\"a\"}\r\n\n{\"id\":7}\n{\"id\":\"c\"}").unwrap();
    let more = ["--events", events.to_str().unwrap(), "--topic", "hostile.rejected", "--id-field", "id"];
    let (code, report) = replay_json(&config, &guest("hostile"), &more);
    assert_eq!((code, &report["other_outcome"]), (Some(1), &3.into()), "{report}");
    let ids: Vec<_> = (0..3).map(|n| &report["differences"][n]["event_id"]).collect();
    assert_eq!(ids, ["a", "7", "c"]);
    std::fs::write(&events, "{\"id\":\"a\"}\nnot json\n").unwrap();
    let broken = replay(&config, &guest("hostile"), &more);
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken).contains("line 2"), "{}", text(&broken));
    // What a program reads is whole, whatever came between.
    let (code, report) = replay_json(&config, &guest("hostile"), &more);
    assert_eq!(
        (code, &report["events"], &report["differences"][0]["event_id"]),
        (Some(1), &1.into(), &"a".into())
    );
    assert!(report["error"].as_str().is_some_and(|error| error.contains("line 2")), "{report}");
    assert!(!scene.path().join("outbox.db").exists());
}

#[test]
fn a_replay_that_saw_nothing_of_what_is_done_with_events_proves_nothing() {
    run(unreached(Scene::sqlite()));
}

async fn unreached(scene: Scene) {
    let ledger = guest("stock-ledger");
    let config = scene.write_config(&format!(
        "[destination.hook]\ncomponent = \"{}\"\ntopics = [\"*\"]\nsql = [\"shop\"]\n\
         settings = {{ database = \"shop\" }}\n[sql.shop]\nurl = \"sqlite:{}\"\n",
        ledger.display(),
        scene.path().join("shop.db").display()
    ));
    let events = scene.path().join("events.jsonl");
    std::fs::write(&events, "{\"sku\":\"A\",\"quantity\":1}\n{\"sku\":\"B\",\"quantity\":2}\n").unwrap();
    let more = ["--events", events.to_str().unwrap(), "--topic", "shipment.requested"];
    let output = replay(&config, &ledger, &more);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    for part in ["2 events: 2 the same", "every event asked for what is not there in a replay"] {
        assert!(text(&output).contains(part), "no {part} in {}", text(&output));
    }
    let (code, report) = replay_json(&config, &ledger, &more);
    assert_eq!((code, &report["events_unreached"]), (Some(1), &2.into()), "{report}");
    assert!(!scene.path().join("shop.db").exists());
}

#[test]
fn a_replay_that_makes_no_sense_is_refused_with_the_fix() {
    run(refused(Scene::sqlite()));
}

async fn refused(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("hook", "*", ""));
    let component = guest("noop");
    for (more, words) in [
        (&["--destination", "other"][..], "it has hook"),
        (&["--topic", "a..b"], "a.b"),
        (&["--id-field", "id"], "--events"),
        (&["--events", "e.jsonl"], "--topic"),
        (&["--events", "e.jsonl", "--topic", "a.*"], "no pattern"),
        (&["--answer", "99"], "200 to 599"),
        (&["--answers-file", "nowhere.toml"], "nowhere.toml"),
        (&["--limit", "0"], "0"),
    ] {
        let arguments = match more.contains(&"--destination") {
            true => vec!["plugin", "replay", component.to_str().unwrap()],
            false => vec!["plugin", "replay", component.to_str().unwrap(), "--destination", "hook"],
        };
        let output = outhaul(&config, &[&arguments, more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", text(&output));
        assert!(text(&output).contains(words), "{more:?}: {}", text(&output));
    }
    let broken = scene.path().join("broken.wasm");
    std::fs::write(&broken, "this is no component").unwrap();
    let output = replay(&config, &broken, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("broken.wasm"), "{}", text(&output));
}
