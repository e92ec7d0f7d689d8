//! What people and their tools ask and do. Works with no host running.

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;

use super::{HostNotes, LaneState, StoreError, StoreResult};
use crate::domain::{DestinationId, Event, EventSeq, Timestamp};

/// The operator's side. Every act is recorded in `outbox_action` in the same transaction.
#[async_trait]
pub trait Operate: Send + Sync + 'static {
    /// Inserts events in one transaction, as any producer would. The answer tells which were new;
    /// an event whose (tenant, id) exists is left as it is.
    async fn emit(&self, events: &[NewEvent]) -> StoreResult<Vec<Emitted>>;

    /// Every destination that has rows, also removed ones, and the unrouted events as `(unrouted)`.
    async fn lane_reports(&self) -> StoreResult<Vec<LaneReport>>;

    /// Pauses a lane until it is resumed; never probed.
    async fn pause(&self, destination: &str, reason: &str, who: &str) -> StoreResult<bool>;

    /// Makes a lane active, whatever held it. An active one starts a new epoch as well, so that a host
    /// that stopped it for itself tries again.
    async fn resume(&self, destination: &str, who: &str) -> StoreResult<bool>;

    /// Deliveries by filter, newest last, at most `filter.limit`.
    async fn deliveries(&self, filter: &DeliveryFilter) -> StoreResult<Vec<DeliveryRow>>;

    /// An event with its deliveries, history and the acts on it.
    async fn show(&self, tenant: &str, event_id: &str) -> StoreResult<Option<EventReport>>;

    async fn payload(&self, event: EventSeq) -> StoreResult<Option<Bytes>>;

    /// What was delivered or died of a destination, newest event first: those among the `page_rows` next
    /// deliveries before an event. Costs the same whatever lies before or behind them.
    async fn recorded(
        &self,
        destination: &str,
        before: Option<EventSeq>,
        page_rows: u32,
    ) -> StoreResult<RecordedPage>;

    /// Pending → cancelled. The token is cleared, so that a late result is fenced; a live lease is
    /// kept, so that its key waits.
    async fn cancel(&self, target: &Target, who: &str) -> StoreResult<u64>;

    /// Delivered → pending, on purpose; attempts start again at 0, fence and history are kept.
    async fn redeliver(&self, target: &Target, who: &str) -> StoreResult<u64>;

    /// Dead → pending, attempts 0, at most `order.limit`, each `order.stagger` later than the one
    /// before. Returns how many; the caller repeats for progress.
    async fn redrive(&self, order: &RedriveOrder, who: &str) -> StoreResult<u64>;

    /// Dead → cancelled, at most `limit`.
    async fn discard(&self, target: &Target, limit: u32, who: &str) -> StoreResult<u64>;

    /// Hosts seen, newest first.
    async fn hosts(&self) -> StoreResult<Vec<HostReport>>;

    async fn actions(&self, limit: u32) -> StoreResult<Vec<ActionRow>>;
}

/// An event as a producer writes it.
#[derive(Clone, Debug, Default)]
pub struct NewEvent {
    pub tenant: String,
    pub id: String,
    pub topic: String,
    pub payload: Vec<u8>,
    pub key: Option<String>,
    pub headers: Vec<(String, String)>,
    pub content_type: Option<String>,
    pub available_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emitted {
    Inserted(EventSeq),
    Existed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    Pending,
    Delivered,
    Dead,
    Cancelled,
    Unrouted,
}

impl DeliveryStatus {
    /// The number in `outbox_delivery.status`, the same in every database.
    pub fn code(self) -> i16 {
        match self {
            Self::Pending => 0,
            Self::Delivered => 1,
            Self::Dead => 2,
            Self::Cancelled => 3,
            Self::Unrouted => 4,
        }
    }

    pub fn from_code(code: i16) -> Option<Self> {
        [Self::Pending, Self::Delivered, Self::Dead, Self::Cancelled, Self::Unrouted]
            .into_iter()
            .find(|status| status.code() == code)
    }
}

/// The name lists show for the reserved destination of events that no route matched.
pub const UNROUTED_NAME: &str = "(unrouted)";

/// Reports stop counting here.
pub const COUNTED_UP_TO: u64 = 10_000;

const TEXT_BYTES_MAX: usize = 255;

impl NewEvent {
    /// The table's own checks, in words that name the field.
    pub fn check(&self) -> Result<(), String> {
        let bounded = |field: &str, text: &str, least: usize| match text.len() {
            n if n < least => Err(format!("{field} is empty; it has {least} to {TEXT_BYTES_MAX} bytes")),
            n if n > TEXT_BYTES_MAX => Err(format!("{field} has {n} bytes; it has at most {TEXT_BYTES_MAX}")),
            _ if text.contains('\0') => {
                Err(format!("{field} holds a NUL byte; no database keeps it as text"))
            }
            _ => Ok(()),
        };
        bounded("event_id", &self.id, 1)?;
        bounded("tenant_id", &self.tenant, 0)?;
        bounded("topic", &self.topic, 1)?;
        if let Some(key) = &self.key {
            bounded("partition_key", key, 1)?;
        }
        crate::domain::topic::check_topic(&self.topic)
            .map_err(|error| format!("topic {:?}: {error}", self.topic))
    }
}

impl Target {
    pub fn is_empty(&self) -> bool {
        self.tenant.is_none() && self.event_id.is_none() && self.destination.is_none()
    }

