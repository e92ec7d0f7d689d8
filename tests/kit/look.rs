//! A component looked at, and loaded by itself.

use std::path::Path;

use outhaul::kit::inspect::look;
use outhaul::service::check::plugin_alone;
use outhaul::service::config::Config;
use outhaul::service::mapping::bare_spec;
use outhaul_tests::guests::guest;
use serde_json::{Value, json};

use crate::harness::RUNTIME;

#[tokio::test]
async fn a_component_is_shown_with_what_it_needs_and_a_config_that_is_valid() {
    let look = look(&RUNTIME, &guest("http")).await.unwrap();
    assert_eq!(look.world, "outhaul:delivery/destination@1.0.0");
    assert_eq!(look.language.as_deref(), Some("Rust"), "{:?}", look.producers);
    let meaning = |name: &str| {
        let found = look.imports.iter().chain(&look.exports).find(|it| it.name.starts_with(name));
        found.unwrap_or_else(|| panic!("{name} is missing in {look:#?}")).meaning
    };
    assert!(meaning("wasi:http/outgoing-handler").contains("[[destination.NAME.http]]"));
    assert!(meaning("outhaul:delivery/describe").contains("needs"));
    assert!(look.description.as_ref().is_some_and(|said| said.name == "http" && said.needs.len() == 2));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outhaul.toml");
    let head = "version = 1\n[outbox]\nurl = \"sqlite:o.db\"\n\n";
    std::fs::write(&path, format!("{head}{}", look.config)).unwrap();
    let config = Config::load(&path).unwrap_or_else(|problems| panic!("{problems}\n{}", look.config));
    let destination = &config.file.destination["http"];
    assert_eq!(destination.sha256.as_deref(), Some(look.sha256.as_str()));
    assert_eq!(destination.http.len(), 1);
    assert!(destination.settings.contains_key("url"));
}

#[tokio::test]
async fn each_shipped_plugin_says_what_it_is_takes_and_needs() {
    for (name, setting, needs) in [("http", "url", &["http", "secret"][..]), ("log", "payload", &[])] {
        let look = look(&RUNTIME, &guest(name)).await.unwrap();
        let said = look.description.unwrap_or_else(|| panic!("{name} says nothing"));
        assert_eq!((said.name.as_str(), said.version.is_empty()), (name, false));
        let schema: Value = serde_json::from_str(&said.settings_schema).unwrap();
        assert_eq!(schema["additionalProperties"], false, "{name}: an unknown setting is told");
        assert!(schema["properties"][setting].is_object(), "{name}: {schema}");
        let capabilities: Vec<_> = said.needs.iter().map(|need| need.capability.as_str()).collect();
        assert_eq!(capabilities, needs, "{name}");
    }
    let bare = bare_spec(guest("log"), serde_json::from_str(r#"{ "payload": "yes" }"#).unwrap());
    let findings = plugin_alone(&RUNTIME, bare, true).await;
    let bad: Vec<_> = findings.iter().filter(|finding| !finding.ok).map(|finding| &*finding.text).collect();
    assert!(bad.contains(&"/payload: \"yes\" is not of the type boolean"), "{bad:?}");
}

/// The component as if it had been built for another version of the contract.
fn built_for(name: &str, version: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(guest(name)).unwrap();
    let (mine, other) = (b"@1.0.0", format!("@{version}"));
    assert_eq!(mine.len(), other.len(), "the lengths before the names stay as they are");
    let mut changed = 0;
    for interface in ["deliver", "types", "batch", "describe", "check", "tick", "close"] {
        let own = [format!("outhaul:delivery/{interface}").as_bytes(), mine].concat();
        let places = bytes.windows(own.len()).enumerate().filter(|(_, window)| *window == own);
        let ends: Vec<_> = places.map(|(at, _)| at + own.len()).collect();
        for end in ends {
            bytes[end - mine.len()..end].copy_from_slice(other.as_bytes());
            changed += 1;
        }
    }
    assert!(changed > 0, "{name} names no interface of the contract");
    bytes
}

#[tokio::test]
async fn s37_a_component_for_another_contract_version_is_told_both_versions_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.wasm");
    for (version, fix) in [
        ("2.0.0", "use a newer host, or build the plugin for the version this host has"),
        ("0.1.0", "build the plugin again with the wit/ folder of this host's version"),
    ] {
        std::fs::write(&path, built_for("noop", version)).unwrap();
        let expected = format!(
            "the component is built for outhaul:delivery {version}, and this host has outhaul:delivery 1.0.0; {fix}"
        );
        assert_eq!(look(&RUNTIME, &path).await.unwrap_err().to_string(), expected);
        let error = RUNTIME.load(bare_spec(path.clone(), Default::default())).await.err().expect("refused");
        assert_eq!(error.problem.to_string(), expected);
    }
    // A later version of the same line loads.
    std::fs::write(&path, built_for("noop", "1.7.0")).unwrap();
    assert_eq!(look(&RUNTIME, &path).await.unwrap().world, "outhaul:delivery/destination@1.7.0");
}

#[tokio::test]
async fn what_is_no_component_is_named_for_what_it_is() {
    let error = look(&RUNTIME, Path::new("/nowhere.wasm")).await.unwrap_err().to_string();
    assert!(error.contains("/nowhere.wasm"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core.wasm");
    std::fs::write(&path, b"\0asm\x01\0\0\0").unwrap();
    let error = look(&RUNTIME, &path).await.unwrap_err().to_string();
    assert!(error.contains("core module") && error.contains("wasm-tools component new"), "{error}");
}

async fn findings(settings: Value) -> Vec<(bool, String)> {
    let Value::Object(settings) = settings else { panic!("settings are an object") };
    let findings = plugin_alone(&RUNTIME, bare_spec(guest("http"), settings), false).await;
    findings.into_iter().map(|finding| (finding.ok, finding.text)).collect()
}

#[tokio::test]
async fn a_component_by_itself_is_told_what_it_needs_and_is_not_granted() {
    let findings = findings(json!({ "url": "https://hooks.example.com/" })).await;
    let is = |ok: bool, words: &[&str]| {
        findings.iter().any(|(it, text)| *it == ok && words.iter().all(|word| text.contains(word)))
    };
    assert!(is(true, &["it loads and takes its settings"]), "{findings:#?}");
    assert!(is(false, &["needs http", "[[destination.NAME.http]]"]), "{findings:#?}");
    assert!(is(true, &["works without secret"]), "{findings:#?}");
    assert!(is(true, &["they fit the schema"]), "{findings:#?}");
}

#[tokio::test]
async fn settings_are_compared_with_the_schema_and_with_what_configure_says() {
    let findings = findings(json!({ "url": 7, "method": "SEND" })).await;
    let bad: Vec<_> = findings.iter().filter(|(ok, _)| !ok).map(|(_, text)| text.as_str()).collect();
    assert!(bad.iter().any(|text| text.contains("settings: /url")), "{bad:#?}");
    assert!(bad.contains(&"/url: 7 is not of the type string"), "{bad:#?}");
    assert!(bad.iter().any(|text| text.starts_with("/method: \"SEND\" is none of")), "{bad:#?}");
}
