//! A lane on this host: what the database last said of it, what this host found out, its slots.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::rate::Rate;
use super::settings::Lane;
use crate::domain::DestinationId;
use crate::store::{Claims, LaneState as StoredState, LaneView};

pub(super) struct LaneState {
    pub id: DestinationId,
    /// Replaced as a whole when a new config gives another: an attempt keeps what it started with.
    spec: RwLock<Arc<Lane>>,
    inner: Mutex<Inner>,
    changed: Notify,
    pub rate: Rate,
    /// The lane left this host's config.
    pub removed: CancellationToken,
}

#[derive(Default)]
struct Inner {
    view: Option<LaneView>,
    /// Something ordinary is due, by the database's word or because the last claim was full.
    has_due: bool,
    /// Grows with each sign of something due, so that an answer to an older claim does not
    /// take back what was learned while it was on its way.
    signs: u64,
    /// Left out of a question because something was known to be due.
    was_left_out: bool,
    has_due_suspect: bool,
    wants_probe: bool,
    in_flight: u32,
    /// Ended here and not yet recorded in the database.
    reporting: u32,
    /// Changes of the lane's state that are on their way to the database.
    changing: u32,
    stopped_here: Option<StoppedHere>,
}

struct StoppedHere {
    reason: String,
    epoch: i64,
}

/// The next claim of a lane, with its slots reserved.
pub(super) struct Planned {
    pub plan: Plan,
    pub spec: Arc<Lane>,
    pub slots: Vec<Slot>,
    signs: u64,
}

pub(super) enum Plan {
    Ordinary,
    /// With the host's only turn for one.
    Suspect(OwnedSemaphorePermit),
    Probe,
}

/// Room for one delivery in flight.
pub(super) struct Slot(Arc<LaneState>);

/// Keeps a lane from claiming.
pub(super) struct Closed(Arc<LaneState>);

/// Counts a delivery that ended here until the database knows.
pub(super) struct Reporting(Arc<LaneState>);

impl LaneState {
    pub fn new(lane: Lane) -> Self {
        Self {
            id: lane.id,
            spec: RwLock::new(Arc::new(lane)),
            inner: Mutex::default(),
            changed: Notify::new(),
            rate: Rate::default(),
            removed: CancellationToken::new(),
        }
    }

