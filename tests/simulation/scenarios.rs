//! Scenarios that broke others, by their numbers.

use std::sync::Arc;
use std::time::Duration;

use outhaul::domain::{DeadReason, HostFailure, Outcome, RetryPolicy};
use outhaul::relay::RelaySettings;
use outhaul::relay::metrics::ByDestination;
use outhaul::store::memory::Row;
use outhaul::store::{DeliveryStatus, OnDead, Operate, Order, Store as _};
use tokio::sync::Semaphore;

use crate::checks::DeliveryId;
use crate::host::{Host, Line};
use crate::plugin::{Act, Takes, detail, retry, script, trap};
use crate::weather::Fate;
use crate::world::{LEASE, POLL, SimLane, World, simulate};

fn by(destination: &str) -> ByDestination {
    ByDestination { destination: destination.to_owned() }
}

fn fast_retries(max_attempts: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, base: Duration::from_millis(10), ..RetryPolicy::default() }
}

#[test]
fn an_idle_host_delivers_an_event_within_milliseconds_of_its_commit() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(1)))]).await;
        let _host = Host::start(&world, "one").await;
        for _ in 0..5 {
            // Idle: the last question was answered a while ago.
            tokio::time::sleep(Duration::from_millis(400)).await;
            let committed = world.now();
            let ids = world.emit(0, 1).await;
            world.until_finished(&ids).await;
            let took = world.now().since(committed);
            // Question, claim, payload, call and acknowledgement take 1 to 2 ms each here.
            assert!(took <= Duration::from_millis(15), "{took:?}");
            world.assert_delivered(&ids, 1);
        }
    });
}

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
fn s8_a_lane_whose_calls_hang_does_not_slow_another() {
    simulate(async {
        let hanging = SimLane::new("a", script(|_| Act::hang()));
        let world = World::new(1, vec![hanging, SimLane::new("b", script(|_| Act::deliver(2)))]).await;
        let stuck = world.emit(0, 50).await;
        let _host = Host::start(&world, "one").await;
        world.until_running(&stuck, 8).await;
        for _ in 0..20 {
            let committed = world.now();
            let ids = world.emit(1, 1).await;
            world.until_finished(&ids).await;
            let took = world.now().since(committed);
            assert!(took <= Duration::from_millis(20), "{took:?}");
            world.assert_delivered(&ids, 1);
        }
    });
}

#[test]
fn s8_a_lane_that_hangs_on_large_payloads_leaves_others_memory() {
    simulate(async {
        let hanging = SimLane::new("a", script(|_| Act::hang()));
        let world = World::new(1, vec![hanging, SimLane::new("b", script(|_| Act::deliver(2)))]).await;
        let mut large = world.event(0);
        large.payload = vec![0; 1_000];
        let large = vec![world.lane_id(0), world.lane_id(0)].into_iter().zip({
            let mut second = world.event(0);
            second.payload = vec![0; 1_000];
            world.insert(&[large, second]).await
        });
        let large: Vec<_> = large.collect();
        let host = Host::start_with(&world, "one", |settings| settings.payload_budget_bytes = 1_000).await;
        world.until_running(&large, 1).await;
        let ids = world.emit(1, 20).await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        // The second large one waits for memory under a renewed lease and costs nothing.
        assert_eq!(host.relay.status().in_flight, 2);
        assert_eq!(world.watch.account(large[1]).fences.len(), 0);
    });
}

#[test]
fn s10_a_plugin_that_failed_to_load_is_named_and_the_others_deliver() {
    simulate(async {
        let mut broken = SimLane::new("a", script(|_| Act::deliver(1)));
        broken.unready = Some("the component imports outhaul:sql".to_owned());
        let world = World::new(1, vec![broken, SimLane::new("b", script(|_| Act::deliver(1)))]).await;
        let waiting = world.emit(0, 5).await;
        let ids = world.emit(1, 5).await;
        let host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        assert!(waiting.iter().all(|id| world.row(*id).attempts == 0));
        let status = host.relay.status();
        assert_eq!(status.lanes[0].problem.as_deref(), Some("the component imports outhaul:sql"));
        assert_eq!(status.lanes[1].problem, None);
        let hosts = world.model.hosts().await.unwrap();
        let told = hosts.iter().find(|host| host.host == "one").expect("registered");
        assert_eq!(told.problems[0].destination, "a");
    });
}

