//! What the hostile guest of each language does, and what comes of it: its component's name is the
//! only difference.

use std::time::Duration;

use crate::harness::{Lane, Plan, call, detail};
use outhaul::domain::{HostFailure, Outcome};
use outhaul::plugin::Deliver;
use outhaul_tests::alone::{Held, is_alone, run_alone};
use outhaul_tests::budget::from_env;
use serde_json::{Value, json};

use crate::records;

/// All of them as tests of one component.
macro_rules! survived {
    ($component:literal: $($misdeed:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $misdeed() {
            crate::engines::$misdeed($component).await;
        })*
    };
    ($component:literal) => {
        crate::engines::survived! { $component:
            an_exception_is_a_failure_with_its_message_and_costs_no_instance,
            endless_recursion_is_no_more_than_a_failure_or_a_trap,
            s28_a_flood_of_lines_is_bounded_and_each_is_one_record,
            s29_spinning_is_ended_by_the_budget_and_other_lanes_go_on,
            s30_waiting_is_ended_by_the_budget_too,
            s31_after_an_end_by_force_the_next_event_finds_a_fresh_instance,
            s32_instances_replaced_over_and_over_leave_no_mapping_and_no_memory_behind,
            s33_the_first_the_second_and_the_third_call_can_be_stopped,
            memory_without_end_is_out_of_memory_and_names_the_limit,
            a_leak_replaces_the_instance_before_it_runs_out,
            handles_without_end_are_a_trap,
            endless_texts_are_cut,
        }
    };
}
pub(crate) use survived;

const SHORT: Duration = Duration::from_millis(500);

async fn lane(component: &str, change: impl FnOnce(&mut outhaul::plugin::spec::PluginSpec)) -> Lane {
    Plan::of(component, json!({ "url": "http://127.0.0.1:1" })).change(change).load().await
}

async fn commit(lane: &Lane, order: Value) -> Outcome {
    lane.send(order.to_string().as_bytes()).await
}

async fn misdeed(lane: &Lane, name: &str) -> Outcome {
    commit(lane, json!({ "misdeed": name })).await
}

fn reference(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Delivered(receipt) => receipt.reference.as_deref().unwrap_or_default(),
        other => panic!("not delivered: {other:?}"),
    }
}

fn host_failure(outcome: &Outcome) -> HostFailure {
    match outcome {
        Outcome::Host(failure, _) => *failure,
        other => panic!("not the host's word: {other:?}"),
    }
}

async fn assert_fresh(lane: &Lane) {
    assert_eq!(reference(&misdeed(lane, "remember").await), "calls=1");
}

pub async fn an_exception_is_a_failure_with_its_message_and_costs_no_instance(component: &str) {
    records::keep();
    let plan = Plan::of(component, json!({ "url": "http://127.0.0.1:1" }));
    let destination = plan.spec.destination.clone();
    let lane = plan.load().await;
    let outcome = misdeed(&lane, "fail").await;
    assert_eq!(outcome.kind(), "other", "{outcome:?}");
    assert!(outcome.is_uncertain());
    assert_eq!(detail(&outcome).code, "exception");
    let message = &detail(&outcome).message;
    assert!(["KeyError: ", "NoSuchCustomer: "].iter().any(|name| message.starts_with(name)), "{message}");
    assert!(message.contains("no such customer: Zoë"), "{message}");
    // Where it was thrown is for the author, who reads the log.
    let written = records::of(&destination);
    let trace = written.iter().find(|(level, _)| level == "ERROR").map(|(_, text)| text.as_str());
    assert!(trace.is_some_and(|text| text.contains("answer") && text.lines().count() > 2), "{written:?}");
    assert_eq!(reference(&misdeed(&lane, "remember").await), "calls=2");
    assert_eq!(lane.stats().instances_created, 1);
}

pub async fn endless_recursion_is_no_more_than_a_failure_or_a_trap(component: &str) {
    let lane = lane(component, |_| {}).await;
    let outcome = misdeed(&lane, "recursion").await;
    assert!(["other", "trap"].contains(&outcome.kind()), "{outcome:?}");
    assert!(misdeed(&lane, "remember").await.is_success());
}

pub async fn s28_a_flood_of_lines_is_bounded_and_each_is_one_record(component: &str) {
    records::keep();
    // One line a second would let the test wait for time; nothing here is that slow.
    let plan = Plan::of(component, json!({ "url": "http://127.0.0.1:1" }));
    let plan = plan.change(|spec| spec.limits.log_lines_per_second = 20);
    let destination = plan.spec.destination.clone();
    let lane = plan.load().await;
    assert!(commit(&lane, json!({ "misdeed": "flood", "lines": 5_000 })).await.is_success());
    let flood: Vec<_> =
        records::of(&destination).into_iter().filter(|(_, text)| text.starts_with("line ")).collect();
    assert!(flood.len() < 500, "{} lines came out", flood.len());
    assert_eq!(flood[0].1, "line 0\nforged {}");
    let stats = lane.stats();
    assert!(stats.log_lines_dropped > 4_000, "{stats:?}");
}

