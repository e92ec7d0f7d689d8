//! What the relay counts. Names are the design's words; everything of a lane is labelled with its
//! destination.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::store::LaneState;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByDestination {
    pub destination: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByOutcome {
    pub destination: String,
    pub outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByState {
    pub destination: String,
    pub state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByReason {
    pub destination: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ByOperation {
    pub operation: String,
}

type Seconds = Family<ByDestination, Histogram, Buckets>;

/// 1 ms doubling to about 17 min: from a warm local call to a long retry.
#[derive(Clone, Debug)]
pub struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.001, 2.0, 20))
    }
}

type Counts = Family<ByDestination, Histogram, BatchSizes>;

/// 1 doubling to 8,192.
#[derive(Clone, Debug)]
pub struct BatchSizes;

impl MetricConstructor<Histogram> for BatchSizes {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(1.0, 2.0, 14))
    }
}

/// All families of the relay. Clones share their numbers.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub claims: Family<ByDestination, Counter>,
    pub claimed: Family<ByDestination, Counter>,
    pub outcomes: Family<ByOutcome, Counter>,
    pub fenced: Family<ByDestination, Counter>,
    pub lost_trust: Family<ByDestination, Counter>,
    pub lost: Family<ByDestination, Counter>,
    pub buried: Family<ByReason, Counter>,
    pub dead: Family<ByReason, Counter>,
    pub released: Family<ByDestination, Counter>,
    pub unreported: Family<ByDestination, Counter>,
    pub in_flight: Family<ByDestination, Gauge>,
    pub lane_state: Family<ByState, Gauge>,
    pub call_seconds: Seconds,
    pub batch_events: Counts,
    pub delivery_seconds: Seconds,
    pub store_failures: Family<ByOperation, Counter>,
    pub questions: Counter,
    pub payload_bytes: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            claims: Family::default(),
            claimed: Family::default(),
            outcomes: Family::default(),
            fenced: Family::default(),
            lost_trust: Family::default(),
            lost: Family::default(),
            buried: Family::default(),
            dead: Family::default(),
            released: Family::default(),
            unreported: Family::default(),
            in_flight: Family::default(),
            lane_state: Family::default(),
            call_seconds: Family::new_with_constructor(Buckets),
            batch_events: Family::new_with_constructor(BatchSizes),
            delivery_seconds: Family::new_with_constructor(Buckets),
            store_failures: Family::default(),
            questions: Counter::default(),
            payload_bytes: Gauge::default(),
        }
    }
}

impl Metrics {
    /// 1 for the state a lane is in, 0 for the others.
    pub(super) fn show_state(&self, destination: &str, state: LaneState) {
        for candidate in STATES {
            self.lane_state
                .get_or_create(&by_state(destination, candidate))
                .set(i64::from(candidate == state));
        }
    }

    /// The lane has another name now.
    pub(super) fn forget_state(&self, destination: &str) {
        for state in STATES {
            self.lane_state.remove(&by_state(destination, state));
        }
    }

    /// Adds every family to a registry, which should carry the prefix `outhaul`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("claims", "Claim statements sent", self.claims.clone());
        registry.register("claimed", "Deliveries claimed", self.claimed.clone());
        registry.register("outcomes", "Attempts by what came of them", self.outcomes.clone());
        registry.register(
            "fenced",
            "Results and releases refused because the claim was no longer this host's",
            self.fenced.clone(),
        );
        registry.register(
            "lost_trust",
            "Calls dropped because this host could no longer trust its lease",
            self.lost_trust.clone(),
        );
        registry.register("lost", "Claims found expired without a word from their host", self.lost.clone());
        registry.register(
            "buried",
            "Dead letters written by a claim or the sweep, by reason",
            self.buried.clone(),
        );
        registry.register("dead", "Dead letters written after an attempt, by reason", self.dead.clone());
        registry.register("released", "Claims given back before they started", self.released.clone());
        registry.register(
            "unreported",
            "Attempts whose end could not be told to the database while the lease was trusted",
            self.unreported.clone(),
        );
        registry.register("in_flight", "Deliveries claimed and not yet ended", self.in_flight.clone());
        registry.register("lane_state", "1 for the state a lane is in", self.lane_state.clone());
        registry.register_with_unit(
            "call",
            "Time of one plugin call",
            Unit::Seconds,
            self.call_seconds.clone(),
        );
        registry.register(
            "batch_events",
            "Events of one batch call; its count is the number of such calls",
            self.batch_events.clone(),
        );
        registry.register_with_unit(
            "delivery",
            "Time from an event's creation to its recorded delivery",
            Unit::Seconds,
            self.delivery_seconds.clone(),
        );
        registry.register(
            "store_failures",
            "Statements that failed, by operation",
            self.store_failures.clone(),
        );
        registry.register("questions", "Questions which lanes have something due", self.questions.clone());
        registry.register_with_unit(
            "payload",
            "Payloads held in memory",
            Unit::Bytes,
            self.payload_bytes.clone(),
        );
    }
}

const STATES: [LaneState; 4] = [LaneState::Active, LaneState::Paused, LaneState::Stopped, LaneState::Removed];

fn by_state(destination: &str, state: LaneState) -> ByState {
    ByState { destination: destination.to_owned(), state: state.as_str().to_owned() }
}

pub(super) fn by(destination: &str) -> ByDestination {
    ByDestination { destination: destination.to_owned() }
}

pub(super) fn by_outcome(destination: &str, outcome: &str) -> ByOutcome {
    ByOutcome { destination: destination.to_owned(), outcome: outcome.to_owned() }
}

pub(super) fn by_reason(destination: &str, reason: &str) -> ByReason {
    ByReason { destination: destination.to_owned(), reason: reason.to_owned() }
}
