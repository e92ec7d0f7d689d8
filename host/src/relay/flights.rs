//! Every claim this host holds, and how long it may believe in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::domain::TrustWindow;
use crate::store::ClaimRef;

/// How often a running call looks at the clock at least. A timer stands still while the machine is
/// suspended and the lease does not, so one long timer could miss the end of trust.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The lease of a claim, as its lane's settings were when it was claimed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub lease: Duration,
    pub margin: Duration,
    pub renew: bool,
}

/// One claim in this host's hands.
pub(super) struct Hold {
    pub claim: ClaimRef,
    pub terms: Terms,
    state: Mutex<HoldState>,
    changed: Notify,
}

struct HoldState {
    trust: TrustWindow,
    renew_at: Duration,
    fenced: bool,
    phase: Phase,
}

/// Where a claim stands on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing was done for it yet: it can be given back with its attempt.
    Unstarted,
    Running,
    /// The plugin is done with it; the database is being told.
    Reporting,
}

impl Hold {
    fn new(claim: ClaimRef, terms: Terms, sent_at: Duration) -> Self {
        let state = HoldState {
            trust: TrustWindow::new(sent_at, terms.lease, terms.margin),
            renew_at: sent_at + terms.lease / 3,
            fenced: false,
            phase: Phase::Unstarted,
        };
        Self { claim, terms, state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, HoldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_trusted(&self, now: Duration) -> bool {
        let state = self.state();
        !state.fenced && state.trust.holds_at(now)
    }

    pub fn trust_left(&self, now: Duration) -> Duration {
        let state = self.state();
        if state.fenced { Duration::ZERO } else { state.trust.left_at(now) }
    }

    pub fn enter(&self, phase: Phase) {
        self.state().phase = phase;
    }

    /// Starts the attempt, unless the claim is no longer believed.
    pub fn start(&self, now: Duration) -> bool {
        let mut state = self.state();
        let may_start = !state.fenced && state.trust.holds_at(now);
        if may_start {
            state.phase = Phase::Running;
        }
        may_start
    }

    /// A renewal sent at `sent_at` was recorded.
    pub fn renewed(&self, sent_at: Duration) {
        let mut state = self.state();
        state.trust = TrustWindow::new(sent_at, self.terms.lease, self.terms.margin);
        state.renew_at = sent_at + self.terms.lease / 3;
    }

    /// A renewal got no answer: try again at `at`, while trust in the last one lasts.
    pub fn renew_again_at(&self, at: Duration) {
        self.state().renew_at = at;
    }

    /// The database refused a renewal: the claim is not ours any more. A claim whose end is being
    /// reported is left alone: its renewal may only have come after the acknowledgement.
    pub fn fenced(&self) -> bool {
        let mut state = self.state();
        let is_news = !state.fenced && state.phase != Phase::Reporting;
        if is_news {
            state.fenced = true;
            self.changed.notify_waiters();
        }
        is_news
    }

    /// Returns when this claim can no longer be believed.
    pub async fn trust_ended(&self, clock: &dyn Clock) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listening starts before the look, or a refusal between the two would go unheard.
            changed.as_mut().enable();
            let left = self.trust_left(clock.since_boot());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(left.min(LOOK_EVERY)) => {}
            }
        }
    }
}

/// All claims in flight on this host, for the renewer and the drain.
#[derive(Default)]
pub(super) struct Flights {
    holds: Mutex<Numbered>,
    /// A claim came in: the renewer may have to wake earlier.
    pub added: Notify,
    /// A claim left.
    ended: Notify,
}

#[derive(Default)]
struct Numbered {
    next: u64,
    by_number: BTreeMap<u64, Arc<Hold>>,
}

/// Keeps a claim renewed; dropping it ends that.
pub(super) struct Held {
    pub hold: Arc<Hold>,
    number: u64,
    flights: Arc<Flights>,
    in_flight: Gauge,
}

impl Flights {
    pub fn add(self: &Arc<Self>, claim: ClaimRef, terms: Terms, sent_at: Duration, in_flight: Gauge) -> Held {
        let hold = Arc::new(Hold::new(claim, terms, sent_at));
        let mut holds = self.lock();
        let number = holds.next;
        holds.next += 1;
        holds.by_number.insert(number, hold.clone());
        drop(holds);
        self.added.notify_one();
        in_flight.inc();
        Held { hold, number, flights: self.clone(), in_flight }
    }

    fn is_empty(&self) -> bool {
        self.lock().by_number.is_empty()
    }

    pub fn count(&self) -> usize {
        self.lock().by_number.len()
    }

    /// How many have a call under way.
    pub fn running(&self) -> usize {
        let holds = self.lock();
        holds.by_number.values().filter(|hold| hold.state().phase == Phase::Running).count()
    }

    /// Returns when no claim is in flight.
    pub async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Listening starts before the look, or an end between the two would go unheard.
            ended.as_mut().enable();
            if self.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// When the next renewal is due, in time since boot.
    pub fn next_renewal(&self) -> Option<Duration> {
        self.renewable().into_iter().map(|(at, _)| at).min()
    }

    /// What to renew now, by lease. A renewal due soon goes along, so that claims of one time
    /// stay one statement.
    pub fn due_for_renewal(&self, now: Duration) -> BTreeMap<Duration, Vec<Arc<Hold>>> {
        let mut due: BTreeMap<Duration, Vec<_>> = BTreeMap::new();
        for (renew_at, hold) in self.renewable() {
            if renew_at <= now + hold.terms.lease / 12 {
                due.entry(hold.terms.lease).or_default().push(hold);
            }
        }
        due
    }

    fn renewable(&self) -> Vec<(Duration, Arc<Hold>)> {
        let holds = self.lock();
        let renewable = holds.by_number.values().filter(|hold| hold.terms.renew).filter_map(|hold| {
            let state = hold.state();
            (!state.fenced).then(|| (state.renew_at, hold.clone()))
        });
        renewable.collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Numbered> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.flights.lock().by_number.remove(&self.number);
        self.flights.ended.notify_waiters();
        self.in_flight.dec();
    }
}
