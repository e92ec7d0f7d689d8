//! Pauses, probes and stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use outhaul::domain::{HostFailure, Outcome, RetryPolicy};
use outhaul::store::{DeliveryStatus, HostRegistration, LaneState, Operate, Store as _, Takeover};

use crate::host::{Host, lane, lane_with};
use crate::plugin::{Act, detail, script, unavailable};
use crate::world::{SimLane, World, simulate};

fn state(host: &Host) -> LaneState {
    host.relay.status().lanes[0].view.as_ref().expect("a view").state
}

#[test]
fn a_destination_that_is_down_burns_no_attempts_and_gets_growing_probes_of_different_events() {
    simulate(async {
        let is_up = Arc::new(AtomicBool::new(false));
        let up = is_up.clone();
        let down = SimLane::new(
            "a",
            script(move |_| if up.load(Relaxed) { Act::deliver(1) } else { Act::fail(unavailable()) }),
        );
        let world = World::new(3, vec![down]).await;
        let ids = world.emit(0, 20).await;
        let one = Host::start(&world, "one").await;
        let _two = Host::start(&world, "two").await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        let calls: usize = ids.iter().map(|id| world.watch.account(*id).fences.len()).sum();
        // At most a first round on two hosts, then 1, 2, 4 … s between probes, half of it certain.
        assert!((10..=16 + 9).contains(&calls), "{calls} calls in two minutes");
        let most = ids.iter().map(|id| world.watch.account(*id).fences.len()).max();
        assert!(most <= Some(3), "the probes take turns: {most:?}");
        assert!(ids.iter().all(|id| world.row(*id).attempts == 0));
        assert_eq!(state(&one), LaneState::Paused);

        is_up.store(true, Relaxed);
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 20);
        assert!(ids.iter().all(|id| world.row(*id).attempts == 1));
        world.watch.assert_kept();
    });
}

#[test]
fn only_one_host_probes_a_paused_lane_and_with_one_event() {
    simulate(async {
        let mut calls = 0;
        let slow_to_fail = SimLane::new(
            "a",
            script(move |_| {
                calls += 1;
                let fail = Act::fail(unavailable());
                let takes = crate::plugin::Takes::Time(Duration::from_secs(if calls <= 1 { 0 } else { 3 }));
                Act { takes, ..fail }
            }),
        );
        let world = World::new(3, vec![slow_to_fail.with(|lane| lane.concurrency = 1)]).await;
        let ids = world.emit(0, 10).await;
        let _one = Host::start(&world, "one").await;
        let paused = || world.watch.trace().iter().any(|line| line.contains("Pause"));
        world.watch.until("the lane paused", paused).await;
        let _hosts = [Host::start(&world, "two").await, Host::start(&world, "three").await];
        for _ in 0..20 {
            world.watch.until("a call runs", || running(&world, &ids) > 0).await;
            assert_eq!(running(&world, &ids), 1);
            world.watch.until("it ended", || running(&world, &ids) == 0).await;
        }
        world.watch.assert_kept();
    });
}

fn running(world: &World, ids: &[crate::checks::DeliveryId]) -> u32 {
    ids.iter().map(|id| world.watch.account(*id).running).sum()
}

#[test]
fn one_event_that_always_draws_503_does_not_hold_its_lane() {
    simulate(async {
        let lane = SimLane::new(
            "a",
            script(|call| match call.event.seq.0 {
                1 => Act::fail(unavailable()),
                _ => Act::deliver(1),
            }),
        );
        let retries =
            RetryPolicy { max_attempts: 5, base: Duration::from_millis(100), ..RetryPolicy::default() };
        let world = World::new(3, vec![lane.with(|lane| lane.retry = retries)]).await;
        let ids = world.emit(0, 20).await;
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        assert_eq!(world.row(ids[0]).status, DeliveryStatus::Dead);
        assert_eq!(world.row(ids[0]).attempts, 5);
        world.assert_delivered(&ids[1..], 1);
    });
}

#[test]
fn an_operators_pause_holds_for_all_hosts_and_is_never_probed() {
    simulate(async {
        let world = World::new(3, vec![SimLane::new("a", script(|_| Act::deliver(1)))]).await;
        world.model.pause("a", "maintenance", "someone").await.unwrap();
        let ids = world.emit(0, 5).await;
        let _hosts = [Host::start(&world, "one").await, Host::start(&world, "two").await];
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(ids.iter().all(|id| world.watch.account(*id).claims == 0));
        world.model.resume("a", "someone").await.unwrap();
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
    });
}

