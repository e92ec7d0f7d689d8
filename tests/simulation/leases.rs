//! Leases, late results, and who may work on a delivery.

use std::sync::Arc;
use std::time::Duration;

use outhaul::domain::{DeadReason, HostFailure};
use outhaul::store::{DeliveryStatus, Operate, Store as _};
use tokio::sync::Semaphore;

use crate::host::{Host, Line};
use crate::plugin::{Act, Takes, script};
use crate::weather::Fate;
use crate::world::{LEASE, POLL, SimLane, World, by, fast_retries, simulate};

#[test]
fn s1_fifty_slow_calls_outlive_their_leases_and_each_goes_out_once() {
    simulate(async {
        let slow = SimLane::new("a", script(|_| Act::deliver(5_000)));
        let world = World::new(1, vec![slow]).await;
        let ids = world.emit(0, 50).await;
        let one = Host::start(&world, "one").await;
        let _two = Host::start(&world, "two").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        // Never more leased than could start: 8 on each host.
        assert_eq!(one.relay.metrics().lost.get_or_create(&by("a")).get(), 0);
        assert_eq!(one.relay.metrics().fenced.get_or_create(&by("a")).get(), 0);
    });
}

#[test]
fn s2_a_result_that_comes_too_late_is_fenced_and_the_event_still_runs_out_of_attempts() {
    simulate(async {
        let lane = SimLane::new("a", script(|_| Act::hang())).with(|lane| {
            lane.retry = fast_retries(3);
            lane.call_budget = Duration::from_secs(100);
        });
        let world = World::new(1, vec![lane]).await;
        let host = Host::start(&world, "one").await;
        // Renewals get lost, and the report of the dropped call arrives after the lease.
        host.line.weather.set_rule(|statement| match statement {
            "renew" => Some(Fate { fails_before: true, ..Fate::default() }),
            "acknowledge" => Some(Fate { before: Duration::from_millis(400), ..Fate::default() }),
            _ => None,
        });
        let ids = world.emit(0, 1).await;
        world.until_finished(&ids).await;
        let row = world.row(ids[0]);
        assert_eq!(row.disposition.as_deref(), Some(DeadReason::AttemptsExhaustedUnknown.as_str()));
        assert_eq!((row.attempts, row.lost, row.status), (3, 3, DeliveryStatus::Dead));
        let metrics = host.relay.metrics();
        assert_eq!(metrics.fenced.get_or_create(&by("a")).get(), 3);
        assert_eq!(metrics.lost_trust.get_or_create(&by("a")).get(), 3);
        let history = world.model.show("", "e0").await.unwrap().expect("the event").attempts;
        let outcomes: Vec<_> =
            history.iter().map(|row| (row.attempt, row.outcome.as_str(), row.uncertain)).collect();
        assert_eq!(outcomes, [(1, "lost-lease", true), (2, "lost-lease", true), (3, "lost-lease", true)]);
        world.watch.assert_kept();
    });
}

#[test]
fn s4_a_crashed_hosts_deliveries_go_out_again_within_lease_and_poll() {
    simulate(async {
        let never = Arc::new(Semaphore::new(0));
        let gate = never.clone();
        let lane = SimLane::new(
            "a",
            script(move |call| match call.attempt {
                1 if call.event.seq.0 <= 8 => Act::deliver_when_permitted(&gate),
                _ => Act::deliver(1),
            }),
        );
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 20).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        let crashed_at = world.now();
        host.crash().await;
        let _next = Host::start(&world, "two").await;
        world.until_finished(&ids).await;
        let (in_flight, others) = ids.split_at(8);
        world.assert_delivered(in_flight, 2);
        world.assert_delivered(others, 1);
        for id in in_flight {
            let began = world.watch.account(*id).began;
            let took_over_after = began[1].since(crashed_at);
            assert!(took_over_after <= LEASE + POLL, "{took_over_after:?}");
            assert_eq!(world.row(*id).attempts, 2);
        }
    });
}

#[test]
fn s7_a_second_host_that_starts_while_slow_deliveries_run_repeats_none() {
    simulate(async {
        let permits = Arc::new(Semaphore::new(0));
        let gate = permits.clone();
        let lane = SimLane::new("a", script(move |_| Act::deliver_when_permitted(&gate))).with(|lane| {
            lane.concurrency = 20;
            lane.call_budget = Duration::from_secs(100);
        });
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 20).await;
        let _one = Host::start(&world, "one").await;
        world.until_running(&ids, 20).await;
        let two = Host::start(&world, "two").await;
        // Ten leases later.
        tokio::time::sleep(LEASE * 10).await;
        permits.add_permits(20);
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        assert_eq!(two.relay.metrics().claimed.get_or_create(&by("a")).get(), 0);
    });
}

#[test]
fn a_claim_whose_answer_was_lost_costs_an_attempt_and_no_event() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(1)))]).await;
        let ids = world.emit(0, 4).await;
        let mut is_first = true;
        let line = Line::new(&world, "one");
        line.weather.set_rule(move |statement| {
            let loses = statement == "claim" && std::mem::take(&mut is_first);
            loses.then(|| Fate { fails_after: true, ..Fate::default() })
        });
        world.model.register(&world.registration("one")).await.unwrap();
        let _host = Host::start_on(&world, line, world.relay_settings("one"));
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        assert!(ids.iter().all(|id| (world.row(*id).attempts, world.row(*id).lost) == (2, 1)));
    });
}

