//! Components and settings that can't be used, and what is said of them.

use std::path::PathBuf;

use outhaul::domain::{HostFailure, Outcome};
use outhaul::plugin::{Deliver, LoadProblem, Runtime, Unloaded};
use outhaul_tests::guests::guest;

use crate::lane::{Lane, PROCESS, call, hostile, load_error, reference, secret, secret_file, settings, spec};

async fn message_for(component: PathBuf) -> String {
    let mut spec = spec("hostile");
    spec.component = component;
    load_error(spec).await.to_string()
}

#[tokio::test]
async fn a_missing_file_a_text_file_and_a_core_module_are_named_for_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.wasm");
    std::fs::write(&text, "hello").unwrap();
    let module = folder.path().join("module.wasm");
    std::fs::write(&module, b"\0asm\x01\0\0\0").unwrap();
    let damaged = folder.path().join("damaged.wasm");
    let component = std::fs::read(guest("hostile")).unwrap();
    std::fs::write(&damaged, &component[..component.len() / 2]).unwrap();
    for (file, words) in [
        (folder.path().join("none.wasm"), ["can't be read", "check  component"]),
        (text, ["is not WebAssembly", "5 bytes"]),
        (module, ["core module", "wasm32-wasip2"]),
        (damaged, ["does not compile", "damaged.wasm"]),
    ] {
        let message = message_for(file).await;
        for word in words {
            assert!(message.contains(word), "{message}");
        }
        assert!(message.starts_with("destination \"lane-"), "{message}");
    }
}

#[tokio::test]
async fn a_component_of_another_contract_version_is_told_both_versions_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.wasm");
    // Version numbers of the same length, so that the binary's lengths stay right.
    let component = std::fs::read(guest("noop")).unwrap();
    std::fs::write(
        &other,
        replaced(&component, b"outhaul:delivery/deliver@1.0.0", b"outhaul:delivery/deliver@2.0.0"),
    )
    .unwrap();
    let message = message_for(other).await;
    for word in ["outhaul:delivery 2.0.0", "outhaul:delivery 1.0.0", "use a newer host"] {
        assert!(message.contains(word), "{message}");
    }
}

#[tokio::test]
async fn s37_a_component_of_our_version_whose_types_differ_gets_a_sentence_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.wasm");
    let component = std::fs::read(guest("noop")).unwrap();
    std::fs::write(&other, replaced(&component, b"last-attempt", b"last-attemqt")).unwrap();
    let message = message_for(other).await;
    for word in ["outhaul:delivery@1.0.0", "its types differ", "build it again"] {
        assert!(message.contains(word), "{message}");
    }
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut found = 0;
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
            found += 1;
        }
    }
    assert!(found > 0, "the component does not hold {}", String::from_utf8_lossy(from));
    bytes
}

#[tokio::test]
async fn a_pin_that_does_not_match_names_both_digests() {
    let lane = hostile(|_| {}).await;
    let digest = lane.plugin.component_digest().to_owned();
    let mut pinned = spec("hostile");
    pinned.sha256 = Some(digest.to_uppercase());
    Lane::load(pinned.clone()).await;
    pinned.sha256 = Some("0".repeat(64));
    let message = load_error(pinned).await.to_string();
    assert!(message.contains(&digest) && message.contains(&"0".repeat(64)), "{message}");
}

#[tokio::test]
async fn wrong_settings_are_said_at_load_each_with_its_pointer() {
    let mut spec = spec("hostile");
    spec.settings_json = r#"{"misdeed":"refuse-settings"}"#.to_owned();
    let error = load_error(spec).await;
    assert_eq!(
        error.problem,
        LoadProblem::Settings("settings: /misdeed: refused on purpose; /also: a second problem".to_owned())
    );
    let stand_in = Unloaded::new(&error);
    let outcome = stand_in.deliver(call("ok", &[])).await;
    assert!(
        matches!(&outcome, Outcome::Host(HostFailure::Load, detail) if detail.message.contains("/misdeed"))
    );
    assert!(!outcome.is_uncertain());
    assert!(stand_in.unready().unwrap().contains("/also"));
}

#[tokio::test]
async fn a_huge_settings_problem_is_cut() {
    let mut spec = spec("hostile");
    spec.settings_json = r#"{"misdeed":"huge-settings-problem"}"#.to_owned();
    let LoadProblem::Settings(message) = load_error(spec).await.problem else { panic!("not the settings") };
    assert!(message.len() <= 2048 && !message.contains('\0'));
}