#[test]
fn gone_and_misconfigured_stop_the_lane_for_all_hosts_until_a_resume() {
    for outcome in [Outcome::Gone(detail("410")), Outcome::Misconfigured(detail("401"))] {
        simulate(async {
            let is_fixed = Arc::new(AtomicBool::new(false));
            let fixed = is_fixed.clone();
            let lane = SimLane::new(
                "a",
                script(
                    move |_| {
                        if fixed.load(Relaxed) { Act::deliver(1) } else { Act::fail(outcome.clone()) }
                    },
                ),
            );
            let world = World::new(3, vec![lane]).await;
            let ids = world.emit(0, 40).await;
            let one = Host::start(&world, "one").await;
            let two = Host::start(&world, "two").await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!((state(&one), state(&two)), (LaneState::Stopped, LaneState::Stopped));
            let calls: usize = ids.iter().map(|id| world.watch.account(*id).fences.len()).sum();
            assert!((1..=16).contains(&calls), "{calls}");
            assert!(ids.iter().all(|id| world.row(*id).attempts == 0), "a stop costs no attempts");
            is_fixed.store(true, Relaxed);
            world.model.resume("a", "someone").await.unwrap();
            world.until_finished(&ids).await;
            assert_eq!(world.count(DeliveryStatus::Delivered), 40);
            world.watch.assert_kept();
        });
    }
}

#[test]
fn a_plugin_that_cannot_configure_stops_its_lane_on_that_host_only() {
    simulate(async {
        let lane_a = SimLane::new(
            "a",
            script(|_| Act::fail(Outcome::Host(HostFailure::Configure, detail("bad url")))),
        );
        let world = World::new(3, vec![lane_a]).await;
        let ids = world.emit(0, 10).await;
        let one = Host::start(&world, "one").await;
        let told = || one.relay.status().lanes[0].problem.is_some();
        world.watch.until("the host names the problem", told).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(state(&one), LaneState::Active, "other hosts may go on");
        let calls: usize = ids.iter().map(|id| world.watch.account(*id).fences.len()).sum();
        assert!(calls <= 8, "{calls}");
        let hosts = world.model.hosts().await.unwrap();
        let problems = &hosts.iter().find(|host| host.host == "one").unwrap().notes.problems;
        assert!(problems[0].problem.contains("as the script says"), "{problems:?}");
        // A new config gives it a plugin that works.
        one.relay.put_lane(lane_with(&world, "one", 0, script(|_| Act::deliver(1))));
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 10);
        assert_eq!(one.relay.status().lanes[0].problem, None);
    });
}

#[test]
fn a_lane_that_stopped_on_one_host_tries_again_at_each_resume() {
    simulate(async {
        let is_fixed = Arc::new(AtomicBool::new(false));
        let fixed = is_fixed.clone();
        let lane = SimLane::new(
            "a",
            script(move |_| match fixed.load(Relaxed) {
                true => Act::deliver(1),
                false => Act::fail(Outcome::Host(HostFailure::Configure, detail("key file"))),
            }),
        );
        let world = World::new(3, vec![lane.with(|lane| lane.concurrency = 1)]).await;
        let ids = world.emit(0, 10).await;
        let one = Host::start(&world, "one").await;
        let calls = || ids.iter().map(|id| world.watch.account(*id).fences.len()).sum::<usize>();
        for tries in 1..=3 {
            let stopped = || calls() == tries && one.relay.status().lanes[0].problem.is_some();
            world.watch.until("the host tries and names the problem", stopped).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!((calls(), state(&one)), (tries, LaneState::Active));
            is_fixed.store(tries == 3, Relaxed);
            assert!(world.model.resume("a", "someone").await.unwrap());
        }
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 10);
        assert!(ids.iter().all(|id| world.row(*id).attempts == 1), "the tries cost no attempts");
        assert_eq!(one.relay.status().lanes[0].problem, None);
        world.watch.assert_kept();
    });
}

