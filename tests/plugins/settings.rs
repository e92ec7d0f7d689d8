//! Wrong settings and missing grants are told when the plugin is loaded.

use serde_json::json;

use crate::harness::{Plan, http};

#[tokio::test]
async fn a_wrong_setting_is_named_by_its_pointer_with_the_nearest_key() {
    let refusal =
        http(json!({ "url": "http://127.0.0.1:1/", "metod": "PUT", "timeout": "10" })).refusal().await;
    assert!(refusal.contains("/metod"), "{refusal}");
    assert!(refusal.contains("did you mean \"method\"?"), "{refusal}");
    assert!(refusal.contains("/timeout"), "{refusal}");
    let refusal = http(json!({})).refusal().await;
    assert!(refusal.contains("/url"), "{refusal}");
}

#[tokio::test]
async fn a_secret_that_is_not_granted_is_told_before_the_first_event() {
    let settings = json!({ "url": "http://127.0.0.1:1/", "signing": { "secret": "signing" } });
    let refusal = http(settings.clone()).refusal().await;
    assert!(refusal.contains("/signing/secret"), "{refusal}");
    // Granted for another use only.
    let folder = tempfile::tempdir().unwrap();
    let refusal = http(settings).signing(folder.path(), &[b"key"], &["ed25519"]).refusal().await;
    assert!(refusal.contains("/signing/secret") && refusal.contains("hmac-sha256"), "{refusal}");
}

#[tokio::test]
async fn the_log_plugin_refuses_settings_it_does_not_know() {
    let refusal = Plan::of("log", json!({ "payloads": true })).refusal().await;
    assert!(refusal.contains("unknown field `payloads`, expected `payload`"), "{refusal}");
    // Of the JSON that the host made of the operator's TOML.
    assert!(!refusal.contains("column"), "{refusal}");
}
