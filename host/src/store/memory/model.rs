//! The tables, as maps.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::domain::topic::Pattern;
use crate::domain::{ClaimToken, DestinationId, EventSeq, Timestamp, UNROUTED};
use crate::store::{
    ActionRow, AttemptRow, DeliveryStatus, HostNotes, LaneState, NewEvent, Order, ProbeToken, StoreError,
    StoreResult,
};

#[derive(Default)]
pub(super) struct Model {
    pub last_seq: i64,
    pub events: BTreeMap<EventSeq, EventRow>,
    pub rows: BTreeMap<(DestinationId, EventSeq), Row>,
    pub lanes: BTreeMap<DestinationId, Lane>,
    pub routes: Vec<(Pattern, DestinationId)>,
    /// Digests in the order they were applied; the last is current.
    pub generations: Vec<String>,
    pub history: BTreeMap<(EventSeq, DestinationId, i64), AttemptRow>,
    pub hosts: BTreeMap<String, HostRow>,
    pub actions: Vec<ActionRow>,
}

#[derive(Clone, Debug)]
pub struct EventRow {
    pub seq: EventSeq,
    pub tenant: String,
    pub id: String,
    pub topic: String,
    pub payload: Bytes,
    pub key: Option<String>,
    pub headers: Vec<(String, String)>,
    pub content_type: String,
    pub available_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

/// One delivery.
#[derive(Clone, Debug)]
pub struct Row {
    pub event: EventSeq,
    pub destination: DestinationId,
    pub tenant: String,
    pub key: Option<String>,
    pub status: DeliveryStatus,
    pub attempts: u32,
    pub deferrals: u32,
    pub lost: u32,
    pub fence: i64,
    /// Under a lease it is the lease's end, so that leased rows leave the head of the due order.
    pub due_at: Option<Timestamp>,
    pub token: Option<ClaimToken>,
    pub lease_until: Option<Timestamp>,
    pub claimed_by: Option<String>,
    pub claimed_at: Option<Timestamp>,
    pub disposition: Option<String>,
    pub reference: Option<String>,
    pub last_error: Option<String>,
    pub uncertain: bool,
    pub first_claimed_at: Option<Timestamp>,
    pub last_deferred_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// None once an operator said to ignore it.
    pub expires_at: Option<Timestamp>,
    /// Blocked behind the head of its key, and out of the due order until that changes.
    pub parked: bool,
}

pub(super) struct Lane {
    pub name: String,
    pub state: LaneState,
    pub paused_until: Option<Timestamp>,
    pub reason: Option<String>,
    pub order: Order,
    pub digest: String,
    pub epoch: i64,
    pub pauses: u32,
    pub probe: Option<(ProbeToken, Timestamp)>,
    pub last_success_at: Option<Timestamp>,
    pub rejected: BTreeSet<EventSeq>,
}

pub(super) struct HostRow {
    pub version: String,
    pub config_digest: String,
    pub last_seen: Timestamp,
    pub notes: HostNotes,
}

impl Row {
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.status == DeliveryStatus::Pending && !self.parked && self.due_at.is_some_and(|due| due <= now)
    }

    pub fn has_live_lease(&self, now: Timestamp) -> bool {
        crate::domain::lease::is_held(self.lease_until, now)
    }

    pub fn is_past_expiry(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expiry| expiry <= now)
    }

    /// Due at `at`, but never later than it expires, so that a claim meets it then and buries it.
    pub fn make_due(&mut self, at: Timestamp) {
        self.due_at = Some(self.expires_at.map_or(at, |expiry| expiry.min(at)));
    }

    /// Clears what a claim wrote. The fence stays: it only grows.
    pub fn end_claim(&mut self) {
        self.token = None;
        self.lease_until = None;
        self.claimed_by = None;
    }

    pub fn finish(&mut self, status: DeliveryStatus, disposition: &str, now: Timestamp) {
        self.end_claim();
        self.status = status;
        self.disposition = Some(disposition.to_owned());
        self.finished_at = Some(now);
        self.due_at = None;
        self.parked = false;
    }

    /// Pending by a person's act: attempts start again, fence and history stay.
    pub fn restart(&mut self, due_at: Timestamp) {
        self.end_claim();
        self.status = DeliveryStatus::Pending;
        self.attempts = 0;
        self.disposition = None;
        self.finished_at = None;
        self.first_claimed_at = None;
        self.parked = false;
        self.make_due(due_at);
    }
}

impl Model {
    /// A row for a new event, with the next sequence number.
    pub fn new_event(&mut self, event: &NewEvent, now: Timestamp) -> StoreResult<EventRow> {
        event.check().map_err(StoreError::Refused)?;
        if self.find_event(&event.tenant, &event.id).is_some() {
            return Err(StoreError::Refused(format!("event {:?} exists", event.id)));
        }
        self.last_seq += 1;
        Ok(EventRow {
            seq: EventSeq(self.last_seq),
            tenant: event.tenant.clone(),
            id: event.id.clone(),
            topic: event.topic.clone(),
            payload: event.payload.clone().into(),
            key: event.key.clone(),
            headers: event.headers.clone(),
            content_type: event.content_type.clone().unwrap_or_else(|| "application/json".to_owned()),
            available_at: event.available_at,
            expires_at: event.expires_at,
            created_at: now,
        })
    }

    pub fn find_event(&self, tenant: &str, id: &str) -> Option<&EventRow> {
        self.events.values().find(|event| event.tenant == tenant && event.id == id)
    }

    /// The destinations routed for a topic; the reserved one if none is.
    pub fn destinations_of(&self, topic: &str) -> Vec<DestinationId> {
        let routed = self.routed_destinations(topic);
        if routed.is_empty() { vec![UNROUTED] } else { routed.into_iter().collect() }
    }

    pub fn routed_destinations(&self, topic: &str) -> BTreeSet<DestinationId> {
        self.routes.iter().filter(|(pattern, _)| pattern.matches(topic)).map(|(_, id)| *id).collect()
    }

    pub fn insert(&mut self, event: EventRow, destinations: &[DestinationId]) {
        for destination in destinations {
            self.insert_delivery(&event, *destination);
        }
        self.events.insert(event.seq, event);
    }

    /// Inserts a delivery unless it exists; says whether it did.
    pub fn insert_delivery(&mut self, event: &EventRow, destination: DestinationId) -> bool {
        let unrouted = destination == UNROUTED;
        let due = event.available_at.map_or(event.created_at, |at| at.max(event.created_at));
        let mut row = Row {
            event: event.seq,
            destination,
            tenant: event.tenant.clone(),
            key: event.key.clone(),
            status: if unrouted { DeliveryStatus::Unrouted } else { DeliveryStatus::Pending },
            attempts: 0,
            deferrals: 0,
            lost: 0,
            fence: 0,
            due_at: None,
            token: None,
            lease_until: None,
            claimed_by: None,
            claimed_at: None,
            disposition: None,
            reference: None,
            last_error: None,
            uncertain: false,
            first_claimed_at: None,
            last_deferred_at: None,
            finished_at: None,
            expires_at: event.expires_at,
            parked: false,
        };
        if !unrouted {
            row.make_due(due);
        }
        let slot = self.rows.entry((destination, event.seq));
        match slot {
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(row);
                true
            }
            std::collections::btree_map::Entry::Occupied(_) => false,
        }
    }
}
