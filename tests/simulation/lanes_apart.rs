//! What one lane does to another, and what waits behind what.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use outhaul::domain::{DeadReason, Outcome, RetryPolicy};
use outhaul::relay::RelaySettings;
use outhaul::store::memory::Row;
use outhaul::store::{DeliveryStatus, OnDead, Operate, Order};

use crate::checks::DeliveryId;
use crate::host::Host;
use crate::plugin::{Act, detail, retry, script, trap};
use crate::world::{SimLane, World, fast_retries, simulate};

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
        assert_eq!(told.notes.problems[0].destination, "a");
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
        let before = host.line.statements.load(Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = host.line.statements.load(Relaxed) - before;
        // One question a second for all lanes; heartbeat, clock and sweep every five seconds.
        assert!((60..=60 + 3 * 13).contains(&asked), "{asked} statements in a minute");
    });
}

#[test]
fn s15_a_lane_that_cannot_run_here_keeps_no_host_busy_with_looking() {
    simulate(async {
        let mut broken = SimLane::new("broken", script(|_| Act::deliver(1)));
        broken.unready = Some("it did not load".to_owned());
        let idle = SimLane::new("idle", script(|_| Act::deliver(1)));
        let world = World::new(1, vec![broken, idle]).await;
        world.emit(0, 20).await;
        let host = Host::start(&world, "one").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let before = host.line.statements.load(Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let asked = host.line.statements.load(Relaxed) - before;
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