pub async fn s29_spinning_is_ended_by_the_budget_and_other_lanes_go_on(component: &str) {
    let spinning = lane(component, |spec| spec.limits.call = SHORT).await;
    let healthy = lane(component, |_| {}).await;
    let spin = {
        let plugin = spinning.plugin.clone();
        let order = call(br#"{"misdeed":"spin"}"#);
        tokio::spawn(async move { plugin.deliver(order).await })
    };
    while spinning.stats().calls == 0 {
        tokio::task::yield_now().await;
    }
    for n in 1..=5 {
        assert_eq!(reference(&misdeed(&healthy, "remember").await), format!("calls={n}"));
    }
    let outcome = spin.await.expect("the task ends");
    assert_eq!(host_failure(&outcome), HostFailure::Deadline);
    assert!(outcome.is_uncertain());
    assert_eq!(spinning.stats().timeouts, 1);
}

pub async fn s30_waiting_is_ended_by_the_budget_too(component: &str) {
    let lane = lane(component, |spec| spec.limits.call = SHORT).await;
    let outcome = commit(&lane, json!({ "misdeed": "sleep", "ms": 60_000 })).await;
    assert_eq!(host_failure(&outcome), HostFailure::Deadline);
    assert!(outcome.is_uncertain());
}

pub async fn s31_after_an_end_by_force_the_next_event_finds_a_fresh_instance(component: &str) {
    let lane = lane(component, |spec| spec.limits.call = SHORT).await;
    for ends in 1..=2 {
        assert_eq!(host_failure(&misdeed(&lane, "spin").await), HostFailure::Deadline);
        assert_fresh(&lane).await;
        assert_eq!(lane.stats().instances_created, ends + 1);
    }
}

/// Some by force. In a process of its own, since it measures the process.
pub async fn s32_instances_replaced_over_and_over_leave_no_mapping_and_no_memory_behind(component: &str) {
    const WARM_UP: u64 = 40;
    const NAME: &str = "s32_instances_replaced_over_and_over_leave_no_mapping_and_no_memory_behind";
    if !is_alone() {
        let language = component.strip_prefix("hostile-").expect("the guest of a language");
        return run_alone(&format!("{language}::hostile::{NAME}")).await;
    }
    let lane = lane(component, |spec| spec.limits.calls_per_instance = 1).await;
    let replace = async |times: u64| {
        for n in 1..=times {
            match n % 10 {
                0 => assert_eq!(host_failure(&misdeed(&lane, "handles").await), HostFailure::Trap),
                _ => assert_fresh(&lane).await,
            }
        }
    };
    let replacements = from_env("OUTHAUL_ENGINE_REPLACEMENTS").unwrap_or(100);
    replace(WARM_UP).await;
    let before = Held::now();
    replace(replacements).await;
    let after = Held::now();
    println!("{component}: held before and after {replacements} replacements: {before:?} {after:?}");
    let stats = lane.stats();
    assert_eq!((stats.instances_dropped, stats.timeouts), (WARM_UP + replacements, 0));
    assert!(after.mappings <= before.mappings + 20, "{before:?} {after:?}");
    assert!(after.resident_bytes <= before.resident_bytes + (16 << 20), "{before:?} {after:?}");
}

pub async fn s33_the_first_the_second_and_the_third_call_can_be_stopped(component: &str) {
    for calls_before in 0..3 {
        let lane = lane(component, |spec| spec.limits.call = SHORT).await;
        for n in 1..=calls_before {
            assert_eq!(reference(&misdeed(&lane, "remember").await), format!("calls={n}"));
        }
        assert_eq!(host_failure(&misdeed(&lane, "spin").await), HostFailure::Deadline);
        assert_eq!(lane.stats().instances_created, 1);
    }
}

/// An engine that throws what it can't allocate has said so in its own way.
pub async fn memory_without_end_is_out_of_memory_and_names_the_limit(component: &str) {
    let lane = lane(component, |_| {}).await;
    let outcome = misdeed(&lane, "allocate").await;
    match outcome.kind() {
        "out-of-memory" => assert!(detail(&outcome).message.contains("limits.memory"), "{outcome:?}"),
        "other" => assert!(detail(&outcome).message.to_lowercase().contains("memory"), "{outcome:?}"),
        kind => panic!("{kind}: {outcome:?}"),
    }
    assert!(misdeed(&lane, "remember").await.is_success());
}

pub async fn a_leak_replaces_the_instance_before_it_runs_out(component: &str) {
    let lane = lane(component, |_| {}).await;
    for _ in 0..40 {
        assert!(commit(&lane, json!({ "misdeed": "leak", "bytes": 4 << 20 })).await.is_success());
    }
    let stats = lane.stats();
    assert_eq!((stats.out_of_memory, stats.traps), (0, 0));
    assert!((2..=20).contains(&stats.instances_created), "{} instances", stats.instances_created);
}

pub async fn handles_without_end_are_a_trap(component: &str) {
    let lane = lane(component, |_| {}).await;
    let outcome = misdeed(&lane, "handles").await;
    assert_eq!(host_failure(&outcome), HostFailure::Trap);
    assert_fresh(&lane).await;
}

pub async fn endless_texts_are_cut(component: &str) {
    let lane = lane(component, |spec| spec.limits.memory_bytes = 256 << 20).await;
    let outcome = misdeed(&lane, "big-reference").await;
    assert_eq!(reference(&outcome).len(), 1 << 10);
    let outcome = misdeed(&lane, "big-message").await;
    assert_eq!(outcome.kind(), "rejected");
    assert_eq!(detail(&outcome).message.len(), 2 << 10);
    assert_eq!(lane.stats().instances_created, 1);
}
