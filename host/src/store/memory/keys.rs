//! Order by key: who is the head, who waits behind it, and who is next.

use super::model::{Model, Row};
use crate::domain::{DeadReason, DestinationId, EventSeq, Timestamp};
use crate::store::{DeliveryStatus, OnDead, Order};

/// Where a due delivery stands in its key.
pub(super) enum Standing {
    /// Nothing of its key is leased, or earlier and unfinished.
    Head,
    /// Whatever ends the delivery in front also puts the next one back into the due order.
    Behind,
    /// Only a cancelled delivery's lease is in the way, and nothing will tell when it ends.
    WaitsUntil(Timestamp),
}

impl Model {
    pub fn rows_of(&self, destination: DestinationId) -> impl Iterator<Item = &Row> {
        self.rows.range((destination, EventSeq(i64::MIN))..=(destination, EventSeq(i64::MAX))).map(|(_, r)| r)
    }

    fn rows_of_key<'a>(
        &'a self,
        destination: DestinationId,
        tenant: &'a str,
        key: &'a str,
    ) -> impl Iterator<Item = &'a Row> {
        self.rows_of(destination).filter(move |row| row.tenant == tenant && row.key.as_deref() == Some(key))
    }

    pub fn standing(
        &self,
        destination: DestinationId,
        seq: EventSeq,
        order: Order,
        now: Timestamp,
    ) -> Standing {
        let row = &self.rows[&(destination, seq)];
        let (Order::Key(on_dead), Some(key)) = (order, &row.key) else { return Standing::Head };
        let mut waits_until = None;
        for other in self.rows_of_key(destination, &row.tenant, key).filter(|other| other.event != seq) {
            let leased = other.has_live_lease(now);
            let pending = other.status == DeliveryStatus::Pending;
            let earlier = other.event < seq;
            if (leased && pending) || (earlier && is_unfinished(other, on_dead, now)) {
                return Standing::Behind;
            }
            if leased {
                waits_until = waits_until.max(other.lease_until);
            }
        }
        waits_until.map_or(Standing::Head, Standing::WaitsUntil)
    }

    /// Puts the first parked delivery of a key back into the due order if its turn has come.
    /// Called wherever a delivery of the key ends, is cancelled, or gives its lease back.
    pub fn unpark_first(
        &mut self,
        destination: DestinationId,
        tenant: &str,
        key: &str,
        now: Timestamp,
    ) -> bool {
        let order = self.lanes.get(&destination).map_or(Order::None, |lane| lane.order);
        let Some(seq) =
            self.rows_of_key(destination, tenant, key).find(|row| row.parked).map(|row| row.event)
        else {
            return false;
        };
        let standing = self.standing(destination, seq, order, now);
        let Some(row) = self.rows.get_mut(&(destination, seq)) else { return false };
        match standing {
            Standing::Behind => return false,
            Standing::Head => {}
            Standing::WaitsUntil(lease_until) => row.make_due(lease_until),
        }
        row.parked = false;
        true
    }

    /// The same, for the key of one delivery.
    pub fn unpark_behind(&mut self, destination: DestinationId, seq: EventSeq, now: Timestamp) {
        let row = &self.rows[&(destination, seq)];
        if let Some(key) = row.key.clone() {
            let tenant = row.tenant.clone();
            self.unpark_first(destination, &tenant, &key, now);
        }
    }
}

fn is_unfinished(row: &Row, on_dead: OnDead, now: Timestamp) -> bool {
    match row.status {
        DeliveryStatus::Pending => !row.is_past_expiry(now) || row.has_live_lease(now),
        DeliveryStatus::Dead => {
            on_dead == OnDead::Block && row.disposition.as_deref() != Some(DeadReason::Expired.as_str())
        }
        DeliveryStatus::Delivered | DeliveryStatus::Cancelled | DeliveryStatus::Unrouted => false,
    }
}