#[test]
fn s11_a_lower_sequence_that_commits_later_is_delivered() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(1)))]).await;
        let _host = Host::start(&world, "one").await;
        let mut late = world.model.begin();
        let seq = late.insert(&world.event(0)).unwrap();
        let mut rolled_back = world.model.begin();
        rolled_back.insert(&world.event(0)).unwrap();
        let higher = world.emit(0, 3).await;
        world.until_finished(&higher).await;
        drop(rolled_back);
        world.commit(late, &[seq]);
        let late = [(world.lane_id(0), seq)];
        world.until_finished(&late).await;
        world.assert_delivered(&late, 1);
        world.assert_delivered(&higher, 1);
        assert_eq!(world.model.rows().len(), 4);
    });
}

#[test]
fn s12_poison_at_the_head_of_the_order_does_not_starve_what_follows() {
    simulate(async {
        let lane = SimLane::new(
            "a",
            script(|call| if call.event.seq.0 <= 200 { Act::fail(trap()) } else { Act::deliver(1) }),
        );
        let world = World::new(1, vec![lane.with(|lane| lane.retry = fast_retries(12))]).await;
        let poison = world.emit(0, 200).await;
        let good = world.emit(0, 50).await;
        let _host = Host::start(&world, "one").await;
        world.until_finished(&good).await;
        world.assert_delivered(&good, 1);
        let spent = poison.iter().filter(|id| world.row(**id).status == DeliveryStatus::Dead).count();
        assert_eq!(spent, 0, "the good ones waited for poison to run out of attempts");
        world.until_finished(&poison).await;
        for id in &poison {
            let Row { attempts, status, disposition, .. } = world.row(*id);
            assert_eq!((attempts, status), (12, DeliveryStatus::Dead));
            assert_eq!(disposition.as_deref(), Some(DeadReason::AttemptsExhausted.as_str()));
        }
        world.watch.assert_kept();
    });
}

#[test]
fn s15_an_idle_host_with_a_hundred_destinations_asks_a_few_questions_a_second() {
    simulate(async {
        let lanes = (0..100).map(|n| SimLane::new(&format!("lane-{n}"), script(|_| Act::deliver(1))));
        let world = World::new(1, lanes.collect()).await;
        let host = Host::start(&world, "one").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let before = host.line.statements.load(std::sync::atomic::Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = host.line.statements.load(std::sync::atomic::Ordering::Relaxed) - before;
        // One question a second for all lanes; heartbeat, clock and sweep every five seconds.
        assert!((60..=60 + 3 * 13).contains(&asked), "{asked} statements in a minute");
    });
}

#[test]
fn s23_rows_that_failed_in_the_same_second_do_not_come_back_in_the_same_second() {
    simulate(async {
        let lane = SimLane::new(
            "a",
            script(|call| match call.attempt {
                1 => Act::fail(retry()),
                _ => Act::deliver(1),
            }),
        );
        let spread = RetryPolicy { base: Duration::from_secs(60), ..RetryPolicy::default() };
        let world = World::new(
            7,
            vec![lane.with(|lane| {
                lane.retry = spread;
                lane.concurrency = 400;
                lane.batch = 400;
            })],
        )
        .await;
        let ids = world.emit(0, 400).await;
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 2);
        let mut per_second = std::collections::BTreeMap::<i64, u32>::new();
        for id in &ids {
            *per_second.entry(world.watch.account(*id).began[1].0 / 1_000_000).or_default() += 1;
        }
        let most = per_second.values().max().copied().unwrap_or_default();
        assert!(per_second.len() > 50 && most <= 25, "{most} in one second of {}", per_second.len());
    });
}

