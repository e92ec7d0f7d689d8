//! The log plugin.

use outhaul::domain::Outcome;
use serde_json::json;

use crate::harness::Plan;

#[tokio::test]
async fn each_event_is_one_log_line_and_is_delivered() {
    let lane = Plan::of("log", json!({ "payload": true })).load().await;
    for _ in 0..3 {
        let outcome = lane.send(b"{\"n\":1}").await;
        assert!(matches!(outcome, Outcome::Delivered(_)), "{outcome:?}");
    }
    assert_eq!(lane.plugin.stats().log_lines, 3);
}
