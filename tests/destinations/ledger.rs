//! What the tests of the ledger's destinations share: the plugin on a database, and events for it.

use bytes::Bytes;
use outhaul::domain::{Detail, Outcome};
use outhaul::plugin::Call;
use outhaul_tests::databases::Database;
use outhaul_tests::harness::{Lane, Plan, call};
use serde_json::Value;

pub fn plan(component: &str, database: &Database, settings: Value) -> Plan {
    Plan::of(component, settings).change(|spec| {
        spec.sql.insert("shop".to_owned(), database.grant());
        spec.concurrency = 4;
    })
}

pub fn event(id: &str, topic: &str, payload: &str) -> Call {
    let mut call = call(payload.as_bytes());
    call.event.id = id.to_owned();
    call.dedup_id = id.to_owned();
    call.event.topic = topic.to_owned();
    call.payload = Bytes::copy_from_slice(payload.as_bytes());
    call
}

pub async fn deliver(lane: &Lane, id: &str, topic: &str, payload: &str) -> Outcome {
    lane.deliver(event(id, topic, payload)).await
}

pub fn rejected(outcome: &Outcome) -> &Detail {
    let Outcome::Rejected(detail) = outcome else { panic!("{outcome:?} is no rejection") };
    detail
}
