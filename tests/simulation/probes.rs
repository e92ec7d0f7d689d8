//! What a probe teaches of its paused lane, and what it does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use outhaul::domain::RetryPolicy;
use outhaul::store::{DeliveryStatus, LaneState, OnDead, Order};

use crate::checks::DeliveryId;
use crate::host::Host;
use crate::plugin::{Act, script, unavailable};
use crate::world::{SimLane, World, fast_retries, simulate};

/// How often a change of a lane was made.
fn changes(world: &World, what: &str) -> usize {
    let is_one = |line: &&String| line.contains(what) && line.ends_with("changed true");
    world.watch.trace().iter().filter(is_one).count()
}

fn calls(world: &World, ids: &[DeliveryId]) -> usize {
    ids.iter().map(|id| world.watch.account(*id).fences.len()).sum()
}

#[test]
fn a_second_outage_is_probed_ever_less_often_also_with_events_deferred_in_the_first() {
    simulate(async {
        let is_up = Arc::new(AtomicBool::new(false));
        let (up, mut called) = (is_up.clone(), 0);
        let lane = SimLane::new(
            "a",
            script(move |_| {
                called += 1;
                // One success between two outages; behind it, most events were deferred before it.
                if called == 8 || up.load(Relaxed) { Act::deliver(1) } else { Act::fail(unavailable()) }
            }),
        );
        let lane = lane.with(|lane| lane.concurrency = 1);
        let world = World::new(3, vec![lane]).await;
        let ids = world.emit(0, 10).await;
        let host = Host::start(&world, "one").await;
        world.watch.until("the first outage ended", || changes(&world, "Reopen") == 1).await;
        let before = calls(&world, &ids);
        tokio::time::sleep(Duration::from_secs(300)).await;

        assert_eq!(changes(&world, "Reopen"), 1, "no failed probe made the lane active");
        let view = host.relay.status().lanes[0].view.clone().expect("a view");
        assert_eq!(view.state, LaneState::Paused);
        // 1, 2, 4 … s between probes, half of it certain.
        let probes = calls(&world, &ids) - before;
        assert!((6..=12).contains(&probes), "{probes} calls in five minutes");
        assert_eq!(view.pauses as usize, probes, "each of them lengthened the pause");
        assert!(ids.iter().any(|id| world.row(*id).attempts > 0), "one of them was retried");

        is_up.store(true, Relaxed);
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 10);
        world.watch.assert_kept();
    });
}

#[test]
fn a_canary_that_delivers_during_an_outage_makes_it_cost_no_attempts() {
    simulate(async {
        let is_up = Arc::new(AtomicBool::new(false));
        let up = is_up.clone();
        let lane = SimLane::new(
            "a",
            script(move |call| {
                let is_canary = call.event.id.ends_with("-1");
                call.went_to.note(if is_canary { "canary" } else { "stable" }, is_canary);
                match is_canary {
                    // On its way while the stable component's event is deferred.
                    true => Act::deliver(100),
                    false if up.load(Relaxed) => Act::deliver(1),
                    false => Act::fail(unavailable()),
                }
            }),
        );
        let world = World::new(3, vec![lane]).await;
        let mut events: Vec<_> = (0..2).map(|_| world.event(0)).collect();
        events.iter_mut().enumerate().for_each(|(number, event)| event.id = format!("o-{number}"));
        let seqs = world.insert(&events).await;
        let ids: Vec<_> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
        let _host = Host::start(&world, "one").await;
        world.until_finished(&ids[1..]).await;
        let asked = || calls(&world, &ids[..1]);
        world.watch.until("it was probed with some more times", || asked() > 4).await;
        let row = world.row(ids[0]);
        assert!(row.attempts <= 1 && row.deferrals >= 4, "each ended attempt was given back: {row:?}");
        is_up.store(true, Relaxed);
        world.until_finished(&ids).await;
        world.watch.assert_kept();
    });
}

