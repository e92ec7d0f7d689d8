//! Drains, few connections, and a database that goes away.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use outhaul::relay::Drained;
use outhaul::store::{DeliveryStatus, Store as _};
use tokio::sync::Semaphore;

use crate::host::{Host, Line};
use crate::plugin::{Act, script, unavailable};
use crate::weather::Fate;
use crate::world::{LEASE, SimLane, World, by, fast_retries, simulate};

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
        let drained = drain.await.unwrap();
        assert_eq!(drained, Drained { interrupted: 2, left_leased: 0 });
        // They are due again after their back-off, well before their leases would have run out.
        world.until_finished(running).await;
        world.assert_delivered(waiting, 1);
        world.assert_delivered(running, 2);
        assert_eq!(next.relay.metrics().lost.get_or_create(&by("a")).get(), 0);
    });
}

#[test]
fn s40_restarts_in_the_middle_of_calls_use_attempts_and_make_no_suspects() {
    simulate(async {
        let lane = SimLane::new("a", script(|_| Act::hang())).with(|lane| {
            lane.call_budget = Duration::from_secs(100);
            lane.retry = fast_retries(4);
        });
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 3).await;
        for restart in 1..=4 {
            let host = Host::start(&world, &format!("host-{restart}")).await;
            // Suspects would run one at a time.
            world.until_running(&ids, 3).await;
            assert_eq!(host.drain().await, Drained { interrupted: 3, left_leased: 0 });
            for id in &ids {
                let row = world.row(*id);
                assert_eq!((row.attempts, row.lost, row.uncertain), (restart, 0, true), "{row:?}");
                assert_eq!((row.token, row.lease_until), (None, None), "{row:?}");
            }
        }
        let dead = ids.iter().map(|id| world.row(*id)).collect::<Vec<_>>();
        assert!(dead.iter().all(|row| row.status == DeliveryStatus::Dead), "{dead:?}");
        assert!(dead.iter().all(|row| row.disposition.as_deref() == Some("attempts exhausted")), "{dead:?}");
        world.watch.assert_kept();
    });
}

#[test]
fn s40_a_drain_without_a_database_ends_in_time_and_leaves_the_leases() {
    simulate(async {
        let lane = SimLane::new("a", script(|_| Act::hang())).with(|lane| {
            lane.call_budget = Duration::from_secs(100);
            lane.lease = LEASE * 10;
        });
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 2).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 2).await;
        host.line.weather.set_down(true);
        let from = world.now();
        assert_eq!(host.drain().await, Drained { interrupted: 2, left_leased: 2 });
        let settings = world.relay_settings("one");
        let took = world.now().since(from);
        assert!(took <= settings.drain + settings.store_timeout + Duration::from_millis(10), "{took:?}");
        assert!(ids.iter().all(|id| world.row(*id).token.is_some()));
        world.watch.assert_kept();
    });
}

#[test]
fn s40_an_interrupted_probe_leaves_the_pause_as_it_was() {
    simulate(async {
        let lane = SimLane::new(
            "a",
            script(|call| match call.fence.0 {
                1 => Act::fail(unavailable()),
                _ => Act::hang(),
            }),
        )
        .with(|lane| {
            lane.concurrency = 1;
            lane.call_budget = Duration::from_secs(100);
        });
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 1).await;
        let host = Host::start(&world, "one").await;
        let probed = || world.row(ids[0]).fence == 2 && world.watch.account(ids[0]).running == 1;
        world.watch.until("the probe runs", probed).await;
        let view = async || world.model.lanes(&[world.lane_id(0)]).await.unwrap().remove(0);
        let before = view().await;
        assert_eq!(host.drain().await, Drained { interrupted: 1, left_leased: 0 });
        let after = view().await;
        assert_eq!((after.state, after.pauses, after.epoch), (before.state, before.pauses, before.epoch));
        world.watch.assert_kept();
    });
}

#[test]
fn a_drain_waits_for_what_runs_and_loses_nothing() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(1_000)))]).await;
        let ids = world.emit(0, 30).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        assert_eq!(host.drain().await, Drained { interrupted: 0, left_leased: 0 });
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
        let none_open = || host.line.open.load(Relaxed) == 0;
        world.watch.until("no statement is open", none_open).await;
        world.until_running(&ids, 200).await;
        permits.add_permits(400);
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        assert!(host.line.most_open.load(Relaxed) <= 4);
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
        let before = host.line.statements.load(Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = host.line.statements.load(Relaxed) - before;
        assert!(asked <= 400, "{asked} statements in a minute of refusals");
        host.line.weather.clear_rule();
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 20);
        world.watch.assert_kept();
    });
}