#[test]
fn a_host_whose_config_is_current_again_starts_what_it_had_stopped_for_itself() {
    simulate(async {
        let is_fixed = Arc::new(AtomicBool::new(false));
        let fixed = is_fixed.clone();
        let lane = SimLane::new(
            "a",
            script(move |_| match fixed.load(Relaxed) {
                true => Act::deliver(1),
                false => Act::fail(Outcome::Misconfigured(detail("401"))),
            }),
        );
        let world = World::new(3, vec![lane]).await;
        let apply = |host: &str, digest: &str| HostRegistration {
            config_digest: digest.to_owned(),
            takeover: Takeover::UnlessCurrent,
            ..world.registration(host)
        };
        world.model.register(&apply("newer", "two")).await.unwrap();
        let ids = world.emit(0, 20).await;
        let old = Host::start(&world, "old").await;
        let told = || old.relay.status().lanes[0].problem.is_some();
        world.watch.until("the old host stops the lane for itself", told).await;
        is_fixed.store(true, Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 0);
        world.model.register(&apply("old", "one")).await.unwrap();
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 20);
        assert_eq!(old.relay.status().lanes[0].problem, None);
    });
}

#[test]
fn a_host_with_a_superseded_config_stops_a_lane_only_for_itself() {
    simulate(async {
        let lane = SimLane::new("a", script(|_| Act::fail(Outcome::Misconfigured(detail("401")))));
        let world = World::new(3, vec![lane]).await;
        let newer = HostRegistration {
            config_digest: "two".to_owned(),
            takeover: Takeover::UnlessCurrent,
            ..world.registration("newer")
        };
        world.model.register(&newer).await.unwrap();
        let ids = world.emit(0, 20).await;
        let old = Host::start(&world, "old").await;
        let told = || old.relay.status().lanes[0].problem.is_some();
        world.watch.until("the old host stops the lane for itself", told).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(old.relay.status().config_is_superseded);
        assert_eq!(state(&old), LaneState::Active, "the newer host goes on");
        let calls: usize = ids.iter().map(|id| world.watch.account(*id).fences.len()).sum();
        assert!((1..=8).contains(&calls), "{calls}");
        assert!(ids.iter().all(|id| world.row(*id).attempts == 0));
    });
}

#[test]
fn rejections_of_distinct_events_in_a_row_stop_the_lane_where_that_is_set() {
    for delivered_by_canary in [false, true] {
        rejected_in_a_row(delivered_by_canary);
    }
}

fn rejected_in_a_row(delivered_by_canary: bool) {
    simulate(async move {
        let lane = SimLane::new(
            "a",
            script(move |call| match call.event.seq.0 {
                1 | 2 | 4.. => Act::fail(Outcome::Rejected(detail("no"))),
                _ => {
                    call.went_to.note("a component", delivered_by_canary);
                    Act::deliver(1)
                }
            }),
        );
        let world = World::new(
            3,
            vec![lane.with(|lane| {
                lane.stop_after_rejections = 3;
                lane.concurrency = 1;
            })],
        )
        .await;
        let ids = world.emit(0, 10).await;
        let host = Host::start(&world, "one").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(state(&host), LaneState::Stopped);
        // Two, a success, three.
        assert_eq!(world.count(DeliveryStatus::Dead), 5);
        assert_eq!(world.count(DeliveryStatus::Delivered), 1);
        assert!(ids[6..].iter().all(|id| world.row(*id).attempts == 0));
    });
}

#[test]
fn a_prober_that_dies_blocks_nobody() {
    simulate(async {
        let mut calls = 0;
        let lane = SimLane::new(
            "a",
            script(move |_| {
                calls += 1;
                match calls {
                    1 => Act::fail(unavailable()),
                    2 => Act::hang(),
                    _ => Act::deliver(1),
                }
            }),
        );
        let world = World::new(3, vec![lane.with(|lane| lane.concurrency = 1)]).await;
        let ids = world.emit(0, 5).await;
        let one = Host::start(&world, "one").await;
        let probes = || ids.iter().map(|id| world.watch.account(*id).fences.len()).sum::<usize>() == 2;
        world.watch.until("the probe runs", probes).await;
        one.crash().await;
        let _two = Host::start(&world, "two").await;
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 5);
        world.watch.assert_kept();
    });
}

#[test]
fn a_removed_lane_claims_no_more_and_ends_what_it_has() {
    simulate(async {
        let world = World::new(3, vec![SimLane::new("a", script(|_| Act::deliver(500)))]).await;
        let ids = world.emit(0, 20).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        host.relay.remove_lane(world.lane_id(0));
        let ended = || host.relay.status().in_flight == 0;
        world.watch.until("all ended", ended).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 8);
        assert_eq!(world.model.rows().iter().filter(|row| row.attempts == 0).count(), 12);
        host.relay.put_lane(lane(&world, "one", 0));
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
    });
}
