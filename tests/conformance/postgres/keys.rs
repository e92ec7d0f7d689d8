//! Order by key under real concurrency: two hosts, producers and an operator at once. Whatever the
//! interleaving, one delivery of a key at a time, in the order of the commits, and none parked for
//! ever.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outhaul::domain::{DeadReason, DestinationId, Write};
use outhaul::store::postgres::{PostgresOptions, PostgresStore};
use outhaul::store::*;
use outhaul_tests::postgres::{TestDatabase, run};

use crate::scene::{Scene, answer, destination, keyed, registration};

const KEYS: usize = 4;
const EVENTS_PER_KEY: usize = 40;
/// Of each key, the operator cancels one.
const CANCELLED: usize = KEYS;

/// Its first host says nothing more of it, and its lease runs out.
const ABANDONED: usize = 20;
/// Rejected the first time, and redriven by the operator.
const REJECTED: usize = 30;

struct Stage {
    on_dead: OnDead,
    store: Arc<PostgresStore>,
    lane: DestinationId,
    /// The last number delivered of each key, and who is at work on it now.
    delivered: Mutex<BTreeMap<String, usize>>,
    at_work: Mutex<BTreeMap<String, String>>,
    count: AtomicUsize,
    has_cancelled: AtomicBool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_delivery_overtakes_its_key_and_none_is_parked_for_ever_where_the_dead_block() {
    play(OnDead::Block).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_delivery_overtakes_its_key_and_none_is_parked_for_ever_where_the_dead_are_skipped() {
    play(OnDead::Skip).await;
}

async fn play(on_dead: OnDead) {
    let database = TestDatabase::create().await;
    let store = Arc::new(PostgresStore::open(&PostgresOptions::new(database.url())).expect("open"));
    store.migrate().await.expect("migrate");
    let order = Order::Key(on_dead);
    let config = DestinationConfig { order, ..destination("shop", &["order.*"]) };
    let registered = store.register(&registration("host-a", "c1", vec![config])).await.expect("register");
    let lane = registered.destinations[0].1.expect("an id");
    let stage = Arc::new(Stage {
        on_dead,
        store: store.clone(),
        lane,
        delivered: Mutex::default(),
        at_work: Mutex::default(),
        count: AtomicUsize::new(0),
        has_cancelled: AtomicBool::new(false),
    });

    let mut tasks = Vec::new();
    for key in 0..KEYS {
        tasks.push(tokio::spawn(produce(stage.clone(), key)));
    }
    for worker in 0..6 {
        tasks.push(tokio::spawn(work(stage.clone(), worker)));
    }
    tasks.push(tokio::spawn(operate(stage.clone())));
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(120), task)
            .await
            .expect("no delivery is stuck")
            .expect("no panic");
    }
    let reports = store.lane_reports().await.expect("reports");
    assert_eq!((reports[0].pending, reports[0].dead), (0, 0));
    let all = store.deliveries(&DeliveryFilter { limit: 1_000, ..Default::default() }).await.expect("list");
    let count = |status| all.iter().filter(|row| row.status == status).count();
    assert_eq!(count(DeliveryStatus::Cancelled), CANCELLED);
    assert_eq!(count(DeliveryStatus::Delivered), KEYS * EVENTS_PER_KEY - CANCELLED);
    let abandoned = all.iter().filter(|row| row.event_id.ends_with(&format!("-{ABANDONED}")));
    assert_eq!(abandoned.map(|row| row.lost).collect::<Vec<_>>(), [1; KEYS]);
}

async fn produce(stage: Arc<Stage>, key: usize) {
    for number in 1..=EVENTS_PER_KEY {
        let event = keyed(&format!("{key}-{number}"), &format!("key-{key}"));
        stage.store.emit(&[event]).await.expect("emit");
    }
}

impl Stage {
    fn is_done(&self) -> bool {
        self.has_cancelled.load(Ordering::SeqCst)
            && self.count.load(Ordering::SeqCst) == KEYS * EVENTS_PER_KEY - CANCELLED
    }
}

async fn work(stage: Arc<Stage>, worker: usize) {
    let mut turn = worker;
    while !stage.is_done() {
        let request = ClaimRequest {
            order: Order::Key(stage.on_dead),
            limit: 3,
            max_attempts: 1_000,
            // What is cancelled under a lease, or abandoned, holds its key until then.
            lease: Duration::from_secs(5),
            ..super::request(stage.lane)
        };
        let claims = stage.store.claim(&request).await.expect("claim");
        for claimed in claims.claimed {
            turn += 1;
            deliver(&stage, &claimed, turn).await;
        }
    }
}

