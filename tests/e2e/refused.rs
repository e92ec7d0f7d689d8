//! Candidates and configs that can't be used change nothing, and are told of wherever one looks.

use outhaul::store::DeliveryStatus;
use outhaul_tests::components::{replace, variant};
use outhaul_tests::guests::guest;
use serde_json::Value;

use crate::databases::{Scene, count, until, until_delivered};
use crate::host::{Host, outhaul, outhaul_json};
use crate::receiver::Receiver;

on_both!(
    a_bad_candidate_of_each_kind_leaves_what_runs_and_keeps_no_other_from_its_swap,
    a_candidate_whose_destination_is_down_waits_until_it_is_up,
    a_config_that_cannot_be_used_changes_nothing_and_is_told_with_line_and_key,
    a_destination_that_never_loaded_runs_once_its_component_is_there,
);

const REFUSED: &str = "the candidate is refused; the running generation stays";
const UNUSABLE: &str = "the config on disk can't be used; the host goes on with the one it has";

/// Two destinations whose components are the test's own files.
fn two(scene: &Scene, settings: &str) -> String {
    ["odd", "even"]
        .map(|name| {
            let component = scene.path().join(format!("{name}.wasm"));
            format!(
                "[destination.{name}]\ncomponent = \"{}\"\ntopics = [\"hostile.{name}\"]\nlimits.call = \"3s\"\n\
                 settings = {{ {} }}\n",
                component.display(),
                if name == "odd" { settings } else { "misdeed = \"ok\"" }
            )
        })
        .concat()
}

async fn a_bad_candidate_of_each_kind_leaves_what_runs_and_keeps_no_other_from_its_swap(scene: Scene) {
    scene.migrate().await;
    let (odd, even) = (scene.path().join("odd.wasm"), scene.path().join("even.wasm"));
    let good = variant("hostile", 0);
    replace(&odd, &good);
    replace(&even, &good);
    let ok = "misdeed = \"ok\"";
    let config = scene.write_config(&two(&scene, ok));
    let mut host = Host::start(&config);
    let (stores, mut producer) = (scene.stores().await, scene.producer().await);
    let wants_sql = std::fs::read(guest("wants-sql")).unwrap();
    let module = b"\0asm\x01\0\0\0".to_vec();
    let bad: [(&str, Vec<u8>, &str, &str); 6] = [
        ("not wasm", b"hello".to_vec(), ok, "is not WebAssembly"),
        ("a module", module, ok, "core module"),
        ("another world", wants_sql, ok, "outhaul:sql"),
        ("half of it", good[..good.len() / 2].to_vec(), ok, "does not compile"),
        (
            "refuses its settings",
            good.clone(),
            "misdeed = \"refuse-settings\"",
            "/misdeed: refused on purpose",
        ),
        ("traps at configure", good.clone(), "misdeed = \"trap-in-configure\"", "trapped"),
    ];
    for (number, (what, bytes, settings, words)) in bad.into_iter().enumerate() {
        replace(&odd, &bytes);
        replace(&even, &variant("hostile", u32::try_from(number).unwrap() + 1));
        scene.write_config(&two(&scene, settings));
        host.hang_up();
        let refused = host.wait_for_record(REFUSED);
        let error = refused["fields"]["error"].as_str().unwrap();
        assert!(error.contains(words), "{what}: {error}");
        assert_eq!(refused["fields"]["destination"], "odd");
        // The other is swapped all the same.
        host.wait_for_generation("even", number as u64 + 2);
        host.wait_for_record("reloaded");
        let (status, readiness) = host.readiness().await;
        let odd = &readiness["destinations"]["odd"];
        assert_eq!((status, &odd["ok"], &odd["generation"]), (200, &true.into(), &1.into()), "{readiness}");
        assert!(odd["reload_error"].as_str().unwrap().contains(words), "{what}: {readiness}");
        producer.insert("hostile.odd", &format!("odd-{number}"), 1).await;
        producer.insert("hostile.even", &format!("even-{number}"), 1).await;
        until_delivered(&stores, 2 * (number + 1)).await;
    }
    let (_, metrics) = host.get("/metrics").await;
    for line in [
        "outhaul_reload_failing{destination=\"odd\"} 1",
        "outhaul_reload_failing{destination=\"even\"} 0",
        "outhaul_generation{destination=\"odd\"} 1",
        "outhaul_generation{destination=\"even\"} 7",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in\n{metrics}");
    }
    // The watcher may have tried one of them before the signal did.
    let failed =
        |line: &str| line.strip_prefix("outhaul_reload_failures_total{destination=\"odd\"} ")?.parse().ok();
    let failures: Option<u32> = metrics.lines().find_map(failed);
    assert!(failures.is_some_and(|failures| failures >= 6), "{metrics}");
    let told = async || {
        let status = String::from_utf8(outhaul(&config, &["status"]).stdout).unwrap();
        (status.contains("reload: odd on ") && status.contains("trapped")).then_some(status)
    };
    let status = until("status tells of it", told).await;
    assert!(status.contains(" #1") && status.contains(" #7"), "{status}");

    // The same bad candidate is not tried again for nothing; a good one clears the error.
    scene.write_config(&two(&scene, ok));
    replace(&odd, &variant("hostile", 100));
    host.hang_up();
    host.wait_for_generation("odd", 2);
    let (_, readiness) = host.readiness().await;
    assert_eq!(readiness["destinations"]["odd"].get("reload_error"), None, "{readiness}");
    assert_eq!(count(&stores, DeliveryStatus::Delivered).await, 12);
    host.stop();
}

