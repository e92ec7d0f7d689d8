//! What every part of the relay shares.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acknowledger::Report;
use super::cargo::Budget;
use super::flights::Flights;
use super::health::Health;
use super::lanes::LaneState;
use super::metrics::{ByOperation, Metrics};
use super::settings::RelaySettings;
use crate::clock::{Clock, SharedClock};
use crate::domain::{DestinationId, Timestamp};
use crate::store::{HostNotes, SharedStore, StoreError, StoreResult};

/// Claim statements this host has open at once. Two keep a database busy; more would only hold
/// connections that a renewal may need.
const CLAIMS_AT_ONCE: usize = 2;

/// The same for reads of payloads: deliveries that waited for memory read theirs one by one.
const READS_AT_ONCE: usize = 2;

/// How much longer than its limit a statement is waited for. The store ends its own statements in
/// time, and knows how to; this is for one that does not.
const STATEMENT_OVERTIME: Duration = Duration::from_millis(100);

pub(super) struct Context {
    pub store: SharedStore,
    pub clock: SharedClock,
    pub settings: RelaySettings,
    pub metrics: Metrics,
    pub database_time: DatabaseTime,
    pub health: Health,
    pub flights: Arc<Flights>,
    pub budget: Arc<Budget>,
    pub reports: mpsc::UnboundedSender<Report>,
    pub questions: Questions,
    pub lanes: RwLock<BTreeMap<DestinationId, Arc<LaneState>>>,
    pub claim_gate: Semaphore,
    pub read_gate: Semaphore,
    /// One suspect at a time: if it kills the process, it is known who did.
    pub suspects: Arc<Semaphore>,
    pub config_is_superseded: AtomicBool,
    /// What the service has to say with each heartbeat.
    pub notes: Mutex<HostNotes>,
    /// The next heartbeat should not wait for its time.
    pub has_news: Notify,
    /// Cancelled once it is known whether this host's config is the current one.
    pub standing_is_known: CancellationToken,
    /// Drain, step one.
    pub stop_claiming: CancellationToken,
    /// Drain, step three: the time for running calls is over.
    pub interrupt: CancellationToken,
    /// Ends every task where it stands, as a crash would.
    pub end: CancellationToken,
    pub tasks: TaskTracker,
    /// Those of them that may have a claim on its way.
    pub claimers: TaskTracker,
}

impl Context {
    pub fn new(
        store: SharedStore,
        clock: SharedClock,
        settings: RelaySettings,
        reports: mpsc::UnboundedSender<Report>,
    ) -> Self {
        let metrics = Metrics::default();
        Self {
            store,
            clock,
            database_time: DatabaseTime::default(),
            health: Health::default(),
            flights: Arc::default(),
            budget: Arc::new(Budget::new(settings.payload_budget_bytes, metrics.payload_bytes.clone())),
            reports,
            questions: Questions::default(),
            lanes: RwLock::default(),
            claim_gate: Semaphore::new(CLAIMS_AT_ONCE),
            read_gate: Semaphore::new(READS_AT_ONCE),
            suspects: Arc::new(Semaphore::new(1)),
            config_is_superseded: AtomicBool::new(false),
            notes: Mutex::default(),
            has_news: Notify::new(),
            standing_is_known: CancellationToken::new(),
            stop_claiming: CancellationToken::new(),
            interrupt: CancellationToken::new(),
            end: CancellationToken::new(),
            tasks: TaskTracker::new(),
            claimers: TaskTracker::new(),
            settings,
            metrics,
        }
    }

    /// Runs a part of the relay until it is done or the relay ends.
    pub fn spawn(&self, part: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = end.cancelled() => {}
                () = part => {}
            }
        });
    }

    /// Like [`Self::spawn`], for a part that claims.
    pub fn spawn_claimer(&self, part: impl Future<Output = ()> + Send + 'static) {
        let part = self.claimers.track_future(part);
        self.spawn(part);
    }

    /// Waits for the database's answer no longer than a statement may take, and keeps book of
    /// what fails.
    pub async fn ask<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let limit = self.settings.store_timeout + STATEMENT_OVERTIME;
        let result = tokio::time::timeout(limit, answer)
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable(format!("no answer within {limit:?}"))));
        let now = self.clock.since_boot();
        match &result {
            Ok(_) => self.health.succeeded(operation, now),
            Err(error) => {
                self.health.failed(operation, error, now);
                let operation = ByOperation { operation: operation.to_owned() };
                self.metrics.store_failures.get_or_create(&operation).inc();
            }
        }
        result
    }

    /// The database's time, as this host estimates it.
    pub fn database_now(&self) -> Timestamp {
        self.database_time.at(self.clock.since_boot()).unwrap_or_else(|| self.clock.wall())
    }

    pub fn lanes(&self) -> Vec<Arc<LaneState>> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub fn lane(&self, id: DestinationId) -> Option<Arc<LaneState>> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

/// The database's clock against this host's time since boot. Never decides over a lease: it dates
/// history rows, judges `max_age` and says when to ask next.
#[derive(Default)]
pub(super) struct DatabaseTime {
    met: Mutex<Option<(Duration, Timestamp)>>,
}

impl DatabaseTime {
    /// The database said `told` to a statement sent and answered at these times since boot.
    pub fn calibrate(&self, sent_at: Duration, told: Timestamp, answered_at: Duration) {
        let middle = sent_at + answered_at.saturating_sub(sent_at) / 2;
        *self.met.lock().unwrap_or_else(PoisonError::into_inner) = Some((middle, told));
    }

    pub fn at(&self, since_boot: Duration) -> Option<Timestamp> {
        let met = *self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.map(|(then, told)| {
            if since_boot >= then {
                told.plus(since_boot - then)
            } else {
                Timestamp(told.0.saturating_sub(crate::domain::time::micros(then - since_boot)))
            }
        })
    }
}

/// When the database is asked next which lanes have something due.
#[derive(Default)]
pub(super) struct Questions {
    next: Mutex<Option<Duration>>,
    pub sooner: Notify,
}

impl Questions {
    /// Ask at once.
    pub fn ask_now(&self) {
        self.ask_at(Duration::ZERO);
    }

    /// Ask at this time since boot, or earlier.
    pub fn ask_at(&self, at: Duration) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none_or(|next| at < next) {
            *next = Some(at);
            self.sooner.notify_one();
        }
    }

    /// Ask after this wait, or earlier.
    pub fn ask_after(&self, wait: Duration, clock: &dyn Clock) {
        self.ask_at(clock.since_boot() + wait);
    }

    pub fn next(&self) -> Option<Duration> {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question is about to be sent: what asked for it is answered by it.
    pub fn asked(&self) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