#[test]
fn a_probe_finds_the_head_of_its_key_behind_all_that_waits_for_it() {
    simulate(async {
        let lane = down_for_one_call(RetryPolicy::default()).with(|lane| {
            lane.order = Order::Key(OnDead::Block);
            // One search has time for some of the rows only, and another follows at once.
            lane.call_budget = Duration::from_millis(500);
        });
        let world = World::new(3, vec![lane]).await;
        let mut events: Vec<_> = (0..600).map(|_| world.event(0)).collect();
        events.iter_mut().for_each(|event| event.key = Some("k".to_owned()));
        let seqs = world.insert(&events).await;
        let ids: Vec<_> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
        let _host = Host::start_with(&world, "one", |settings| settings.poll = Duration::from_secs(60)).await;
        let until_answered = || changes(&world, "success: true") == 1;
        world.watch.until("the head was delivered", until_answered).await;
        assert_eq!(calls(&world, &ids), 2, "the head, twice");
        let began = world.watch.account(ids[0]).began;
        let waited = began[1].since(began[0]);
        assert!(waited < Duration::from_secs(10), "{waited:?}");
        assert!(changes(&world, "DropProbe") > 0, "no search is longer than its part of the lease");
        world.watch.assert_kept();
    });
}

/// Pauses a lane by its first event, probes it with the second, which never reaches the plugin, and
/// asserts that the third is the next probe at once.
async fn assert_passes_by(world: &Arc<World>, ids: &[DeliveryId]) {
    let until_answered = || changes(world, "success: true") == 1;
    world.watch.until("a probe succeeded", until_answered).await;
    assert_eq!(calls(world, &ids[1..2]), 0, "it never reached the plugin");
    assert_eq!(changes(world, "DropProbe"), 1, "it was the first probe");
    assert_eq!(changes(world, "Pause"), 1, "it lengthened no pause");
    assert_eq!(changes(world, "success: false"), 0, "nor did it make the lane active");
    let began = |id: &DeliveryId| world.watch.account(*id).began[0];
    let waited = began(&ids[2]).since(began(&ids[0]));
    assert!(waited < Duration::from_secs(2), "the pause and nothing more: {waited:?}");
    world.until_finished(ids).await;
    assert_eq!(world.row(ids[1]).status, DeliveryStatus::Dead);
    assert_eq!(world.count(DeliveryStatus::Delivered), 2);
    world.watch.assert_kept();
}

fn down_for_one_call(retry: RetryPolicy) -> SimLane {
    let mut called = 0;
    let lane = SimLane::new(
        "a",
        script(move |_| {
            called += 1;
            if called == 1 { Act::fail(unavailable()) } else { Act::deliver(1) }
        }),
    );
    lane.with(|lane| {
        lane.concurrency = 1;
        lane.payload_bytes_max = 10;
        lane.retry = retry;
    })
}

#[test]
fn an_event_that_is_too_large_to_send_is_no_answer_to_a_probe() {
    simulate(async {
        let world = World::new(3, vec![down_for_one_call(RetryPolicy::default())]).await;
        let mut events: Vec<_> = (0..3).map(|_| world.event(0)).collect();
        events[1].payload = vec![0; 11];
        let seqs = world.insert(&events).await;
        let ids: Vec<_> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
        let _host = Host::start_with(&world, "one", |settings| settings.poll = Duration::from_secs(60)).await;
        assert_passes_by(&world, &ids).await;
    });
}

#[test]
fn an_event_without_a_payload_is_no_answer_to_a_probe() {
    simulate(async {
        let retry = fast_retries(2);
        let world = World::new(3, vec![down_for_one_call(retry)]).await;
        let ids = world.emit(0, 3).await;
        let host = Host::start_with(&world, "one", |settings| settings.poll = Duration::from_secs(60)).await;
        host.line.without_payload.lock().unwrap().push(ids[1].1);
        assert_passes_by(&world, &ids).await;
    });
}
