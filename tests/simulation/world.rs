//! One database, its producers and its lanes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outhaul::clock::Clock;
use outhaul::domain::{DestinationId, EventSeq, RetryPolicy, Timestamp};
use outhaul::plugin::BatchLimits;
use outhaul::relay::metrics::ByDestination;
use outhaul::relay::{LaneSettings, RelaySettings};
use outhaul::store::memory::{MemoryStore, MemoryTransaction, Row};
use outhaul::store::{
    DeliveryStatus, DestinationConfig, Emitted, HostRegistration, NewEvent, Operate, Order, Store, Takeover,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::chance::{Chance, SimClock};
use crate::checks::{DeliveryId, Watch};
use crate::plugin::{Batches, Script};

pub const STORE_TIMEOUT: Duration = Duration::from_millis(500);
pub const MARGIN: Duration = Duration::from_millis(200);
pub const LEASE: Duration = Duration::from_secs(2);
pub const POLL: Duration = Duration::from_secs(1);

/// A lane of the test: what the relay is told of it, and what its plugin does.
#[derive(Clone)]
pub struct SimLane {
    pub topics: Vec<String>,
    pub settings: LaneSettings,
    pub script: Script,
    pub batches: Batches,
    pub unready: Option<String>,
}

impl SimLane {
    /// Takes `NAME.*` and has a lease of two seconds.
    pub fn new(name: &str, script: Script) -> Self {
        let settings = LaneSettings {
            name: name.to_owned(),
            concurrency: 8,
            batch: 100,
            lease: LEASE,
            margin: MARGIN,
            renew: true,
            order: Order::None,
            retry: RetryPolicy::default(),
            call_budget: Duration::from_secs(10),
            payload_bytes_max: 1 << 20,
            stop_after_rejections: 0,
        };
        Self {
            topics: vec![format!("{name}.*")],
            settings,
            script,
            batches: Batches::default(),
            unready: None,
        }
    }

    /// Its plugin takes batches of so many events, or payload bytes.
    pub fn in_batches_of(mut self, events: usize, bytes: u64) -> Self {
        self.batches.limits = Some(BatchLimits { events, bytes });
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut LaneSettings)) -> Self {
        change(&mut self.settings);
        self
    }
}

pub struct World {
    pub model: Arc<MemoryStore>,
    pub watch: Arc<Watch>,
    pub chance: Chance,
    pub start: Instant,
    pub lanes: Vec<SimLane>,
    ids: Vec<DestinationId>,
    clock: Arc<SimClock>,
    next_event: AtomicU64,
    /// Wakes all hosts in their order. The model's own wake-up draws the order at random, and one
    /// seed would live several lives.
    pub commits: Notify,
    /// Until when a host looks for a lane's deliveries by itself, by the database's clock.
    attended: Mutex<BTreeMap<DestinationId, Timestamp>>,
}

impl World {
    pub async fn new(seed: u64, lanes: Vec<SimLane>) -> Arc<Self> {
        let (start, chance) = (Instant::now(), Chance::new(seed));
        let clock = Arc::new(SimClock::of_database(start, chance.clone()));
        let model = Arc::new(MemoryStore::new(clock.clone()));
        let registered = model.register(&registration("setup", &lanes)).await.expect("register");
        let ids: Vec<_> = registered.destinations.iter().map(|(_, id)| id.expect("an id")).collect();
        let orders: BTreeMap<_, _> =
            ids.iter().zip(&lanes).map(|(id, lane)| (*id, lane.settings.order)).collect();
        let max_attempts = lanes.iter().map(|lane| lane.settings.retry.max_attempts).max().unwrap_or(1);
        let watch = Arc::new(Watch::new(orders, max_attempts));
        Arc::new(Self {
            model,
            watch,
            chance,
            start,
            lanes,
            ids,
            clock,
            next_event: AtomicU64::new(0),
            commits: Notify::new(),
            attended: Mutex::default(),
        })
    }

    pub fn registration(&self, host: &str) -> HostRegistration {
        registration(host, &self.lanes)
    }

    pub fn relay_settings(&self, host: &str) -> RelaySettings {
        RelaySettings {
            poll: POLL,
            store_timeout: STORE_TIMEOUT,
            drain: Duration::from_secs(2),
            ..RelaySettings::new(host)
        }
    }

    pub fn lane_id(&self, lane: usize) -> DestinationId {
        self.ids[lane]
    }

