//! S25: the host is ended before and after the effect of each statement of a short life, and the
//! next one finds everything it needs in the rows.

use std::sync::Arc;
use std::time::Duration;

use outhaul::domain::{Outcome, RetryPolicy};
use outhaul::store::{DeliveryStatus, OnDead, Order, Store};

use crate::host::{Host, Line, Side};
use crate::plugin::{Act, detail, retry, script, unavailable};
use crate::world::{SimLane, World, simulate};

#[test]
fn s25_a_crash_between_any_two_steps_loses_no_event_and_no_count() {
    let mut cut = 0;
    for number in 0.. {
        let reached = [Side::Before, Side::After].map(|side| simulate(cut_at(number, side)));
        cut += reached.iter().filter(|reached| **reached).count();
        if !reached.contains(&true) {
            break;
        }
    }
    // Every kind of statement was among them, and many of most.
    assert!(cut > 60, "{cut} cut points");
}

/// Returns whether the life had so many statements.
async fn cut_at(number: u64, side: Side) -> bool {
    let retries = RetryPolicy { base: Duration::from_millis(50), ..RetryPolicy::default() };
    let keyed = SimLane::new(
        "a",
        script(|call| match (call.event.seq.0, call.attempt) {
            (1, 1) => Act::fail(retry()),
            (2, _) => Act::fail(Outcome::Rejected(detail("no"))),
            _ => Act::deliver(700),
        }),
    );
    let mut calls = 0;
    let flaky = SimLane::new(
        "b",
        script(move |_| {
            calls += 1;
            if calls <= 2 { Act::fail(unavailable()) } else { Act::deliver(5) }
        }),
    );
    let lanes = [keyed.with(|lane| lane.order = Order::Key(OnDead::Skip)), flaky];
    let lanes = lanes.map(|lane| lane.with(|lane| lane.retry = retries.clone())).to_vec();
    let world = World::new(5, lanes).await;
    let mut events: Vec<_> = (0..8).map(|index| world.event(index % 2)).collect();
    events.iter_mut().for_each(|event| event.key = Some("k".to_owned()));
    let mut adopted = world.model.begin();
    let orphan = adopted.insert_without_routing(&world.event(0)).unwrap();
    world.commit(adopted, &[orphan]);
    world.insert(&events).await;

    world.model.register(&world.registration("one")).await.unwrap();
    let line = Line { stop_at: Some((number, side)), ..Line::plain(&world, "one") };
    let line = Arc::new(line);
    let host = Host::start_on(&world, line.clone(), world.relay_settings("one"));
    let all_done = || {
        let rows = world.model.rows();
        rows.len() == 9 && rows.iter().all(|row| row.status != DeliveryStatus::Pending)
    };
    let reached = tokio::select! {
        biased;
        () = line.stopped.notified() => true,
        () = world.watch.until("all finished, or the cut", all_done) => false,
    };
    host.crash().await;
    let _next = Host::start(&world, "two").await;
    world.watch.until(&format!("all finished after a cut {side:?} {number}"), all_done).await;
    assert_eq!(world.count(DeliveryStatus::Delivered), 8, "cut {side:?} {number}");
    assert_eq!(world.count(DeliveryStatus::Dead), 1);
    // What was done twice is marked as such for whoever asks.
    for (id, account) in world.watch.accounts() {
        assert!(account.effects <= 2, "cut {side:?} {number}: {account:?}");
        assert!(account.effects < 2 || world.row(id).uncertain, "cut {side:?} {number}: {account:?}");
    }
    world.watch.assert_kept();
    reached
}
