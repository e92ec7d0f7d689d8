//! What a component may export and import.

use outhaul::domain::Outcome;
use serde_json::json;

use crate::harness::Plan;

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
