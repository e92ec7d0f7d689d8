//! Guests that run or wait too long.

use std::time::Duration;

use outhaul::domain::HostFailure;
use outhaul::plugin::Deliver;

use crate::lane::{GUEST_THREADS, call, host_failure, hostile, reference};

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn s29_a_guest_that_spins_is_ended_by_its_budget_and_its_event_is_uncertain() {
    let lane = hostile(|spec| spec.limits.call = SHORT).await;
    let outcome = lane.call("spin").await;
    assert_eq!(host_failure(&outcome).0, HostFailure::Deadline);
    assert!(outcome.is_uncertain());
    assert_eq!(lane.stats().timeouts, 1);
}

#[tokio::test]
async fn s29_guests_that_spin_on_every_thread_do_not_stop_another_lane() {
    let spinning = hostile(|spec| spec.concurrency = GUEST_THREADS as u32).await;
    let healthy = hostile(|_| {}).await;
    let mut spins: Vec<_> = (0..GUEST_THREADS)
        .map(|_| {
            let plugin = spinning.plugin.clone();
            tokio::spawn(async move { plugin.deliver(call("spin", &[])).await })
        })
        .collect();
    while spinning.stats().calls < GUEST_THREADS as u64 {
        tokio::task::yield_now().await;
    }
    for n in 1..=20 {
        assert_eq!(reference(&healthy.call("remember").await), format!("calls={n}"));
    }
    for spin in &mut spins {
        assert!(!spin.is_finished(), "a guest stopped spinning by itself");
        spin.abort();
    }
}

#[tokio::test]
async fn s30_a_wait_in_the_host_is_ended_by_the_budget_too() {
    let lane = hostile(|spec| spec.limits.call = SHORT).await;
    let outcome = lane.call("sleep-past-budget").await;
    assert_eq!(host_failure(&outcome).0, HostFailure::Deadline);
    assert_eq!(reference(&lane.call("remember").await), "calls=1");
}

#[tokio::test]
async fn s33_the_first_the_second_and_the_third_call_of_an_instance_can_be_stopped() {
    for calls_before in 0..3 {
        let lane = hostile(|spec| spec.limits.call = SHORT).await;
        for n in 1..=calls_before {
            assert_eq!(reference(&lane.call("remember").await), format!("calls={n}"));
        }
        let outcome = lane.call("spin").await;
        assert_eq!(host_failure(&outcome).0, HostFailure::Deadline, "after {calls_before} calls");
        assert_eq!(lane.stats().instances_created, 1);
    }
}

#[tokio::test]
async fn a_call_dropped_while_its_guest_spins_or_waits_costs_one_instance_and_nothing_else() {
    let lane = hostile(|_| {}).await;
    for (n, misdeed) in ["spin", "sleep-past-budget", "spin", "sleep-past-budget"].iter().enumerate() {
        let plugin = lane.plugin.clone();
        let task = tokio::spawn(async move { plugin.deliver(call(misdeed, &[])).await });
        while lane.stats().calls < 2 * n as u64 + 1 {
            tokio::task::yield_now().await;
        }
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(reference(&lane.call("remember").await), "calls=1");
    }
    assert_eq!(lane.stats().cancelled, 4);
}