    /// Acts on live deliveries never mean all of them by omission.
    pub fn require_one(&self) -> StoreResult<()> {
        if self.is_empty() {
            return Err(StoreError::Refused(
                "this act needs an event, a tenant or a destination: name the deliveries it means".to_owned(),
            ));
        }
        Ok(())
    }

    /// What `outbox_action.target` says.
    pub fn describe(&self) -> String {
        let parts: Vec<String> =
            [("event", &self.event_id), ("tenant", &self.tenant), ("destination", &self.destination)]
                .into_iter()
                .filter_map(|(word, value)| value.as_ref().map(|value| format!("{word} {value:?}")))
                .collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
    }
}

/// Which deliveries an act means. At least one of the fields is given, except for `dead` bulk acts,
/// whose command asks for `--all`.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub tenant: Option<String>,
    pub event_id: Option<String>,
    pub destination: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct RedriveOrder {
    pub target: Target,
    pub limit: u32,
    pub stagger: std::time::Duration,
    /// The wait before the first, so that repeated calls continue the stagger.
    pub start_after: std::time::Duration,
    /// Also what expired; stored on the row.
    pub ignore_expiry: bool,
}

#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    pub tenant: Option<String>,
    pub event_id: Option<String>,
    pub destination: Option<String>,
    pub topic: Option<String>,
    pub status: Option<DeliveryStatus>,
    /// Only what is listed after this delivery: the next page.
    pub after: Option<PageEnd>,
    pub limit: u32,
}

/// The delivery that a page ended with. A page may end between the deliveries of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageEnd {
    pub event: EventSeq,
    /// None: after all deliveries of the event.
    pub destination: Option<String>,
}

/// A delivery with what a list shows of its event.
#[derive(Clone, Debug, Serialize)]
pub struct DeliveryRow {
    pub sequence: i64,
    pub tenant: String,
    pub event_id: String,
    pub topic: String,
    pub key: Option<String>,
    pub destination: String,
    pub status: DeliveryStatus,
    pub attempts: u32,
    pub deferrals: u32,
    pub lost: u32,
    pub fence: i64,
    pub due_at: Option<Timestamp>,
    pub lease_until: Option<Timestamp>,
    pub claimed_by: Option<String>,
    pub disposition: Option<String>,
    pub reference: Option<String>,
    pub last_error: Option<String>,
    pub uncertain: bool,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// A part of what a destination's lane has behind it.
#[derive(Clone, Debug, Default)]
pub struct RecordedPage {
    pub deliveries: Vec<RecordedDelivery>,
    /// Before this event the next page begins; none after the last one.
    pub next: Option<EventSeq>,
}

/// A delivery that ended, delivered or dead.
#[derive(Clone, Debug)]
pub struct RecordedDelivery {
    pub event: Event,
    pub status: DeliveryStatus,
    pub disposition: Option<String>,
    /// Of its last attempt, if there was one.
    pub outcome: Option<String>,
    pub code: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct EventReport {
    pub sequence: i64,
    pub tenant: String,
    pub event_id: String,
    pub topic: String,
    pub key: Option<String>,
    pub headers: Vec<(String, String)>,
    pub content_type: String,
    pub payload_bytes: u64,
    pub created_at: Timestamp,
    pub available_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub deliveries: Vec<DeliveryRow>,
    pub attempts: Vec<AttemptRow>,
}

#[derive(Clone, Debug, Serialize)]
pub struct AttemptRow {
    pub destination: String,
    pub fence: i64,
    pub attempt: u32,
    pub host: String,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub outcome: String,
    pub code: Option<String>,
    pub message: Option<String>,
    pub uncertain: bool,
    pub component_digest: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LaneReport {
    pub destination: String,
    #[serde(skip)]
    pub id: Option<DestinationId>,
    pub state: LaneState,
    pub paused_until: Option<Timestamp>,
    pub reason: Option<String>,
    pub pending: u64,
    pub leased: u64,
    pub dead: u64,
    /// `pending` and `dead` stop counting here, so that a status over ten million rows is quick.
    pub counted_up_to: u64,
    /// Creation of the oldest pending event.
    pub oldest_pending: Option<Timestamp>,
    pub now: Timestamp,
}

#[derive(Clone, Debug, Serialize)]
pub struct HostReport {
    pub host: String,
    pub version: String,
    pub config_digest: String,
    pub schema_version: i64,
    pub last_seen: Timestamp,
    pub is_current: bool,
    #[serde(flatten)]
    pub notes: HostNotes,
}

#[derive(Clone, Debug, Serialize)]
pub struct ActionRow {
    pub at: Timestamp,
    pub who: String,
    pub action: String,
    pub target: String,
    pub count: i64,
}

impl Serialize for Timestamp {
    /// RFC 3339 in UTC with microseconds: what people read and other tools parse.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&rfc3339(*self))
    }
}

/// RFC 3339 in UTC with microseconds.
pub fn rfc3339(at: Timestamp) -> String {
    use time::macros::format_description;
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.0) * 1_000)
        .ok()
        .and_then(|at| at.format(&format).ok())
        .unwrap_or_else(|| format!("{} µs since 1970", at.0))
}