#[tokio::test]
async fn a_plugin_that_traps_spins_or_needs_more_memory_to_start_does_not_load() {
    for (misdeed, memory_bytes, word) in [
        ("trap-in-configure", 64 << 20, "trapped"),
        ("spin-in-configure", 64 << 20, "limits.call (300 ms)"),
        ("ok", 64 << 10, "limits.memory"),
    ] {
        let mut spec = spec("hostile");
        spec.settings_json = format!(r#"{{"misdeed":"{misdeed}"}}"#);
        spec.limits.memory_bytes = memory_bytes;
        spec.limits.call = std::time::Duration::from_millis(300);
        let error = load_error(spec).await;
        assert!(matches!(error.problem, LoadProblem::Start(_)), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_plugin_that_is_unavailable_when_configured_loads_and_defers() {
    let lane =
        hostile(|spec| spec.settings_json = r#"{"misdeed":"unavailable-in-configure"}"#.to_owned()).await;
    let Outcome::Unavailable { detail, .. } = lane.call("ok").await else { panic!("not unavailable") };
    assert_eq!(detail.message, "not now, on purpose");
    assert_eq!(lane.plugin.unready(), None);
}

#[tokio::test]
async fn s36_a_pool_whose_replacements_fail_heals() {
    let folder = tempfile::tempdir().unwrap();
    let switch = secret_file(folder.path(), b"on");
    let lane = hostile(|spec| {
        spec.concurrency = 2;
        spec.settings_json = r#"{"switch":"switch"}"#.to_owned();
        spec.secrets.insert("switch".to_owned(), secret(&[&switch], &["reveal"]));
    })
    .await;
    assert_eq!(lane.call("trap").await.kind(), "trap");
    switch.change(b"off");
    for _ in 0..10 {
        let outcome = lane.call("remember").await;
        assert_eq!(outcome.kind(), "unavailable", "{outcome:?}");
        assert!(!outcome.is_uncertain());
    }
    switch.change(b"on");
    assert_eq!(reference(&lane.call("remember").await), "calls=1");
    assert_eq!(reference(&lane.call("remember").await), "calls=2");
    assert_eq!(lane.stats().instances_failed, 10);
}

#[tokio::test]
async fn compiled_code_is_kept_and_a_damaged_file_is_a_miss() {
    let _among_others = PROCESS.read().await;
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let load = || async {
        let mut settings = settings();
        settings.cache_dir = Some(cache.clone());
        let runtime = Runtime::new(settings).unwrap();
        let plugin = runtime.load(spec("noop")).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(plugin.deliver(call("ok", &[])).await.is_success());
    };
    load().await;
    let files: Vec<_> = std::fs::read_dir(&cache).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let good = std::fs::read(&files[0]).unwrap();
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);

    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [flipped, good[..good.len() / 2].to_vec(), b"x".to_vec(), Vec::new()] {
        std::fs::write(&files[0], &damaged).unwrap();
        load().await;
        assert!(std::fs::read(&files[0]).unwrap() == good, "it was not compiled again");
    }
}

#[tokio::test]
async fn everything_of_wasi_links_and_denies_at_the_call() {
    let lane = hostile(|_| {}).await;
    for (misdeed, finding) in [
        ("read-env", "variables=0 arguments=0 names="),
        ("open-file", "directories=0"),
        ("connect-tcp", "access-denied"),
        ("resolve-name", "resolve: "),
    ] {
        let outcome = lane.call(misdeed).await;
        assert!(reference(&outcome).contains(finding), "{misdeed}: {}", reference(&outcome));
    }
}

#[tokio::test]
async fn the_guest_is_told_the_whole_event() {
    let lane = hostile(|_| {}).await;
    let mut told = call("echo", &[("Trace-Id", "abc")]);
    told.event.key = Some("key".to_owned());
    told.event.tenant = "tenant".to_owned();
    told.event.seq.0 = 42;
    told.dedup_id = "dedup".to_owned();
    told.attempt = 3;
    told.is_last_attempt = true;
    told.uncertain_before = true;
    told.fence.0 = 9;
    let outcome = lane.plugin.deliver(told).await;
    let echo: serde_json::Value = serde_json::from_str(reference(&outcome)).unwrap();
    for (name, expected) in [
        ("id", serde_json::json!("event-1")),
        ("dedup-id", "dedup".into()),
        ("topic", "hostile.echo".into()),
        ("key", "key".into()),
        ("tenant", "tenant".into()),
        ("headers", serde_json::json!([["Trace-Id", "abc"]])),
        ("content-type", "application/json".into()),
        ("payload-bytes", 2.into()),
        ("created-at", 100_000_000.into()),
        ("sequence", 42.into()),
        ("attempt", 3.into()),
        ("last-attempt", true.into()),
        ("uncertain-before", true.into()),
        ("fence", 9.into()),
    ] {
        assert_eq!(echo[name], expected, "{name}");
    }
    let budget_ms = echo["budget-ms"].as_u64().unwrap();
    // The destination's own limit is 10 s, and the call's budget was 30 s.
    assert!((1..=10_000).contains(&budget_ms), "{budget_ms}");
    assert!(echo["destination"].as_str().unwrap().starts_with("lane-"));
}

#[tokio::test]
async fn each_of_the_plugins_own_failures_arrives_as_itself() {
    let lane = hostile(|_| {}).await;
    for kind in
        ["retry", "rate-limited", "unavailable", "rejected", "conflict", "gone", "misconfigured", "other"]
    {
        let parameters = [("code", "c"), ("message", "m"), ("maybe-applied", "true"), ("after-ms", "1500")];
        let outcome = lane.call_with(kind, &parameters).await;
        assert_eq!(outcome.kind(), kind);
        assert!(outcome.is_uncertain());
        let detail = outcome.detail().unwrap();
        assert_eq!((detail.code.as_str(), detail.message.as_str()), ("c", "m"));
        if let Outcome::Retry { after, .. }
        | Outcome::RateLimited { after, .. }
        | Outcome::Unavailable { after, .. } = &outcome
        {
            assert_eq!(*after, Some(std::time::Duration::from_millis(1500)));
        }
    }
    assert_eq!(lane.call("duplicate").await.kind(), "duplicate");
}
