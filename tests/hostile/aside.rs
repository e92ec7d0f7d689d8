//! What runs aside of calls: ticks, checks and last words.

use std::time::Duration;

use outhaul::domain::{HostFailure, Outcome, Timestamp};
use outhaul::plugin::offline::Offline;
use outhaul::plugin::spec::PluginSpec;
use outhaul::plugin::{Deliver, Runtime, RuntimeSettings, StatsSnapshot};

use crate::lane::{Lane, call, host_failure, reference, settings, spec};

async fn lane(misdeed: &str, change: impl FnOnce(&mut PluginSpec)) -> Lane {
    let mut spec = spec("hostile-exports");
    spec.settings_json = format!(r#"{{"misdeed":"{misdeed}"}}"#);
    change(&mut spec);
    Lane::load(spec).await
}

/// Waits for what the host counts.
async fn until(lane: &Lane, what: &str, is_so: impl Fn(&StatsSnapshot) -> bool) -> StatsSnapshot {
    let look = async {
        loop {
            let stats = lane.stats();
            if is_so(&stats) {
                return stats;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let looked = tokio::time::timeout(Duration::from_secs(60), look).await;
    looked.unwrap_or_else(|_| panic!("never: {what}; {:?}", lane.stats()))
}

#[tokio::test]
async fn an_idle_instance_is_ticked_and_keeps_what_it_knows() {
    // It asks for its next tick in 0 ms, and gets it after a second at the earliest.
    let begun = std::time::Instant::now();
    let lane = lane("none", |_| {}).await;
    assert!(reference(&lane.call("ok").await).starts_with("one, calls=1 ticks="));
    until(&lane, "two ticks", |stats| stats.ticks >= 2).await;
    assert!(begun.elapsed() >= Duration::from_millis(1900), "{:?}", begun.elapsed());
    let outcome = lane.call("ok").await;
    assert!(reference(&outcome).starts_with("one, calls=2 ticks="), "{outcome:?}");
    assert_eq!(lane.stats().instances_created, 1);
}

#[tokio::test]
async fn nothing_ticks_where_a_runtime_is_offline() {
    let offline = Some(Offline::alone(Timestamp::from_secs(1)));
    let runtime = Runtime::new(RuntimeSettings { offline, ..settings() }).unwrap();
    let alone = runtime.load(spec("hostile-exports")).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(alone.was_configured() && alone.exports().tick);
    // Loaded later, and ticked before this one is.
    let lane = lane("none", |_| {}).await;
    until(&lane, "two ticks", |stats| stats.ticks >= 2).await;
    assert_eq!(alone.stats().ticks, 0);
}

#[tokio::test]
async fn a_plugin_that_asks_for_its_next_tick_in_ages_is_ticked_once_meanwhile() {
    let (often, seldom) = (lane("none", |_| {}).await, lane("tick-asks-for-ever", |_| {}).await);
    until(&seldom, "the first tick", |stats| stats.ticks >= 1).await;
    until(&often, "three ticks", |stats| stats.ticks >= 3).await;
    assert_eq!(seldom.stats().ticks, 1);
}

#[tokio::test]
async fn no_tick_runs_while_a_call_does() {
    let lane = lane("none", |spec| spec.limits.call = Duration::from_millis(2_500)).await;
    // The only instance is busy past the time of its first tick, and past that of a second.
    let outcome = lane.call("spin").await;
    assert_eq!(host_failure(&outcome).0, HostFailure::Deadline);
    assert_eq!(lane.stats().ticks, 0);
}

#[tokio::test]
async fn a_tick_that_spins_hangs_or_traps_costs_its_instance_only() {
    for misdeed in ["tick-spins", "tick-hangs", "tick-traps"] {
        let lane = lane(misdeed, |spec| spec.limits.call = Duration::from_secs(2)).await;
        let stats = until(&lane, misdeed, |stats| stats.ticks_failed == 1).await;
        assert_eq!((stats.traps, stats.timeouts), (0, 0), "no call failed");
        // A call that comes while the tick still holds the only place waits for it.
        assert_eq!(reference(&lane.call("ok").await), "one, calls=1 ticks=0 payload=2");
        assert_eq!(lane.plugin.unready(), None);
    }
}

#[tokio::test]
async fn a_check_says_what_the_plugin_says_and_takes_an_instance_of_its_own() {
    let lane = lane("none", |_| {}).await;
    assert_eq!(lane.call("ok").await.kind(), "delivered");
    assert_eq!(lane.plugin.check().await, Some(Ok(())));
    assert!(reference(&lane.call("ok").await).starts_with("one, calls=2 "));
    assert_eq!(lane.stats().instances_created, 2);
    let stats = until(&lane, "the check's instance closed", |stats| stats.closes == 1).await;
    assert_eq!((stats.checks, stats.checks_failed, stats.calls), (1, 0, 2));

    assert_eq!(Lane::load(spec("noop")).await.plugin.check().await, None);
}

#[tokio::test]
async fn a_check_that_fails_hangs_spins_or_traps_is_bounded_and_costs_no_call() {
    for (misdeed, kind, words) in [
        ("check-fails", "unavailable", "nothing listens there"),
        ("check-hangs", "deadline", "2000 ms"),
        ("check-spins", "deadline", "budget"),
        ("check-traps", "trap", "it will not check"),
    ] {
        let lane = lane(misdeed, |spec| spec.limits.call = Duration::from_secs(2)).await;
        let outcome = lane.plugin.check().await.unwrap().unwrap_err();
        assert_eq!(outcome.kind(), kind);
        let message = &outcome.detail().unwrap().message;
        assert!(message.contains(words) || message.contains("limits.call"), "{misdeed}: {message}");
        assert!(lane.call("ok").await.is_success());
        assert_eq!((lane.stats().checks_failed, lane.plugin.unready()), (1, None));
    }
}

#[tokio::test]
async fn an_instance_dropped_in_good_order_has_a_last_word() {
    let lane = lane("none", |spec| spec.limits.calls_per_instance = 2).await;
    for _ in 0..4 {
        assert!(lane.call("ok").await.is_success());
    }
    until(&lane, "two were used up", |stats| stats.closes == 2).await;
    assert!(lane.call("ok").await.is_success());
    // A drain, or another generation.
    lane.plugin.retire().await;
    let stats = lane.stats();
    assert_eq!((stats.closes, stats.closes_failed), (3, 0));
    assert_eq!(stats.instances_dropped, stats.instances_created);
    assert_eq!(lane.plugin.idle_instances(), 0);
    // A call under way at a reload still finds an instance, which goes right after it.
    assert!(lane.call("ok").await.is_success());
    until(&lane, "the late one", |stats| stats.closes == 4).await;
}

#[tokio::test]
async fn a_close_that_hangs_spins_or_traps_keeps_nothing_waiting_for_long() {
    for misdeed in ["close-hangs", "close-spins", "close-traps"] {
        let lane = lane(misdeed, |spec| {
            spec.limits.calls_per_instance = 1;
            spec.limits.call = Duration::from_secs(2);
        })
        .await;
        for n in 1..=3 {
            let outcome = lane.plugin.deliver(call("ok", &[])).await;
            assert!(matches!(outcome, Outcome::Delivered(_)), "{misdeed} {n}: {outcome:?}");
        }
        lane.plugin.retire().await;
        let stats = lane.stats();
        assert_eq!((stats.closes, stats.closes_failed), (3, 3), "{misdeed}");
        assert_eq!(stats.instances_dropped, 3);
    }
}
