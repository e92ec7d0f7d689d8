//! What a component may export and import.

use outhaul::domain::Outcome;
use outhaul::plugin::{Exports, Need};
use outhaul_tests::guests::guest;
use serde_json::json;

use crate::harness::{Plan, runtime};

#[tokio::test]
async fn a_plugin_that_exports_everything_optional_delivers() {
    let lane = Plan::of("full", json!({})).load().await;
    let Outcome::Delivered(receipt) = lane.send(b"{}").await else { panic!("not delivered") };
    assert_eq!(receipt.reference.as_deref(), Some("one, ticks=0"));
}

#[tokio::test]
async fn a_capability_that_config_does_not_grant_is_refused_at_load_with_the_lines_to_add() {
    for (component, package, line) in
        [("wants-net", "outhaul:net", ".net."), ("wants-sql", "outhaul:sql", "sql = [")]
    {
        let refusal = Plan::of(component, json!({})).refusal().await;
        assert!(refusal.contains(package) && refusal.contains(line), "{component}: {refusal}");
    }
}

#[tokio::test]
async fn optional_exports_are_found_on_the_component_and_described_before_it_is_configured() {
    let lane = Plan::of("full", json!({})).load().await;
    let all = Exports { batch: true, describe: true, check: true, tick: true, close: true };
    assert_eq!(lane.plugin.exports(), all);
    let said = lane.plugin.description().unwrap().expect("it describes itself");
    assert_eq!((said.name.as_str(), said.attributes["language"].as_str()), ("full", "rust"));
    let needs: Vec<_> = said.needs.iter().map(|need| need.capability.as_str()).collect();
    assert_eq!(needs, ["http", "secret", "net", "sql"]);
    assert!(said.needs.iter().all(|need| need.optional));

    let lane = Plan::of("hostile-exports", json!({})).load().await;
    let said = lane.plugin.description().unwrap().expect("it describes itself");
    assert_eq!(said.attributes["configured"], "false");

    let lane = Plan::of("noop", json!({})).load().await;
    assert_eq!(lane.plugin.exports(), Exports::default());
    assert_eq!(lane.plugin.description(), Ok(None));
}

#[tokio::test]
async fn what_a_plugin_needs_and_is_not_granted_is_known_with_the_lines_to_add() {
    let lane = Plan::of("full", json!({})).reaching("http://127.0.0.1:1").load().await;
    let missing: Vec<_> = lane.plugin.ungranted().iter().map(|missing| &missing.need.capability).collect();
    assert_eq!(missing, ["secret", "net", "sql"]);
    assert!(lane.plugin.ungranted()[0].fix.contains(".secrets.signing]"), "{:?}", lane.plugin.ungranted());
}

#[tokio::test]
async fn an_import_called_optional_loads_without_a_grant_and_is_denied_at_the_call() {
    for (component, capability, line) in
        [("wants-net", "net", ".net.broker]"), ("wants-sql", "sql", "[sql.stock]")]
    {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.wasm");
        std::fs::copy(guest(component), &copy).unwrap();
        let describe = |optional: bool| {
            let needs = format!("[[needs]]\ncapability = \"{capability}\"\noptional = {optional}\n");
            let text = format!("name = \"copy\"\nversion = \"1\"\n{needs}");
            std::fs::write(folder.path().join("plugin.toml"), text).unwrap();
        };
        let plan = || Plan::of(component, json!({})).change(|spec| spec.component = copy.clone());
        describe(false);
        assert!(plan().refusal().await.contains("is not granted"));
        describe(true);
        let lane = plan().load().await;
        let need = Need { capability: capability.into(), optional: true, ..Need::default() };
        assert_eq!(lane.plugin.description().unwrap().unwrap().needs, [need]);
        let Outcome::Delivered(receipt) = lane.send(b"{}").await else { panic!("not delivered") };
        let reference = receipt.reference.unwrap();
        assert!(reference.contains("Denied") && reference.contains(line), "{reference}");
        assert!(lane.plugin.denied().contains(&(capability, 1)), "{:?}", lane.plugin.denied());
    }
}

#[tokio::test]
async fn a_component_is_inspected_without_a_destination() {
    let found = runtime().inspect(&guest("full")).await.unwrap();
    assert!(
        found.optional.batch && found.exports.iter().any(|name| name.starts_with("outhaul:delivery/tick@"))
    );
    assert!(found.imports.iter().any(|name| name.starts_with("outhaul:log/log@")), "{:?}", found.imports);
    assert_eq!(found.description.unwrap().unwrap().name, "full");
    assert_eq!(found.bytes, std::fs::metadata(guest("full")).unwrap().len());
    let found = runtime().inspect(&guest("wants-net")).await.unwrap();
    assert_eq!((found.description, found.digest.len()), (Ok(None), 64));
}