async fn a_config_that_cannot_be_used_changes_nothing_and_is_told_with_line_and_key(scene: Scene) {
    scene.migrate().await;
    let noop = guest("noop").display().to_string();
    let destination = |more: &str| {
        format!("[destination.noop]\ncomponent = \"{noop}\"\ntopics = [\"*\"]\nconcurrency = 3\n{more}\n")
    };
    let config = scene.write_config(&destination(""));
    let good = std::fs::read_to_string(&config).unwrap();
    let mut host = Host::start(&config);
    let unknown_key = good.replace("concurrency", "concurency");
    // S5: the numbers are said at a reload as at the start.
    let short_lease = good.clone() + "lease = \"2s\"\n";
    for (text, words) in [
        (unknown_key, &["concurency", "did you mean `concurrency`", "outhaul.toml"][..]),
        ("version = 1\n[outbox".to_owned(), &["not TOML", "outhaul.toml"]),
        (short_lease, &["a lease of 2s can't be kept", "5s", "relay.lease"]),
    ] {
        replace(&config, text.as_bytes());
        let record = host.wait_for_record(UNUSABLE);
        let problem = record["fields"]["problem"].as_str().unwrap();
        for word in words {
            assert!(problem.contains(word), "no {word} in {problem}");
        }
        let told = async || {
            let (status, readiness) = host.readiness().await;
            let is_told = readiness["reload_error"].as_str().is_some_and(|error| error.contains(words[0]));
            is_told.then_some(status)
        };
        assert_eq!(until("readyz tells of it", told).await, 200);
        let told = async || {
            let seen = outhaul(&config, &["status", "--database", &scene.url()]);
            let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
            (seen.contains("reload: ") && seen.contains(words[0])).then_some(())
        };
        until("status tells of it where the database is named", told).await;
    }
    // With the file alone it tells what it can: of the database, or where to name one.
    replace(&config, good.replace("concurrency", "concurency").as_bytes());
    let seen = outhaul(&config, &["status"]);
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert_eq!(seen.status.code(), Some(1), "{text}");
    assert!(
        text.contains("a host that runs keeps the one it had") && text.contains("did you mean"),
        "{text}"
    );
    assert!(text.contains("reload: ") && text.contains("noop "), "{text}");
    let seen = outhaul_json(&config, &["status", "--json"]);
    assert!(seen["config_error"].as_str().is_some_and(|error| error.contains("concurency")), "{seen}");
    replace(&config, b"version = 1\n[outbox");
    let seen = outhaul(&config, &["status"]);
    let text = String::from_utf8_lossy(&seen.stderr).into_owned();
    assert_eq!(seen.status.code(), Some(1), "{text}");
    for part in ["outhaul.toml:2: this is not TOML (column ", "outhaul status --database URL"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let (_, metrics) = host.get("/metrics").await;
    let failed = |line: &str| {
        line.strip_prefix("outhaul_reload_failures_total{destination=\"(config)\"} ")?.parse().ok()
    };
    let failures: Option<u32> = metrics.lines().find_map(failed);
    assert!(failures.is_some_and(|failures| failures >= 3), "{metrics}");
    std::fs::remove_file(&config).unwrap();
    host.hang_up();
    let record = host.wait_for_record(UNUSABLE);
    assert!(record["fields"]["problem"].as_str().unwrap().contains("can't be read"), "{record}");
    scene.producer().await.insert("order.created", "o", 1).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 1).await;

    // What can't be applied while it runs is named, and the rest is applied.
    let later =
        good.replace("poll = \"500ms\"", "poll = \"400ms\"").replace("concurrency = 3", "concurrency = 4");
    replace(&config, (later + "[relay]\ndrain = \"7s\"\n").as_bytes());
    let record = host.wait_for_record("changed keys that take effect at the next start");
    assert_eq!(record["fields"]["keys"], "outbox.poll, relay.drain");
    host.wait_for_generation("noop", 2);
    let (_, readiness) = host.readiness().await;
    assert_eq!(readiness.get("reload_error"), None, "{readiness}");
    host.stop();
}

