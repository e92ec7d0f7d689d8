//! What the relay and the database say to each other.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::{ClaimToken, DeadReason, DestinationId, Event, EventSeq, Fence, Timestamp};

/// A host and the configuration it runs.
#[derive(Clone, Debug)]
pub struct HostRegistration {
    pub host_id: String,
    pub version: String,
    /// Over destination names, topics, order and `renamed_from` of the whole config.
    pub config_digest: String,
    pub destinations: Vec<DestinationConfig>,
    pub takeover: Takeover,
}

/// When a registration becomes the next generation and writes routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// At `run`: only if the digest was never seen.
    IfNeverSeen,
    /// At a reload that changed no routes.
    Never,
    /// At a reload that changed this host's digest, and `config apply`: unless it is current.
    UnlessCurrent,
    /// At a reload that keeps a refused destination as it was: unless it is current, or this digest
    /// of the whole file is, which another host was able to apply.
    UnlessCurrentOr(String),
}

/// What the database must know of a destination.
#[derive(Clone, Debug)]
pub struct DestinationConfig {
    pub name: String,
    pub renamed_from: Option<String>,
    /// Validated route patterns.
    pub topics: Vec<String>,
    pub order: Order,
    /// Over everything of this destination, so that a fixed setting revives a stopped lane.
    pub digest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    #[default]
    None,
    Key(OnDead),
}

/// What a dead head of a key does to the deliveries behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDead {
    Block,
    Skip,
}

impl Order {
    /// The word the databases keep: what a dead head does must be known where a delivery ends.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Key(OnDead::Block) => "key-block",
            Self::Key(OnDead::Skip) => "key-skip",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Registered {
    /// In the order of the registration. A destination the current generation does not know (this
    /// host's config is superseded) and that never existed has no id and can't run.
    pub destinations: Vec<(String, Option<DestinationId>)>,
    pub generation: i64,
    pub standing: ConfigStanding,
}

/// A lane that can't run on one host: its plugin failed to load or to configure.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LaneProblem {
    pub destination: String,
    pub problem: String,
}

/// How much one host does in a lane.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LaneRate {
    pub destination: String,
    /// In the minute before it was told.
    pub delivered_per_minute: u64,
}

/// What stands behind a destination on one host.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LoadedNote {
    pub destination: String,
    /// From 1 at the host's start, one more with each swap; 0 until a plugin has loaded.
    pub generation: u64,
    /// Hex SHA-256; empty until a plugin has loaded.
    pub component_digest: String,
    /// Why the candidate of the last reload did not replace this generation, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_error: Option<String>,
    /// The second component beside it, if the config names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryNote>,
}

/// Two components of one destination side by side, on one host since both run there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CanaryNote {
    /// Hex SHA-256; empty if it did not load.
    pub component_digest: String,
    /// In percent, with the sign.
    pub share: String,
    /// Why it gets nothing, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<String>,
    /// Events of its share that the stable component decided while it was on.
    pub handed_over: u64,
    pub stable: VariantNote,
    pub canary: VariantNote,
}

/// What one of them did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VariantNote {
    /// Events by what came of them.
    pub outcomes: BTreeMap<String, u64>,
    /// Of the calls, each of one event or of a batch. None before the first.
    pub p50_micros: Option<u64>,
    pub p99_micros: Option<u64>,
}

/// What a host says of itself with each heartbeat, so that tools see it with no way to the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct HostNotes {
    #[serde(default)]
    pub problems: Vec<LaneProblem>,
    #[serde(default)]
    pub loaded: Vec<LoadedNote>,
    /// Of every lane it has.
    #[serde(default)]
    pub rates: Vec<LaneRate>,
    /// Why the config on disk is not the one that runs, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigStanding {
    Current,
    /// Another host applied a newer config: this one writes no routes and says so.
    Superseded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneState {
    Active,
    Paused,
    Stopped,
    Removed,
}

impl LaneState {
    /// The word the databases keep.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Removed => "removed",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Active, Self::Paused, Self::Stopped, Self::Removed]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// A lane as all hosts see it.
#[derive(Clone, Debug)]
pub struct LaneView {
    pub destination: DestinationId,
    pub state: LaneState,
    /// Grows with each change of state; an answer to a claim of an earlier epoch moves nothing.
    pub epoch: i64,
    /// Pauses in a row since the lane last worked.
    pub pauses: u32,
    /// None on a paused lane: an operator paused it, and it is never probed.
    pub paused_until: Option<Timestamp>,
    /// An ordinary delivery is due now.
    pub has_due: bool,
    /// A suspect (`lost >= 2`) is due now.
    pub has_due_suspect: bool,
    /// Paused, its pause has run out, something is due and nobody holds the probe.
    pub wants_probe: bool,
    /// When the next delivery that is not due yet becomes so.
    pub next_due_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeToken(pub [u8; 16]);

#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub host_id: String,
    pub destination: DestinationId,
    pub limit: u32,
    pub lease: Duration,
    pub order: Order,
    pub max_attempts: u32,
    pub which: Which,
    pub probe: Option<ProbeToken>,
}

/// So many claims lost without a word make a delivery a suspect.
pub const SUSPECT_LOST_MIN: u32 = 2;

/// Suspects may have killed the process; they are claimed one at a time per host. A due delivery
/// whose last claim expired counts that loss already, so its third claim is a suspect's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Ordinary,
    Suspect,
}