    pub fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    /// A new event for a lane, not yet inserted.
    pub fn event(&self, lane: usize) -> NewEvent {
        let number = self.next_event.fetch_add(1, Relaxed);
        NewEvent {
            id: format!("e{number}"),
            topic: format!("{}.happened", self.lanes[lane].settings.name),
            payload: number.to_string().into_bytes(),
            ..NewEvent::default()
        }
    }

    /// Commits `count` events for a lane in one transaction.
    pub async fn emit(&self, lane: usize, count: usize) -> Vec<DeliveryId> {
        let events: Vec<_> = (0..count).map(|_| self.event(lane)).collect();
        self.insert(&events).await.into_iter().map(|seq| (self.lane_id(lane), seq)).collect()
    }

    pub async fn insert(&self, events: &[NewEvent]) -> Vec<EventSeq> {
        let emitted = self.model.emit(events).await.expect("emit");
        let seqs = emitted.into_iter().map(|emitted| match emitted {
            Emitted::Inserted(seq) => seq,
            Emitted::Existed => panic!("an event was emitted twice"),
        });
        let seqs: Vec<_> = seqs.collect();
        self.watch.committed(&seqs, self.now());
        self.wake_hosts();
        seqs
    }

    pub fn commit(&self, transaction: MemoryTransaction, seqs: &[EventSeq]) {
        self.watch.committed(seqs, self.now());
        transaction.commit();
        self.wake_hosts();
    }

    /// Producers stay silent only while every lane is attended: which of them an event is for does
    /// not matter here.
    fn wake_hosts(&self) {
        let attended = self.attended.lock().expect("not poisoned");
        let is_silent = self.ids.iter().all(|id| attended.get(id).is_some_and(|until| *until > self.now()));
        drop(attended);
        if !is_silent {
            self.commits.notify_waiters();
        }
    }

    pub fn attend(&self, destinations: &[DestinationId], wait: Duration) {
        let until = self.now().plus(wait);
        let mut attended = self.attended.lock().expect("not poisoned");
        for id in destinations {
            let known = attended.entry(*id).or_insert(until);
            *known = until.max(*known);
        }
    }

    pub fn row(&self, id: DeliveryId) -> Row {
        let rows = self.model.rows();
        rows.into_iter().find(|row| (row.destination, row.event) == id).expect("such a delivery")
    }

    pub fn count(&self, status: DeliveryStatus) -> usize {
        self.model.rows().iter().filter(|row| row.status == status).count()
    }

    /// Waits until no delivery of `ids` is pending.
    pub async fn until_finished(&self, ids: &[DeliveryId]) {
        let all = || ids.iter().all(|id| self.row(*id).status != DeliveryStatus::Pending);
        self.watch.until("all finished", all).await;
    }

    /// Waits until `count` calls of these deliveries run.
    pub async fn until_running(&self, ids: &[DeliveryId], count: u32) {
        let running = || ids.iter().map(|id| self.watch.account(*id).running).sum::<u32>() == count;
        self.watch.until(&format!("{count} calls run"), running).await;
    }

    /// Asserts that each was delivered, by so many calls in all.
    pub fn assert_delivered(&self, ids: &[DeliveryId], calls_each: usize) {
        for id in ids {
            let row = self.row(*id);
            assert_eq!(row.status, DeliveryStatus::Delivered, "{row:?}");
            assert_eq!(self.watch.account(*id).fences.len(), calls_each, "calls of {row:?}");
        }
        self.watch.assert_kept();
    }
}

fn registration(host: &str, lanes: &[SimLane]) -> HostRegistration {
    let destinations = lanes.iter().map(|lane| DestinationConfig {
        name: lane.settings.name.clone(),
        renamed_from: None,
        topics: lane.topics.clone(),
        order: lane.settings.order,
        digest: "one".to_owned(),
    });
    HostRegistration {
        host_id: host.to_owned(),
        version: "simulated".to_owned(),
        config_digest: "one".to_owned(),
        destinations: destinations.collect(),
        takeover: Takeover::IfNeverSeen,
    }
}

/// The label of a lane's numbers.
pub fn by(destination: &str) -> ByDestination {
    ByDestination { destination: destination.to_owned() }
}

pub fn fast_retries(max_attempts: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, base: Duration::from_millis(10), ..RetryPolicy::default() }
}

/// Runs a test on virtual time, on one thread: the same seed gives the same order of everything.
pub fn simulate<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test)
}