async fn a_candidate_whose_destination_is_down_waits_until_it_is_up(scene: Scene) {
    scene.migrate().await;
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hook = |settings: &str| {
        format!(
            "[destination.hook]\ncomponent = \"{}\"\ntopics = [\"*\"]\nlimits.call = \"3s\"\n\
             settings = {{ {settings} }}\n[[destination.hook.http]]\norigin = \"http://{address}\"\nprivate = true\n",
            guest("hostile").display()
        )
    };
    let fetches = format!("misdeed = \"fetches-in-configure\", url = \"http://{address}/\"");
    let config = scene.write_config(&hook("misdeed = \"unavailable-in-configure\""));
    let mut host = Host::start(&config);
    let (stores, mut producer) = (scene.stores().await, scene.producer().await);
    // Where what runs can't use its destination either, the next one may be the cure.
    for (generation, settings) in [(2, fetches.as_str()), (3, "misdeed = \"ok\"")] {
        scene.write_config(&hook(settings));
        host.hang_up();
        host.wait_for_generation("hook", generation);
    }
    scene.write_config(&hook(&fetches));
    host.hang_up();
    let refused = host.wait_for_record(REFUSED);
    let error = refused["fields"]["error"].as_str().unwrap();
    assert!(error.starts_with("its destination can't be used"), "{error}");
    producer.insert("hostile.hook", "before", 1).await;
    until_delivered(&stores, 1).await;
    let (_, readiness) = host.readiness().await;
    assert_eq!(readiness["destinations"]["hook"]["generation"], 3, "{readiness}");

    // Nobody says that it is up.
    let receiver = Receiver::at(address).await;
    host.wait_for_generation("hook", 4);
    assert!(!receiver.received().is_empty());
    producer.insert("hostile.hook", "after", 1).await;
    until_delivered(&stores, 2).await;
    let (_, readiness) = host.readiness().await;
    assert_eq!(readiness["destinations"]["hook"].get("reload_error"), None, "{readiness}");
    host.stop();
}

async fn a_destination_that_never_loaded_runs_once_its_component_is_there(scene: Scene) {
    scene.migrate().await;
    let component = scene.path().join("late.wasm");
    let late = format!("[destination.late]\ncomponent = \"{}\"\ntopics = [\"*\"]\n", component.display());
    let config = scene.write_config(&late);
    let mut host = Host::start(&config);
    scene.producer().await.insert("order.created", "o", 3).await;
    let (_, readiness) = host.readiness().await;
    let problem = &readiness["destinations"]["late"]["problem"];
    assert!(problem.as_str().unwrap().contains("late.wasm"), "{readiness}");
    replace(&component, &variant("noop", 1));
    host.wait_for_generation("late", 1);
    let stores = scene.stores().await;
    until_delivered(&stores, 3).await;
    let no_failures = async || {
        let status = outhaul_json(&config, &["status", "--json"]);
        let host = &status["hosts"][0];
        (host["problems"] == Value::Array(Vec::new()) && host["loaded"][0]["generation"] == 1).then_some(())
    };
    until("status tells of its generation", no_failures).await;
    host.stop();
}
