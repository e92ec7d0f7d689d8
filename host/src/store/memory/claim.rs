//! Taking due deliveries: what the one claim statement of a database does.

use std::collections::BTreeSet;

use super::keys::Standing;
use super::model::{Lane, Model, Row};
use crate::domain::{ClaimToken, DeadReason, Event, EventSeq, Fence, Timestamp};
use crate::store::*;

impl Lane {
    /// Whether a claim may take anything: the lane is active, or paused and this is its probe.
    fn admits(&self, probe: Option<ProbeToken>, now: Timestamp) -> bool {
        match self.state {
            LaneState::Active => true,
            LaneState::Paused => probe.is_some_and(|token| self.is_probed_by(token, now)),
            LaneState::Stopped | LaneState::Removed => false,
        }
    }
}

impl Row {
    pub(super) fn is_suspect(&self) -> bool {
        // A due row that still has its token is a claim that expired: its loss counts already.
        self.lost + u32::from(self.token.is_some()) >= SUSPECT_LOST_MIN
    }
}

impl Model {
    pub fn claim(
        &mut self,
        request: &ClaimRequest,
        now: Timestamp,
        new_token: &dyn Fn() -> ClaimToken,
    ) -> Claims {
        let mut claims = Claims::default();
        let admitted = self
            .lanes
            .get(&request.destination)
            .is_some_and(|lane| lane.order == request.order && lane.admits(request.probe, now));
        if !admitted {
            return claims;
        }
        let limit = if request.probe.is_some() { request.limit.min(1) } else { request.limit };
        let mut keys = BTreeSet::new();
        for seq in self.candidates(request, limit, now) {
            let row = self.row_mut(request.destination, seq);
            if let Some(key) = &row.key {
                keys.insert((row.tenant.clone(), key.clone()));
            }
            self.take(request, seq, now, new_token, &mut claims);
        }
        for (tenant, key) in keys {
            self.unpark_first(request.destination, &tenant, &key, now);
        }
        claims
    }

    fn row_mut(&mut self, destination: DestinationId, seq: EventSeq) -> &mut Row {
        self.rows.get_mut(&(destination, seq)).expect("rows are never deleted")
    }

    fn candidates(&self, request: &ClaimRequest, limit: u32, now: Timestamp) -> Vec<EventSeq> {
        let mut due: Vec<_> = self
            .rows_of(request.destination)
            .filter(|row| row.is_due(now) && row.is_suspect() == (request.which == Which::Suspect))
            .map(|row| (row.due_at, row.event))
            .collect();
        due.sort();
        due.into_iter().take(limit as usize).map(|(_, seq)| seq).collect()
    }

    fn take(
        &mut self,
        request: &ClaimRequest,
        seq: EventSeq,
        now: Timestamp,
        new_token: &dyn Fn() -> ClaimToken,
        claims: &mut Claims,
    ) {
        let was_lost = self.count_loss(request.destination, seq, now);
        claims.lost += u32::from(was_lost);
        let row = self.row_mut(request.destination, seq);
        if let Some(reason) = burial(row, request.max_attempts, was_lost, now) {
            row.finish(DeliveryStatus::Dead, reason.as_str(), now);
            claims.buried.push((seq, reason));
            return;
        }
        let standing = self.standing(request.destination, seq, request.order, now);
        let row = self.row_mut(request.destination, seq);
        match standing {
            Standing::Head => claims.claimed.push(self.write_claim(request, seq, now, new_token())),
            Standing::Behind => {
                row.parked = true;
                claims.parked += 1;
            }
            Standing::WaitsUntil(lease_until) => {
                row.make_due(lease_until);
                claims.parked += 1;
            }
        }
    }

    /// A claim that expired without a word: counted, and in the history unless a late result is.
    fn count_loss(&mut self, destination: DestinationId, seq: EventSeq, now: Timestamp) -> bool {
        let name = self.lanes[&destination].name.clone();
        let row = self.row_mut(destination, seq);
        if row.token.is_none() {
            return false;
        }
        let lost = AttemptRow {
            destination: name,
            fence: row.fence,
            attempt: row.attempts,
            host: row.claimed_by.clone().unwrap_or_default(),
            started_at: row.claimed_at,
            ended_at: row.lease_until,
            outcome: LOST.to_owned(),
            code: None,
            message: None,
            uncertain: true,
            component_digest: None,
        };
        row.last_error = Some(format!("lost: host {} did not answer before its lease ended", lost.host));
        row.lost += 1;
        row.uncertain = true;
        row.end_claim();
        row.make_due(now);
        let key = (seq, destination, row.fence);
        self.history.entry(key).or_insert(lost);
        true
    }

    fn write_claim(
        &mut self,
        request: &ClaimRequest,
        seq: EventSeq,
        now: Timestamp,
        token: ClaimToken,
    ) -> Claimed {
        let row = self.row_mut(request.destination, seq);
        let until = now.plus(request.lease);
        row.attempts += 1;
        row.fence += 1;
        row.token = Some(token);
        row.lease_until = Some(until);
        row.due_at = Some(until);
        row.claimed_by = Some(request.host_id.clone());
        row.claimed_at = Some(now);
        let first_claimed_at = *row.first_claimed_at.get_or_insert(now);
        let row = row.clone();
        let lane = &self.lanes[&request.destination];
        Claimed {
            claim: ClaimRef { event: seq, destination: row.destination, token, fence: Fence(row.fence) },
            event: self.event(seq),
            attempt: row.attempts,
            deferrals: row.deferrals,
            lost: row.lost,
            uncertain_before: row.uncertain,
            claimed_at: now,
            first_claimed_at,
            deferred_before_success: row
                .last_deferred_at
                .is_some_and(|deferred| lane.last_success_at.is_some_and(|success| deferred < success)),
            lane_epoch: lane.epoch,
            lane_pauses: lane.pauses,
        }
    }

    fn event(&self, seq: EventSeq) -> Event {
        let event = &self.events[&seq];
        Event {
            seq,
            tenant: event.tenant.clone(),
            id: event.id.clone(),
            topic: event.topic.clone(),
            key: event.key.clone(),
            headers: event.headers.clone(),
            content_type: event.content_type.clone(),
            created_at: event.created_at,
            expires_at: event.expires_at,
            payload_bytes: event.payload.len() as u64,
        }
    }
}

/// Whether a due row becomes a dead letter instead of a claim. Expiry is asked first, because an
/// expired delivery never blocks its key and an exhausted one may.
fn burial(row: &Row, max_attempts: u32, was_lost: bool, now: Timestamp) -> Option<DeadReason> {
    if row.is_past_expiry(now) {
        Some(DeadReason::Expired)
    } else if row.attempts < max_attempts {
        None
    } else if was_lost {
        Some(DeadReason::AttemptsExhaustedUnknown)
    } else {
        Some(DeadReason::AttemptsExhausted)
    }
}