#[test]
fn s40_a_drain_shorter_than_the_calls_gives_back_what_was_not_started_at_once() {
    simulate(async {
        let permits = Arc::new(Semaphore::new(0));
        let gate = permits.clone();
        let lane = SimLane::new(
            "a",
            script(move |call| match call.fence.0 {
                1 if call.event.seq.0 <= 2 => Act::deliver_when_permitted(&gate),
                _ => Act::deliver(1),
            }),
        );
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 8).await;
        // Memory for two payloads of one byte: the others are claimed and wait.
        let host = Host::start_with(&world, "one", |settings| settings.payload_budget_bytes = 2).await;
        world.until_running(&ids, 2).await;
        let (running, waiting) = ids.split_at(2);
        assert!(waiting.iter().all(|id| world.row(*id).attempts == 1));

        let drained_from = world.now();
        let drain = tokio::spawn(host.drain());
        let given_back = || waiting.iter().all(|id| world.row(*id).token.is_none());
        world.watch.until("the unstarted ones are given back", given_back).await;
        assert!(world.now().since(drained_from) <= Duration::from_millis(10));
        assert!(waiting.iter().all(|id| world.row(*id).attempts == 0));

        let next = Host::start(&world, "two").await;
        world.until_finished(waiting).await;
        assert!(world.now().since(drained_from) <= Duration::from_millis(50));
        assert_eq!(drain.await.unwrap().left_running, 2);
        // They kept their leases: the next host has them when those are over, and not before.
        assert!(running.iter().all(|id| world.row(*id).claimed_by.as_deref() == Some("one")));
        world.until_finished(running).await;
        world.assert_delivered(waiting, 1);
        world.assert_delivered(running, 2);
        assert_eq!(next.relay.metrics().lost.get_or_create(&by("a")).get(), 2);
    });
}

#[test]
fn a_drain_waits_for_what_runs_and_loses_nothing() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(1_000)))]).await;
        let ids = world.emit(0, 30).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        assert_eq!(host.drain().await.left_running, 0);
        assert_eq!(world.count(DeliveryStatus::Delivered), 8);
        assert!(world.model.rows().iter().all(|row| row.token.is_none()));
        world.watch.assert_kept();
    });
}

#[test]
fn s41_two_hundred_concurrent_deliveries_share_four_connections() {
    simulate(async {
        let permits = Arc::new(Semaphore::new(0));
        let gate = permits.clone();
        let lane = SimLane::new("a", script(move |_| Act::deliver_when_permitted(&gate))).with(|lane| {
            lane.concurrency = 200;
            lane.call_budget = Duration::from_secs(100);
        });
        let world = World::new(1, vec![lane]).await;
        world.model.register(&world.registration("one")).await.unwrap();
        let ids = world.emit(0, 400).await;
        let line = Line::plain(&world, "one");
        let line = Arc::new(Line { connections: Semaphore::new(4), ..line });
        let host = Host::start_on(&world, line, world.relay_settings("one"));
        world.until_running(&ids, 200).await;
        tokio::time::sleep(LEASE * 3).await;
        // If a running call held a connection, there would be no such moment.
        let none_open = || host.line.open.load(std::sync::atomic::Ordering::Relaxed) == 0;
        world.watch.until("no statement is open", none_open).await;
        world.until_running(&ids, 200).await;
        permits.add_permits(400);
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        assert!(host.line.most_open.load(std::sync::atomic::Ordering::Relaxed) <= 4);
    });
}

#[test]
fn s42_a_database_that_goes_away_for_half_a_minute_is_met_again_without_help() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(50)))]).await;
        let ids = world.emit(0, 100).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        host.line.weather.set_down(true);
        let down_from = world.now();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!host.relay.status().store_problems.is_empty());
        host.line.weather.set_down(false);
        world.until_finished(&ids).await;
        assert!(world.now().since(down_from) <= Duration::from_secs(40));
        world.watch.until("no problem is told", || host.relay.status().store_problems.is_empty()).await;
        for id in &ids {
            let calls = world.watch.account(*id).fences.len();
            let row = world.row(*id);
            assert_eq!(row.status, DeliveryStatus::Delivered);
            assert!(calls == 1 || (calls == 2 && row.attempts == 2), "{calls} calls: {row:?}");
        }
        let repeated = ids.iter().filter(|id| world.watch.account(**id).fences.len() == 2).count();
        assert!(repeated <= 16, "only what was in flight goes out again: {repeated}");
        world.watch.assert_kept();
    });
}

