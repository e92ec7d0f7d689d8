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
    assert_eq!(look.world, "outhaul:delivery/destination@0.1.0");
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