/// Ends a claim in one of the ways there are, by turns.
async fn deliver(stage: &Stage, claimed: &Claimed, turn: usize) {
    let key = claimed.event.key.clone().expect("a key");
    let before = stage.at_work.lock().expect("lock").insert(key.clone(), claimed.event.id.clone());
    assert_eq!(before, None, "{} while another of {key} was at work", claimed.event.id);
    tokio::task::yield_now().await;
    let (_, number) = claimed.event.id.split_once('-').expect("key and number");
    let number: usize = number.parse().expect("a number");
    // Before the answer: the next of the key may be claimed the moment it is recorded.
    stage.at_work.lock().expect("lock").remove(&key);
    match turn % 4 {
        _ if number == ABANDONED && claimed.lost == 0 => {}
        _ if number == REJECTED && claimed.claim.fence.0 == 1 => {
            let dead = answer(claimed, Write::Dead(DeadReason::Rejected));
            assert_eq!(stage.store.acknowledge(&[dead]).await.expect("acknowledge"), [Settled::Recorded]);
        }
        0 => {
            let settled = stage.store.release(&[claimed.claim]).await.expect("release");
            assert!(settled[0] == Settled::Recorded || number == 7, "{settled:?}");
        }
        1 => {
            let retry = answer(claimed, Write::Retry(Duration::ZERO));
            stage.store.acknowledge(&[retry]).await.expect("acknowledge");
        }
        _ => {
            let delivered = answer(claimed, Write::Delivered);
            if stage.store.acknowledge(&[delivered]).await.expect("acknowledge") == [Settled::Recorded] {
                stage.count.fetch_add(1, Ordering::SeqCst);
                // A redrive where the dead are skipped is out of order, and said to be.
                if !(number == REJECTED && stage.on_dead == OnDead::Skip) {
                    note_order(stage, &key, number);
                }
            } else {
                assert_eq!(number, 7, "only a cancelled delivery is fenced");
            }
        }
    }
}

/// Answers are recorded in order of the key; the notes of two workers may cross by one.
fn note_order(stage: &Stage, key: &str, number: usize) {
    let mut delivered = stage.delivered.lock().expect("lock");
    let last = delivered.entry(key.to_owned()).or_default();
    assert!(number + 2 > *last, "{key}: {number} was delivered after {last}");
    *last = number.max(*last);
}

/// Cancels the seventh of each key, pending, parked or under a lease, as it finds it, and redrives
/// the dead.
async fn operate(stage: Arc<Stage>) {
    for key in 0..KEYS {
        let target = Target { event_id: Some(format!("{key}-7")), ..Target::default() };
        let mut cancelled = 0;
        while cancelled == 0 {
            cancelled = stage.store.cancel(&target, "operator").await.expect("cancel");
            let row = stage.store.show("", &format!("{key}-7")).await.expect("show");
            if row.is_some_and(|report| report.deliveries[0].status == DeliveryStatus::Delivered) {
                // It was quicker: take it back, and away.
                stage.store.redeliver(&target, "operator").await.expect("redeliver");
                stage.count.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
    stage.has_cancelled.store(true, Ordering::SeqCst);
    let mut redriven = 0;
    while redriven < KEYS as u64 {
        let order = RedriveOrder { limit: 10, ..RedriveOrder::default() };
        redriven += stage.store.redrive(&order, "operator").await.expect("redrive");
    }
}

#[tokio::test]
async fn a_head_that_was_left_parked_is_found_by_the_sweep() {
    let database = super::PostgresDatabase::open().await;
    let scene = Scene::ordered(&database, Order::Key(OnDead::Skip)).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b"), keyed("b2", "b")]).await;
    // As if whoever should have put them back had died before it could.
    run(&mut database.connection().await, "update outbox_delivery set parked = true").await;
    assert!(scene.claim_ids("host-a").await.is_empty());
    let swept = scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    assert_eq!(swept, Swept { unparked: 2, ..Swept::default() }, "the head of each key, and no more");
    assert_eq!(scene.claim_ids("host-a").await, ["a1", "b1"]);
    let again = scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    assert_eq!(again, Swept::default(), "what waits behind a lease is where it belongs");
}