#[test]
fn s42_a_read_only_database_answers_questions_and_loses_nothing() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(50)))]).await;
        let ids = world.emit(0, 20).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        host.line.weather.set_rule(|statement| match statement {
            "lanes" | "payloads" | "now" => None,
            _ => Some(Fate { fails_before: true, ..Fate::default() }),
        });
        let before = host.line.statements.load(std::sync::atomic::Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = host.line.statements.load(std::sync::atomic::Ordering::Relaxed) - before;
        assert!(asked <= 400, "{asked} statements in a minute of refusals");
        host.line.weather.clear_rule();
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 20);
        world.watch.assert_kept();
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
fn a_payload_larger_than_its_destination_takes_is_a_dead_letter_and_is_never_read() {
    simulate(async {
        let lane = SimLane::new("a", script(|_| Act::deliver(1)));
        let world = World::new(1, vec![lane.with(|lane| lane.payload_bytes_max = 10)]).await;
        let mut large = world.event(0);
        large.payload = vec![b'x'; 11];
        let mut fits = world.event(0);
        fits.payload = vec![b'x'; 10];
        let seqs = world.insert(&[large, fits]).await;
        let ids: Vec<DeliveryId> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        let row = world.row(ids[0]);
        assert_eq!(row.disposition.as_deref(), Some(DeadReason::PayloadTooLarge.as_str()));
        assert!(row.last_error.unwrap().contains("11 bytes"));
        assert_eq!(world.watch.account(ids[0]).fences.len(), 0);
        world.assert_delivered(&ids[1..], 1);
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

#[test]
fn events_of_one_key_go_out_one_after_the_other_in_their_order() {
    simulate(async {
        for on_dead in [OnDead::Block, OnDead::Skip] {
            let lane = SimLane::new(
                "a",
                script(|call| match (call.event.seq.0 % 10, call.attempt) {
                    (3, 1) => Act::fail(retry()),
                    (7, _) if call.event.key.as_deref() == Some("k1") => {
                        Act::fail(Outcome::Rejected(detail("no")))
                    }
                    _ => Act::deliver(3),
                }),
            );
            let world = World::new(1, vec![lane.with(|lane| lane.order = Order::Key(on_dead))]).await;
            let mut events: Vec<_> = (0..40).map(|_| world.event(0)).collect();
            for (index, event) in events.iter_mut().enumerate() {
                event.key = Some(format!("k{}", index / 10));
            }
            let seqs = world.insert(&events).await;
            let ids: Vec<DeliveryId> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
            let _one = Host::start(&world, "one").await;
            let _two = Host::start(&world, "two").await;
            // Of the second key, the seventh event is rejected and what follows waits or does not.
            let (blocked, free): (Vec<_>, Vec<_>) =
                ids.iter().partition(|id| on_dead == OnDead::Block && (18..=20).contains(&id.1.0));
            world.until_finished(&free).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(blocked.len(), if on_dead == OnDead::Block { 3 } else { 0 });
            assert!(blocked.iter().all(|id| world.row(*id).attempts == 0));
            assert_eq!(world.count(DeliveryStatus::Dead), 1);
            assert_eq!(world.count(DeliveryStatus::Delivered), 39 - blocked.len());
            world.watch.assert_kept();
        }
    });
}

#[test]
fn a_retry_goes_out_when_it_is_due_and_not_at_the_next_poll() {
    simulate(async {
        let lane = SimLane::new(
            "a",
            script(|call| match call.attempt {
                1 => Act::fail(Outcome::Retry {
                    detail: detail("soon"),
                    after: Some(Duration::from_millis(200)),
                }),
                _ => Act::deliver(1),
            }),
        );
        let base = RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() };
        let world = World::new(1, vec![lane.with(|lane| lane.retry = base)]).await;
        let _host = Host::start_with(&world, "one", |settings: &mut RelaySettings| {
            settings.poll = Duration::from_secs(60);
        })
        .await;
        let ids = world.emit(0, 1).await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 2);
        let began = world.watch.account(ids[0]).began;
        let waited = began[1].since(began[0]);
        assert!(waited >= Duration::from_millis(200) && waited <= Duration::from_millis(260), "{waited:?}");
    });
}
