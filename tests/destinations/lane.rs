//! The guest `sql` with databases granted, and what it finds.

use bytes::Bytes;
use outhaul::domain::{Outcome, Receipt};
use outhaul::plugin::spec::{PluginSpec, SqlGrant};
use outhaul_tests::harness::{Lane, Plan, call};
use serde_json::{Value, json};

/// A lane that may use the database under the name `db`.
pub async fn lane(grant: SqlGrant) -> Lane {
    lane_with(grant, |_| {}).await
}

pub async fn lane_with(grant: SqlGrant, change: impl FnOnce(&mut PluginSpec)) -> Lane {
    let plan = Plan::of("sql", json!({})).change(|spec| {
        spec.sql.insert("db".to_owned(), grant);
        spec.limits.reference_bytes = 64 << 10;
        change(spec);
    });
    plan.load().await
}

/// What came of each step.
pub async fn steps(lane: &Lane, steps: Value) -> Vec<Value> {
    found(&send(lane, steps).await)
}

pub async fn send(lane: &Lane, steps: Value) -> Outcome {
    lane.send(steps.to_string().as_bytes()).await
}

/// The same of another database than `db`.
pub async fn steps_in(lane: &Lane, name: &str, steps: Value) -> Vec<Value> {
    let mut call = call(b"");
    call.event.key = Some(name.to_owned());
    call.payload = Bytes::from(steps.to_string());
    found(&lane.deliver(call).await)
}

fn found(outcome: &Outcome) -> Vec<Value> {
    let Outcome::Delivered(Receipt { reference: Some(text) }) = outcome else { panic!("{outcome:?}") };
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// One transaction of these steps, committed.
pub async fn committed(lane: &Lane, inner: &[Value]) -> Vec<Value> {
    let all: Vec<Value> = [&[json!(["begin"])], inner, &[json!(["commit"])]].concat();
    let mut found = steps(lane, all.into()).await;
    assert_eq!((&found[0], found.last()), (&json!("begun"), Some(&json!("committed"))), "{found:?}");
    found.pop();
    found.remove(0);
    found
}

/// The kind of an error, and the whole of it.
pub fn kind(found: &Value) -> &str {
    found[0].as_str().unwrap_or_else(|| panic!("{found} is no error"))
}

/// Its sentence.
pub fn sentence(found: &Value) -> &str {
    let last = found.as_array().and_then(|words| words.last()).and_then(Value::as_str);
    last.unwrap_or_else(|| panic!("{found} is no error"))
}
