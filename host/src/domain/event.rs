//! An event as its producer wrote it, and the identifiers of its rows.

use super::Timestamp;

/// Position of an event in the outbox. Grows with each insert; commit order may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventSeq(pub i64);

/// Identifies a destination in the database; survives renames and removals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub i64);

/// The reserved destination of events that no route matched.
pub const UNROUTED: DestinationId = DestinationId(0);

/// One row of the outbox, without its payload, which is read only when a delivery can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: EventSeq,
    pub tenant: String,
    pub id: String,
    pub topic: String,
    pub key: Option<String>,
    /// In the order the database gives them; names are as the producer wrote them.
    pub headers: Vec<(String, String)>,
    pub content_type: String,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub payload_bytes: u64,
}
