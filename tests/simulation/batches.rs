//! Several deliveries in one call: what goes together, and what becomes of each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use outhaul::domain::{Detail, EventSeq, HostFailure, Outcome};
use outhaul::relay::Drained;
use outhaul::store::{DeliveryStatus, NewEvent, OnDead, Order};
use tokio::sync::Semaphore;

use crate::checks::DeliveryId;
use crate::host::Host;
use crate::plugin::{Act, detail, retry, script, unavailable};
use crate::world::{LEASE, SimLane, World, fast_retries, simulate};

/// The sizes of the batches a lane's plugin was given.
fn sizes(world: &World) -> Vec<usize> {
    world.lanes[0].batches.seen.lock().unwrap().iter().map(Vec::len).collect()
}

fn batched(world: &World) -> BTreeSet<EventSeq> {
    world.lanes[0].batches.seen.lock().unwrap().iter().flatten().copied().collect()
}

fn lane(act: impl FnMut(&outhaul::plugin::Call) -> Act + Send + 'static) -> SimLane {
    SimLane::new("a", script(act)).with(|lane| lane.retry = fast_retries(5)).in_batches_of(8, 1 << 20)
}

#[test]
fn what_is_claimed_at_once_goes_in_one_call_and_each_event_is_delivered_once() {
    simulate(async {
        let world = World::new(1, vec![lane(|_| Act::deliver(5))]).await;
        let ids = world.emit(0, 40).await;
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        // Eight at once by the lane's concurrency: the slots of a batch are free together.
        assert_eq!(sizes(&world), [8; 5]);
    });
}

#[test]
fn an_event_that_comes_alone_goes_at_once_and_alone() {
    simulate(async {
        let world = World::new(1, vec![lane(|_| Act::deliver(5))]).await;
        let _host = Host::start(&world, "one").await;
        for _ in 0..3 {
            let emitted_at = world.now();
            let ids = world.emit(0, 1).await;
            world.until_finished(&ids).await;
            assert!(world.now().since(emitted_at) <= Duration::from_millis(50));
        }
        assert_eq!(sizes(&world), [0; 0]);
    });
}

#[test]
fn a_batch_is_bounded_by_its_bytes_and_a_larger_event_goes_alone() {
    simulate(async {
        let world = World::new(1, vec![lane(|_| Act::deliver(5)).in_batches_of(8, 10)]).await;
        let events = [4, 4, 4, 11, 6].map(|bytes| NewEvent { payload: vec![b'x'; bytes], ..world.event(0) });
        let seqs = world.insert(&events).await;
        let ids: Vec<_> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
        let batches = world.lanes[0].batches.seen.lock().unwrap().clone();
        assert_eq!(batches, [vec![seqs[0], seqs[1]], vec![seqs[2], seqs[4]]]);
    });
}

#[test]
fn a_batch_holds_one_event_of_a_key() {
    for order in [Order::None, Order::Key(OnDead::Block)] {
        simulate(async {
            let world = World::new(1, vec![lane(|_| Act::deliver(5)).with(|lane| lane.order = order)]).await;
            let events: Vec<_> =
                (0..12).map(|n| NewEvent { key: Some(format!("k{}", n % 3)), ..world.event(0) }).collect();
            let seqs = world.insert(&events).await;
            let ids: Vec<_> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
            let _host = Host::start(&world, "one").await;
            world.until_finished(&ids).await;
            world.assert_delivered(&ids, 1);
            let batches = world.lanes[0].batches.seen.lock().unwrap().clone();
            assert!(!batches.is_empty());
            for batch in &batches {
                let keys: BTreeSet<_> = batch.iter().map(|seq| (seq.0 - seqs[0].0) % 3).collect();
                assert_eq!(keys.len(), batch.len(), "{batches:?}");
            }
        });
    }
}

#[test]
fn each_member_keeps_its_own_outcome() {
    simulate(async {
        let world = World::new(
            1,
            vec![lane(|call| match (call.event.seq.0 % 4, call.attempt) {
                (1, _) => Act::fail(Outcome::Rejected(detail("no"))),
                (2, 1) => Act::fail(retry()),
                _ => Act::deliver(1),
            })],
        )
        .await;
        let ids = world.emit(0, 8).await;
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        for id in &ids {
            let (row, calls) = (world.row(*id), world.watch.account(*id).fences.len());
            let expected = match id.1.0 % 4 {
                1 => (DeliveryStatus::Dead, 1),
                2 => (DeliveryStatus::Delivered, 2),
                _ => (DeliveryStatus::Delivered, 1),
            };
            assert_eq!((row.status, calls), expected, "{row:?}");
        }
        // A plugin's own `retry` leaves nothing uncertain: its next attempt may go together again.
        assert_eq!(sizes(&world), [8, 2]);
        world.watch.assert_kept();
    });
}

