//! Housekeeping: what no producer's trigger and no claim has taken care of.

use std::collections::BTreeSet;

use super::model::Model;
use crate::domain::{DeadReason, DestinationId, EventSeq, Timestamp, UNROUTED};
use crate::store::{DeliveryStatus, HOSTS_KEPT, Swept};

impl Model {
    pub fn sweep(&mut self, destinations: &[DestinationId], limit: u32, now: Timestamp) -> Swept {
        let mut left = limit;
        let mut swept = Swept::default();
        self.route_unrouted(&mut left, &mut swept);
        self.adopt(&mut left, &mut swept);
        for destination in destinations {
            self.bury_expired(*destination, now, &mut left, &mut swept);
            self.unpark(*destination, now, &mut left, &mut swept);
        }
        self.hosts.retain(|_, host| now.since(host.last_seen) < HOSTS_KEPT);
        swept.more = left == 0;
        swept
    }

    fn route_unrouted(&mut self, left: &mut u32, swept: &mut Swept) {
        let unrouted: Vec<EventSeq> = self.rows_of(UNROUTED).map(|row| row.event).collect();
        for seq in unrouted {
            let event = self.events[&seq].clone();
            let routed = self.routed_destinations(&event.topic);
            if routed.is_empty() || *left == 0 {
                continue;
            }
            for destination in routed {
                swept.routed += u64::from(self.insert_delivery(&event, destination));
            }
            self.rows.remove(&(UNROUTED, seq));
            *left -= 1;
        }
    }

    fn adopt(&mut self, left: &mut u32, swept: &mut Swept) {
        let known: BTreeSet<EventSeq> = self.rows.keys().map(|(_, seq)| *seq).collect();
        let orphans: Vec<EventSeq> = self.events.keys().filter(|seq| !known.contains(seq)).copied().collect();
        for seq in orphans.into_iter().take(*left as usize) {
            let event = self.events[&seq].clone();
            for destination in self.destinations_of(&event.topic) {
                self.insert_delivery(&event, destination);
            }
            swept.adopted += 1;
            *left -= 1;
        }
    }

    fn bury_expired(
        &mut self,
        destination: DestinationId,
        now: Timestamp,
        left: &mut u32,
        swept: &mut Swept,
    ) {
        let expired: Vec<EventSeq> = self
            .rows_of(destination)
            .filter(|row| {
                row.status == DeliveryStatus::Pending
                    && row.token.is_none()
                    && !row.has_live_lease(now)
                    && row.is_past_expiry(now)
            })
            .map(|row| row.event)
            .take(*left as usize)
            .collect();
        for seq in expired {
            if let Some(row) = self.rows.get_mut(&(destination, seq)) {
                row.finish(DeliveryStatus::Dead, DeadReason::Expired.as_str(), now);
            }
            self.unpark_behind(destination, seq, now);
            *swept.expired.entry(destination).or_default() += 1;
            *left -= 1;
        }
    }

    fn unpark(&mut self, destination: DestinationId, now: Timestamp, left: &mut u32, swept: &mut Swept) {
        let parked: Vec<(String, String)> = self
            .rows_of(destination)
            .filter(|row| row.parked)
            .filter_map(|row| Some((row.tenant.clone(), row.key.clone()?)))
            .collect();
        // Once a row: all of a key go at once when the lane no longer keeps an order, and one
        // where it does, because the second is behind the first.
        for (tenant, key) in parked {
            if *left > 0 && self.unpark_first(destination, &tenant, &key, now) {
                swept.unparked += 1;
                *left -= 1;
            }
        }
    }
}
