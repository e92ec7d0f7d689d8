//! How a claim ends: every statement matches the token and an unexpired lease, or changes nothing.

use std::time::Duration;

use super::model::{Model, Row};
use crate::domain::{Timestamp, Write};
use crate::store::*;

impl Model {
    /// The delivery this claim still owns.
    fn owned(&mut self, claim: &ClaimRef, now: Timestamp) -> Option<&mut Row> {
        self.rows.get_mut(&(claim.destination, claim.event)).filter(|row| {
            row.status == DeliveryStatus::Pending && row.token == Some(claim.token) && row.has_live_lease(now)
        })
    }

    pub fn renew(&mut self, claim: &ClaimRef, lease: Duration, now: Timestamp) -> Settled {
        let Some(row) = self.owned(claim, now) else { return Settled::Fenced };
        row.lease_until = Some(now.plus(lease));
        row.due_at = row.lease_until;
        Settled::Recorded
    }

    pub fn release(&mut self, claim: &ClaimRef, now: Timestamp) -> Settled {
        let Some(row) = self.owned(claim, now) else { return Settled::Fenced };
        row.end_claim();
        row.attempts -= 1;
        row.make_due(now);
        self.unpark_behind(claim.destination, claim.event, now);
        Settled::Recorded
    }

    pub fn acknowledge(&mut self, result: &Acknowledgement, now: Timestamp) -> Settled {
        let Acknowledgement { claim, write, lane_works, record } = result;
        let Some(row) = self.owned(claim, now) else {
            self.record_fenced(result);
            return Settled::Fenced;
        };
        match write {
            Write::Delivered => {
                row.reference = record.reference.clone();
                row.last_error = None;
                row.finish(DeliveryStatus::Delivered, &record.outcome, now);
            }
            Write::Dead(reason) => {
                row.fail(record);
                row.finish(DeliveryStatus::Dead, reason.as_str(), now);
            }
            Write::Retry(wait) => {
                row.fail(record);
                row.end_claim();
                row.make_due(now.plus(*wait));
            }
            Write::Defer => {
                row.fail(record);
                row.end_claim();
                row.attempts -= 1;
                row.deferrals += 1;
                row.last_deferred_at = Some(now);
                row.make_due(now);
            }
        }
        if *lane_works && let Some(lane) = self.lanes.get_mut(&claim.destination) {
            lane.last_success_at = Some(now);
        }
        let row = self.history_row(result, record.uncertain);
        self.history.insert((claim.event, claim.destination, claim.fence.0), row);
        self.unpark_behind(claim.destination, claim.event, now);
        Settled::Recorded
    }

    /// A late result is kept as an uncertain effect. It replaces `lost`, never another result: a
    /// repeated acknowledgement of a settled claim changes nothing.
    fn record_fenced(&mut self, result: &Acknowledgement) {
        let claim = &result.claim;
        if !self.rows.contains_key(&(claim.destination, claim.event)) {
            return;
        }
        let key = (claim.event, claim.destination, claim.fence.0);
        if self.history.get(&key).is_none_or(|row| row.outcome == LOST) {
            let row = self.history_row(result, true);
            self.history.insert(key, row);
        }
    }

    fn history_row(&self, result: &Acknowledgement, uncertain: bool) -> AttemptRow {
        let Acknowledgement { claim, record, .. } = result;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        AttemptRow {
            destination: self.lanes.get(&claim.destination).map(|lane| lane.name.clone()).unwrap_or_default(),
            fence: claim.fence.0,
            attempt: record.attempt,
            host: record.host_id.clone(),
            started_at: Some(record.started_at),
            ended_at: Some(record.ended_at),
            outcome: record.outcome.clone(),
            code: some(&record.code),
            message: some(&record.message),
            uncertain,
            component_digest: some(&record.component_digest),
        }
    }
}

impl Row {
    fn fail(&mut self, record: &AttemptRecord) {
        self.last_error = record.error_text();
        self.uncertain |= record.uncertain;
    }
}