#[test]
fn a_slow_reply_does_not_stretch_the_trust_in_a_lease() {
    // Told 0.4 s late, and no later renewal arrives. A claim's lease ends at 2.0 s and the call
    // would take effect at 2.1 s; a renewal's ends at 2.7 s and the call at 2.75 s.
    for (late, call_millis) in [("claim", 1_700), ("renew", 2_740)] {
        simulate(async {
            let lane = SimLane::new(
                "a",
                script(move |call| match call.attempt {
                    1 => Act::deliver(call_millis),
                    _ => Act::deliver(1),
                }),
            );
            let world = World::new(1, vec![lane]).await;
            let ids = world.emit(0, 1).await;
            let host = Host::start(&world, "one").await;
            let mut was_late = false;
            host.line.weather.set_rule(move |statement| match statement {
                _ if statement == late && !was_late => {
                    was_late = true;
                    Some(Fate { after: Duration::from_millis(400), ..Fate::default() })
                }
                "renew" => Some(Fate { fails_before: true, ..Fate::default() }),
                _ => None,
            });
            world.until_finished(&ids).await;
            world.assert_delivered(&ids, 2);
            assert_eq!(host.relay.metrics().lost_trust.get_or_create(&by("a")).get(), 1, "{late}");
        });
    }
}

#[test]
fn an_acknowledgement_that_gets_no_answer_is_sent_again_and_the_work_is_not() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(1)))]).await;
        let host = Host::start(&world, "one").await;
        let mut failures = 3;
        host.line.weather.set_rule(move |statement| {
            let fails = statement == "acknowledge" && failures > 0;
            failures -= i32::from(fails);
            fails.then(|| Fate { fails_before: true, ..Fate::default() })
        });
        let ids = world.emit(0, 5).await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        assert!(ids.iter().all(|id| world.row(*id).attempts == 1));
    });
}

#[test]
fn a_call_that_outlives_its_budget_ends_as_a_deadline() {
    simulate(async {
        let lane = SimLane::new(
            "a",
            script(|call| match call.attempt {
                1 => Act::hang(),
                _ => Act::deliver(1),
            }),
        );
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 1).await;
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 2);
        let history = world.model.show("", "e0").await.unwrap().expect("the event").attempts;
        assert_eq!(history[0].outcome, HostFailure::Deadline.as_str());
        assert!(history[0].uncertain);
    });
}

#[test]
fn without_renewal_a_call_has_what_is_left_of_its_lease() {
    simulate(async {
        let lane = SimLane::new(
            "a",
            script(|call| match call.attempt {
                1 => Act { takes: Takes::Time(Duration::from_secs(60)), ..Act::deliver(0) },
                _ => Act::deliver(1),
            }),
        );
        let world = World::new(
            1,
            vec![lane.with(|lane| {
                lane.renew = false;
                lane.call_budget = Duration::from_millis(1_900);
            })],
        )
        .await;
        let ids = world.emit(0, 1).await;
        let host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 2);
        assert_eq!(host.relay.metrics().lost_trust.get_or_create(&by("a")).get(), 1);
    });
}

#[test]
fn suspects_run_one_at_a_time_so_that_a_killer_is_found() {
    simulate(async {
        // Event 5 kills whatever process runs it; its neighbours run long enough to be hit.
        let lane = SimLane::new(
            "a",
            script(|call| match call.event.seq.0 {
                5 => Act::hang(),
                _ => Act::deliver(300),
            }),
        );
        let world = World::new(1, vec![lane.with(|lane| lane.retry = fast_retries(6))]).await;
        let ids = world.emit(0, 8).await;
        let killer = ids[4];
        let mut kills = 0;
        while world.row(killer).status == DeliveryStatus::Pending {
            let host = Host::start(&world, &format!("host-{kills}")).await;
            let struck = || {
                world.watch.account(killer).running == 1 || world.row(killer).status == DeliveryStatus::Dead
            };
            world.watch.until("the killer runs or is dead", struck).await;
            if world.watch.account(killer).running == 1 {
                if world.watch.account(killer).fences.len() > 2 {
                    let others = ids.iter().filter(|id| **id != killer);
                    let beside: u32 = others.map(|id| world.watch.account(*id).running).sum();
                    assert_eq!(beside, 0, "a suspect runs alone among suspects");
                }
                kills += 1;
                host.crash().await;
            }
        }
        assert_eq!(kills, 6);
        let row = world.row(killer);
        assert_eq!(row.disposition.as_deref(), Some(DeadReason::AttemptsExhaustedUnknown.as_str()));
        let neighbours: Vec<_> = ids.iter().copied().filter(|id| *id != killer).collect();
        let _host = Host::start(&world, "last").await;
        world.until_finished(&neighbours).await;
        for id in &neighbours {
            let row = world.row(*id);
            assert_eq!(row.status, DeliveryStatus::Delivered);
            assert!(row.lost <= 2, "its neighbours stop paying: {row:?}");
        }
        world.watch.assert_kept();
    });
}