/// What one claim statement did.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    pub claimed: Vec<Claimed>,
    /// Claims of others that had expired and were written to the history as lost.
    pub lost: u32,
    /// Dead letters written instead of claims.
    pub buried: Vec<(EventSeq, DeadReason)>,
    /// Rows looked at and parked behind the head of their key. With `claimed` empty and this
    /// above zero, asking again at once makes progress.
    pub parked: u32,
}

/// Names one attempt: nothing else ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimRef {
    pub event: EventSeq,
    pub destination: DestinationId,
    pub token: ClaimToken,
    pub fence: Fence,
}

#[derive(Clone, Debug)]
pub struct Claimed {
    pub claim: ClaimRef,
    pub event: Event,
    pub attempt: u32,
    pub deferrals: u32,
    pub lost: u32,
    /// An earlier attempt may have taken effect.
    pub uncertain_before: bool,
    /// The database's time of this claim.
    pub claimed_at: Timestamp,
    pub first_claimed_at: Timestamp,
    /// Deferred before the lane's latest success (see `decide`).
    pub deferred_before_success: bool,
    pub lane_epoch: i64,
    pub lane_pauses: u32,
}

/// The end of one attempt.
#[derive(Clone, Debug)]
pub struct Acknowledgement {
    pub claim: ClaimRef,
    pub write: crate::domain::Write,
    /// It shows that the lane's destination takes events: what was deferred before and is not taken
    /// after it may itself be at fault. False of what a canary delivered.
    pub lane_works: bool,
    pub record: AttemptRecord,
}

/// One row of the attempt history.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    pub host_id: String,
    pub attempt: u32,
    /// The database's time, as the host estimates it.
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// `Outcome::kind`.
    pub outcome: String,
    pub code: String,
    pub message: String,
    pub uncertain: bool,
    /// The destination's own reference for a delivered event.
    pub reference: Option<String>,
    pub component_digest: String,
}

/// The outcome of a history row whose claim ended by expiry without a word from its host.
pub const LOST: &str = "lost";

impl AttemptRecord {
    /// What `last_error` keeps of a failure.
    pub fn error_text(&self) -> Option<String> {
        match (self.code.is_empty(), self.message.is_empty()) {
            (true, true) => None,
            (false, true) => Some(self.code.clone()),
            (true, false) => Some(self.message.clone()),
            (false, false) => Some(format!("{}: {}", self.code, self.message)),
        }
    }
}

/// The answer of every fenced statement, from the number of rows it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Recorded,
    /// The token or the lease is no longer ours. Normal, and never silent: count it and log it.
    Fenced,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneChange {
    /// For so long; one more pause in a row. By the prober: it must hold `probe`.
    Pause {
        wait: Duration,
        reason: String,
        probe: Option<ProbeToken>,
    },
    Stop {
        reason: String,
    },
    /// A probe succeeded (`success`) or at least drew an answer: active, no pauses in a row.
    Reopen {
        probe: ProbeToken,
        success: bool,
    },
    /// A stopped lane is tried again, because the plugin behind it was replaced.
    Revive,
    /// The probe found nothing to send or the host failed before it learned anything.
    DropProbe {
        probe: ProbeToken,
    },
}

/// A host that was silent for so long is forgotten.
pub const HOSTS_KEPT: Duration = Duration::from_secs(7 * 86_400);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Deliveries inserted for unrouted events that now match a route.
    pub routed: u64,
    /// Events that had no delivery row at all and got theirs.
    pub adopted: u64,
    /// Dead letters of deliveries that expired, by destination.
    pub expired: BTreeMap<DestinationId, u64>,
    pub unparked: u64,
    /// The limit was reached: ask again soon.
    pub more: bool,
}

#[derive(Clone, Debug)]
pub struct SchemaStatus {
    /// None: nothing is installed.
    pub installed: Option<i64>,
    pub newest_known: i64,
    /// (name, SQL) of what `migrate` would apply.
    pub pending: Vec<(String, String)>,
}