    pub fn spec(&self) -> Arc<Lane> {
        self.spec.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn name(&self) -> String {
        self.spec().settings.name.clone()
    }

    /// New settings and a new plugin, and whatever stopped the old ones is forgotten.
    pub fn replace(&self, lane: Lane) {
        *self.spec.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(lane);
        self.inner().stopped_here = None;
        self.changed.notify_one();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the database says of this lane.
    pub fn apply(&self, view: LaneView) {
        let mut inner = self.inner();
        let is_active = view.state == StoredState::Active;
        // A full claim said there is more; an older "nothing" does not take that back.
        inner.has_due = is_active && (inner.has_due || view.has_due);
        inner.signs += u64::from(view.has_due);
        inner.has_due_suspect = is_active && view.has_due_suspect;
        inner.wants_probe = view.wants_probe;
        // An operator's resume and a changed config start a new epoch, on an active lane too.
        if inner.stopped_here.as_ref().is_some_and(|stopped| view.epoch > stopped.epoch) {
            inner.stopped_here = None;
        }
        let is_new_epoch = inner.view.as_ref().is_some_and(|known| view.epoch > known.epoch);
        inner.view = Some(view);
        drop(inner);
        if is_new_epoch {
            self.spec().plugin.try_anew();
        }
        self.changed.notify_one();
    }

    pub fn view(&self) -> Option<LaneView> {
        self.inner().view.clone()
    }

    /// Whether the next question must include this lane: not if something is known to be due.
    pub fn is_asked_for(&self) -> bool {
        let mut inner = self.inner();
        inner.was_left_out = inner.has_due;
        !inner.has_due
    }

    /// Grows with each sign of something due.
    pub fn signs(&self) -> u64 {
        self.inner().signs
    }

    pub fn has_due(&self) -> bool {
        self.inner().has_due
    }

    pub fn in_flight(&self) -> u32 {
        let inner = self.inner();
        inner.in_flight + inner.reporting
    }

    /// Waits for the next claim this lane may send, and reserves its slots.
    pub async fn next_plan(self: &Arc<Self>, suspects: &Arc<Semaphore>) -> Planned {
        loop {
            let spec = self.spec();
            if let Some(planned) = self.plan(&spec, suspects) {
                return planned;
            }
            self.changed.notified().await;
        }
    }

    fn plan(self: &Arc<Self>, spec: &Arc<Lane>, suspects: &Arc<Semaphore>) -> Option<Planned> {
        let mut inner = self.inner();
        if inner.changing > 0 || inner.stopped_here.is_some() || spec.plugin.unready().is_some() {
            return None;
        }
        let settings = &spec.settings;
        let room = settings.concurrency.saturating_sub(inner.in_flight).min(settings.batch);
        // Results the database has not taken yet bound the claims too, or a database that answers
        // claims and not acknowledgements would fill the memory.
        if room == 0 || inner.reporting >= settings.concurrency.saturating_add(settings.batch) {
            return None;
        }
        let (plan, count) = if inner.wants_probe {
            inner.wants_probe = false;
            (Plan::Probe, 1)
        } else if let Some(turn) =
            inner.has_due_suspect.then(|| suspects.clone().try_acquire_owned().ok()).flatten()
        {
            inner.has_due_suspect = false;
            (Plan::Suspect(turn), 1)
        } else if inner.has_due {
            (Plan::Ordinary, room)
        } else {
            return None;
        };
        inner.in_flight += count;
        let slots = (0..count).map(|_| Slot(self.clone())).collect();
        Some(Planned { plan, spec: spec.clone(), slots, signs: inner.signs })
    }

    /// An ordinary claim was answered. Returns whether a question is owed: one was asked without
    /// this lane, and what is due is not known any more.
    pub fn claimed(&self, planned: &Planned, claims: &Claims) -> bool {
        // Parked and buried rows used up the statement's look at the backlog: behind them there
        // may be more, and asking again makes progress.
        let is_more =
            claims.claimed.len() >= planned.slots.len() || claims.parked > 0 || !claims.buried.is_empty();
        let mut inner = self.inner();
        inner.has_due = is_more || inner.signs != planned.signs;
        !inner.has_due && std::mem::take(&mut inner.was_left_out)
    }

    /// A delivery of a key ended, so the next one of that key may be due.
    pub fn key_moved(&self) {
        let mut inner = self.inner();
        inner.has_due = true;
        inner.signs += 1;
        drop(inner);
        self.changed.notify_one();
    }

    /// Nothing is claimed while this lives: the lane's state is being changed, or may be.
    pub fn close(self: &Arc<Self>) -> Closed {
        self.inner().changing += 1;
        Closed(self.clone())
    }

    /// What is due is for the next question to say.
    pub fn forget_due(&self) {
        self.inner().has_due = false;
    }

    /// Whether an attempt that started with `spec` speaks of what the lane is now.
    pub fn is_current(&self, spec: &Arc<Lane>) -> bool {
        Arc::ptr_eq(&self.spec.read().unwrap_or_else(PoisonError::into_inner), spec)
    }

    /// Stops the lane on this host only, until a resume or a changed config, if `spec` is what the
    /// lane is now.
    pub fn stop_here(&self, spec: &Arc<Lane>, reason: String, epoch: i64) {
        let name = self.name();
        let mut inner = self.inner();
        // Under the lock that `replace` takes last, so that no stop of an old spec outlives it.
        if !self.is_current(spec) {
            return;
        }
        let is_news = inner.stopped_here.is_none();
        inner.stopped_here = Some(StoppedHere { reason: reason.clone(), epoch });
        drop(inner);
        if is_news {
            tracing::error!(destination = name, reason, "the lane stopped on this host");
        }
    }

    /// What stopped the lane on this host only is no reason any more.
    pub fn start_here(&self) {
        self.inner().stopped_here = None;
        self.changed.notify_one();
    }

    /// Why this lane can't run on this host, if so.
    pub fn problem(&self) -> Option<String> {
        let stopped = self.inner().stopped_here.as_ref().map(|stopped| stopped.reason.clone());
        stopped.or_else(|| self.spec().plugin.unready())
    }
}

impl Slot {
    /// The plugin is done with the delivery: its slot is free, its report is on its way.
    pub fn report(self) -> Reporting {
        self.0.inner().reporting += 1;
        Reporting(self.0.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.inner().in_flight -= 1;
        self.0.changed.notify_one();
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.inner().changing -= 1;
        self.0.changed.notify_one();
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        self.0.inner().reporting -= 1;
        self.0.changed.notify_one();
    }
}
