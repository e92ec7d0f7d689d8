//! Batches that end badly: the outcome is every member's, the instance is gone, the next call finds
//! a fresh one.

use std::time::{Duration, Instant};

use outhaul::domain::{HostFailure, Outcome};
use outhaul::plugin::spec::PluginSpec;
use outhaul::plugin::{BatchLimits, Call, Deliver};

use crate::lane::{GUEST_THREADS, Lane, call, host_failure, reference, spec};

async fn lane(misdeed: &str, change: impl FnOnce(&mut PluginSpec)) -> Lane {
    let mut spec = spec("hostile-exports");
    spec.settings_json = format!(r#"{{"misdeed":"{misdeed}"}}"#);
    change(&mut spec);
    Lane::load(spec).await
}

fn batch(words: &[&str]) -> Vec<Call> {
    words.iter().map(|word| call(word, &[])).collect()
}

fn all_are(outcomes: &[Outcome], failure: HostFailure, words: &str) {
    for outcome in outcomes {
        let (found, detail) = host_failure(outcome);
        assert_eq!(found, failure, "{detail:?}");
        assert!(outcome.is_uncertain());
        assert!(detail.message.contains(words), "{detail:?}");
        assert!(detail.message.contains("retried singly"), "{detail:?}");
    }
}

#[tokio::test]
async fn a_batch_goes_out_in_one_call_and_each_event_has_its_own_outcome() {
    let lane = lane("none", |_| {}).await;
    assert_eq!(lane.plugin.batch_limits(), Some(BatchLimits { events: 100, bytes: 1 << 20 }));
    let outcomes = lane.plugin.deliver_batch(batch(&["ok", "reject", "retry", "ok"])).await;
    let kinds: Vec<_> = outcomes.iter().map(Outcome::kind).collect();
    assert_eq!(kinds, ["delivered", "rejected", "retry", "delivered"]);
    assert_eq!(reference(&outcomes[0]), "batch of 4, calls=1 ticks=0 payload=2");
    assert_eq!(reference(&lane.call("ok").await), "one, calls=2 ticks=0 payload=2");
    let stats = lane.stats();
    assert_eq!((stats.calls, stats.batches, stats.batched_events), (2, 1, 4));
}

#[tokio::test]
async fn a_plugin_without_batch_or_with_batches_of_one_delivers_singly() {
    let noop = Lane::load(spec("noop")).await;
    assert_eq!(noop.plugin.batch_limits(), None);
    let lane = lane("none", |spec| spec.limits.batch_events = 1).await;
    assert_eq!(lane.plugin.batch_limits(), None);
}

#[tokio::test]
async fn a_batch_answered_with_another_length_is_uncertain_for_all_and_costs_the_instance() {
    for (misdeed, words) in [
        ("batch-answers-one-less", "answered 2 results to a batch of 3"),
        ("batch-answers-one-more", "answered 4 results to a batch of 3"),
        ("batch-answers-nothing", "answered 0 results to a batch of 3"),
    ] {
        let lane = lane(misdeed, |_| {}).await;
        for n in 1..=3 {
            let outcomes = lane.plugin.deliver_batch(batch(&["ok"; 3])).await;
            assert_eq!(outcomes.len(), 3);
            all_are(&outcomes, HostFailure::WrongBatchLength, words);
            assert_eq!(lane.stats().wrong_batch_lengths, n);
            assert_eq!(lane.stats().instances_dropped, n);
        }
        assert_eq!(reference(&lane.call("ok").await), "one, calls=1 ticks=0 payload=2");
        assert_eq!(lane.stats().closes, 0, "an instance that broke has no last word");
    }
}

#[tokio::test]
async fn s31_a_batch_that_traps_on_its_third_event_is_uncertain_for_all_and_the_next_call_is_fresh() {
    let lane = lane("batch-traps-on-the-third", |_| {}).await;
    let outcomes = lane.plugin.deliver_batch(batch(&["ok"; 5])).await;
    all_are(&outcomes, HostFailure::Trap, "the third event of a batch");
    assert_eq!(lane.stats().traps, 1, "one call trapped, however many events it had");
    // Two are no third.
    assert!(lane.plugin.deliver_batch(batch(&["ok"; 2])).await.iter().all(Outcome::is_success));
    let begun = Instant::now();
    assert_eq!(reference(&lane.call("ok").await), "one, calls=2 ticks=0 payload=2");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn s29_s30_s33_the_first_the_second_and_the_third_batch_that_spins_or_sleeps_is_ended_by_its_budget() {
    for misdeed in ["batch-spins", "batch-sleeps"] {
        let lane = lane(misdeed, |spec| spec.limits.call = Duration::from_secs(1)).await;
        for n in 1..=3 {
            let outcomes = lane.plugin.deliver_batch(batch(&["ok"; 4])).await;
            assert_eq!(outcomes.len(), 4);
            all_are(&outcomes, HostFailure::Deadline, "budget");
            assert_eq!(lane.stats().timeouts, n);
        }
        assert!(lane.call("ok").await.is_success(), "an event alone is no batch");
    }
}

#[tokio::test]
async fn s29_batches_that_spin_on_every_thread_do_not_stop_another_lane() {
    let spinning = lane("batch-spins", |spec| spec.concurrency = GUEST_THREADS as u32).await;
    let healthy = lane("none", |_| {}).await;
    let mut spins: Vec<_> = (0..GUEST_THREADS)
        .map(|_| {
            let plugin = spinning.plugin.clone();
            tokio::spawn(async move { plugin.deliver_batch(batch(&["ok"; 3])).await })
        })
        .collect();
    while spinning.stats().calls < GUEST_THREADS as u64 {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        let outcomes = healthy.plugin.deliver_batch(batch(&["ok"; 3])).await;
        assert!(outcomes.iter().all(Outcome::is_success), "{outcomes:?}");
    }
    for spin in &mut spins {
        assert!(!spin.is_finished(), "a guest stopped spinning by itself");
        spin.abort();
    }
}

#[tokio::test]
async fn s32_batches_whose_instances_are_replaced_each_time_leave_none_behind() {
    let lane = lane("none", |spec| spec.limits.calls_per_instance = 1).await;
    for _ in 0..50 {
        assert!(lane.plugin.deliver_batch(batch(&["ok"; 3])).await.iter().all(Outcome::is_success));
    }
    lane.plugin.retire().await;
    let stats = lane.stats();
    assert_eq!((stats.instances_created, stats.instances_dropped), (50, 50));
    assert_eq!(stats.closes, 50);
}

#[tokio::test]
async fn a_dropped_batch_costs_one_instance_and_an_event_larger_than_the_limit_only_itself() {
    let lane = lane("none", |spec| spec.limits.payload_bytes = 10).await;
    let mut calls = batch(&["ok"; 3]);
    calls[1].payload = bytes::Bytes::from_static(&[b'x'; 11]);
    let outcomes = lane.plugin.deliver_batch(calls).await;
    assert_eq!(host_failure(&outcomes[1]).0, HostFailure::PayloadTooLarge);
    assert_eq!(reference(&outcomes[0]), "batch of 2, calls=1 ticks=0 payload=2");
    assert_eq!(reference(&outcomes[2]), "batch of 2, calls=1 ticks=0 payload=2");

    let dropped = lane.plugin.deliver_batch(batch(&["ok", "spin"]));
    let _ = tokio::time::timeout(Duration::from_millis(100), dropped).await;
    assert!(lane.call("ok").await.is_success());
    assert_eq!(lane.stats().cancelled, 1);
}

#[tokio::test]
async fn huge_answers_of_a_batch_are_cut_or_refused_and_the_host_lives() {
    let lane = lane("batch-answers-huge", |spec| spec.limits.memory_bytes = 512 << 20).await;
    let outcomes = lane.plugin.deliver_batch(batch(&["ok"; 3])).await;
    for outcome in &outcomes {
        match outcome {
            Outcome::Delivered(receipt) => assert!(receipt.reference.as_ref().unwrap().len() <= 1024),
            other => assert_eq!(host_failure(other).0, HostFailure::BadOutput),
        }
    }
    let outcomes = lane.plugin.deliver_batch(batch(&["ok"; 20])).await;
    outcomes.iter().for_each(|outcome| assert!(!outcome.is_success(), "200 MB in one answer were taken"));
    assert!(lane.call("ok").await.is_success());
}