#[test]
fn a_batch_that_ends_by_the_hosts_word_is_uncertain_for_all_and_retried_singly() {
    for failure in [
        HostFailure::Trap,
        HostFailure::OutOfMemory,
        HostFailure::Deadline,
        HostFailure::BadOutput,
        HostFailure::WrongBatchLength,
    ] {
        simulate(async move {
            let mut lane = lane(|_| Act::deliver(1));
            lane.batches.end =
                Some(Arc::new(move |_| Some(Outcome::Host(failure, Detail::new(failure.as_str(), "asked")))));
            let world = World::new(1, vec![lane]).await;
            let ids = world.emit(0, 8).await;
            let _host = Host::start(&world, "one").await;
            world.until_finished(&ids).await;
            world.assert_delivered(&ids, 2);
            assert_eq!(sizes(&world), [8], "{failure:?}");
            assert!(ids.iter().all(|id| world.row(*id).attempts == 2));
        });
    }
}

#[test]
fn an_event_that_always_ends_its_call_dies_alone_and_its_neighbours_are_delivered() {
    simulate(async {
        let is_poison = |call: &outhaul::plugin::Call| call.event.seq.0 == 3;
        let trap = || Outcome::Host(HostFailure::Trap, detail("trap"));
        let mut lane = lane(move |call| if is_poison(call) { Act::fail(trap()) } else { Act::deliver(1) });
        lane.batches.end = Some(Arc::new(move |calls| calls.iter().any(is_poison).then(trap)));
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 24).await;
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        let (poison, others): (Vec<DeliveryId>, Vec<_>) = ids.iter().partition(|id| id.1.0 == 3);
        assert_eq!(world.row(poison[0]).status, DeliveryStatus::Dead);
        assert_eq!(world.row(poison[0]).attempts, 5);
        for id in others {
            assert_eq!(world.row(id).status, DeliveryStatus::Delivered);
            assert!(world.row(id).attempts <= 2);
        }
        assert_eq!(sizes(&world)[0], 8);
        assert_eq!(batched(&world).len(), 24, "each was in one batch");
        world.watch.assert_kept();
    });
}

#[test]
fn a_batch_whose_lease_is_lost_ends_for_all_and_is_retried_singly() {
    simulate(async {
        let lane = lane(|call| if call.fence.0 == 1 { Act::hang() } else { Act::deliver(1) }).with(|lane| {
            lane.renew = false;
            lane.call_budget = LEASE - Duration::from_millis(300);
        });
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 8).await;
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 2);
        assert_eq!(sizes(&world), [8]);
    });
}

#[test]
fn a_destination_that_is_unavailable_pauses_once_and_burns_no_attempt_of_a_batch() {
    simulate(async {
        let permits = Arc::new(Semaphore::new(0));
        let is_up = permits.clone();
        let act = move |_: &outhaul::plugin::Call| match is_up.available_permits() {
            0 => Act::fail(unavailable()),
            _ => Act::deliver(1),
        };
        let world = World::new(1, vec![lane(act)]).await;
        let ids = world.emit(0, 16).await;
        let _host = Host::start(&world, "one").await;
        let deferred = || ids.iter().filter(|id| world.row(**id).deferrals > 0).count() >= 8;
        world.watch.until("a batch is deferred", deferred).await;
        permits.add_permits(1);
        world.until_finished(&ids).await;
        assert!(ids.iter().all(|id| world.row(*id).attempts == 1), "deferrals give the attempt back");
        world.watch.assert_kept();
    });
}

#[test]
fn a_drain_lets_a_batch_end_and_gives_back_what_was_not_started() {
    simulate(async {
        let permits = Arc::new(Semaphore::new(0));
        let gate = permits.clone();
        let world = World::new(1, vec![lane(move |_| Act::deliver_when_permitted(&gate))]).await;
        let ids = world.emit(0, 20).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        let drain = tokio::spawn(host.drain());
        permits.add_permits(8);
        assert_eq!(drain.await.unwrap(), Drained { interrupted: 0, left_leased: 0 });
        assert_eq!(world.count(DeliveryStatus::Delivered), 8);
        assert!(world.model.rows().iter().all(|row| row.token.is_none()));
    });
}

#[test]
fn a_drain_shorter_than_a_batch_interrupts_all_of_it_and_they_go_singly_afterwards() {
    simulate(async {
        let lane = lane(|call| if call.fence.0 == 1 { Act::hang() } else { Act::deliver(1) });
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 8).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        assert_eq!(host.drain().await, Drained { interrupted: 8, left_leased: 0 });
        let _next = Host::start(&world, "two").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 2);
        assert_eq!(sizes(&world), [8]);
    });
}

#[test]
fn a_crash_in_a_batch_makes_its_members_go_singly_on_the_next_host() {
    simulate(async {
        let lane = lane(|call| if call.fence.0 == 1 { Act::hang() } else { Act::deliver(1) });
        let world = World::new(1, vec![lane]).await;
        let ids = world.emit(0, 8).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        host.crash().await;
        let _next = Host::start(&world, "two").await;
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 2);
        assert_eq!(sizes(&world), [8]);
    });
}
