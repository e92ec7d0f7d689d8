//! Payloads: who waits for memory, and what becomes of one that can't be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use outhaul::domain::DeadReason;
use outhaul::store::{DeliveryStatus, LaneState, Operate, Store as _, StoreError};

use crate::host::Host;
use crate::plugin::{Act, script};
use crate::weather::Fate;
use crate::world::{SimLane, World, fast_retries, simulate};

#[test]
fn a_large_payload_that_waits_for_memory_is_not_overtaken_for_ever_by_its_lanes_small_ones() {
    simulate(async {
        // Eight small ones hold memory, each for another time, so that some are always held.
        let busy =
            SimLane::new("a", script(|call| Act::deliver(5 + u64::try_from(call.event.seq.0 % 7).unwrap())));
        let world = World::new(1, vec![busy]).await;
        let mut events: Vec<_> = (0..401).map(|_| world.event(0)).collect();
        events[4].payload = vec![0; 1_000];
        let seqs = world.insert(&events).await;
        let ids: Vec<_> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
        let _host = Host::start_with(&world, "one", |settings| settings.payload_budget_bytes = 1_000).await;
        world.until_finished(&ids[4..5]).await;
        // Those that held memory before it, and no more than could be claimed beside it.
        let before = world.count(DeliveryStatus::Delivered) - 1;
        assert!(before <= 16, "{before} others went first");
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
    });
}

#[test]
fn a_payload_that_cannot_be_read_ends_as_a_dead_letter_and_costs_its_neighbours_nothing() {
    simulate(async {
        let lane = SimLane::new("a", script(|_| Act::deliver(1))).with(|lane| lane.retry = fast_retries(3));
        let world = World::new(1, vec![lane]).await;
        let host = Host::start(&world, "one").await;
        // The fifth row is broken: a statement that touches it fails.
        host.line.set_read_rule(|events| {
            let is_broken = events.iter().any(|event| event.0 == 5);
            (Duration::ZERO, is_broken.then(|| StoreError::Fault("invalid page in block 7".to_owned())))
        });
        let mut ids = world.emit(0, 20).await;
        world.until_finished(&ids).await;
        let broken = ids.remove(4);
        world.assert_delivered(&ids, 1);
        assert!(ids.iter().all(|id| world.row(*id).attempts == 1));
        let row = world.row(broken);
        assert_eq!((row.attempts, row.lost, row.status), (3, 0, DeliveryStatus::Dead));
        assert_eq!(row.disposition.as_deref(), Some(DeadReason::AttemptsExhausted.as_str()));
        assert!(row.last_error.unwrap().contains("invalid page in block 7"));
        assert_eq!(world.watch.account(broken).fences.len(), 0);
        let history = world.model.show("", "e4").await.unwrap().expect("the event").attempts;
        let outcomes: Vec<_> = history.iter().map(|row| (row.outcome.as_str(), row.uncertain)).collect();
        assert_eq!(outcomes, [("payload-unreadable", false); 3]);
        let lanes = world.model.lanes(&[world.lane_id(0)]).await.unwrap();
        assert_eq!((lanes[0].state, lanes[0].pauses), (LaneState::Active, 0));
    });
}

#[test]
fn payloads_that_are_too_much_for_one_statement_on_a_slow_link_are_read_singly() {
    simulate(async {
        let world = World::new(1, vec![SimLane::new("a", script(|_| Act::deliver(1)))]).await;
        let host = Host::start(&world, "one").await;
        // A statement ends after half a second: two fit.
        host.line.set_read_rule(|events| (Duration::from_millis(200) * events.len() as u32, None));
        let ids = world.emit(0, 20).await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        assert!(ids.iter().all(|id| world.row(*id).attempts == 1));
    });
}

#[test]
fn a_database_that_answers_nothing_burns_no_attempt_of_a_payload_that_waits() {
    simulate(async {
        let lane = SimLane::new("a", script(|_| Act::deliver(1))).with(|lane| lane.retry = fast_retries(1));
        let world = World::new(1, vec![lane]).await;
        let host = Host::start(&world, "one").await;
        // Renewals are let through, or the claims would end with their leases.
        let reads = Arc::new(AtomicU32::new(0));
        let counted = reads.clone();
        host.line.weather.set_rule(move |statement| {
            counted.fetch_add(u32::from(statement == "payloads"), Relaxed);
            ["payloads", "now"].contains(&statement).then(|| Fate { fails_before: true, ..Fate::default() })
        });
        let ids = world.emit(0, 1).await;
        world.watch.until("ten reads failed", || reads.load(Relaxed) == 10).await;
        assert_eq!((world.row(ids[0]).attempts, world.count(DeliveryStatus::Pending)), (1, 1));
        host.line.weather.clear_rule();
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        assert_eq!(world.row(ids[0]).attempts, 1);
    });
}
