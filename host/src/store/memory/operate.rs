//! What people ask of the model and do to it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use bytes::Bytes;

use super::MemoryStore;
use super::model::{Lane, Model, Row};
use crate::domain::{DestinationId, EventSeq, Timestamp, UNROUTED};
use crate::store::*;

impl Model {
    fn name_of(&self, destination: DestinationId) -> String {
        self.lanes.get(&destination).map_or_else(|| UNROUTED_NAME.to_owned(), |lane| lane.name.clone())
    }

    fn act(&mut self, who: &str, action: &str, target: String, count: u64, now: Timestamp) {
        if count > 0 {
            let row = ActionRow {
                at: now,
                who: who.to_owned(),
                action: action.to_owned(),
                target,
                count: i64::try_from(count).unwrap_or(i64::MAX),
            };
            self.actions.push(row);
        }
    }

    fn lane_named(&mut self, name: &str) -> StoreResult<&mut Lane> {
        match self.lanes.values_mut().find(|lane| lane.name == name) {
            None => Err(unknown(name)),
            Some(lane) if lane.state == LaneState::Removed => Err(StoreError::Refused(format!(
                "destination {name:?} was removed from the config; add it there again to make it active"
            ))),
            Some(lane) => Ok(lane),
        }
    }

    /// The deliveries an act means, by event, in one state.
    fn targets(
        &self,
        target: &Target,
        status: DeliveryStatus,
    ) -> StoreResult<Vec<(DestinationId, EventSeq)>> {
        if let Some(name) = &target.destination
            && self.find_lane(name).is_none()
        {
            return Err(unknown(name));
        }
        let mut found: Vec<_> = self
            .rows
            .values()
            .filter(|row| row.status == status && self.is_meant(target, row))
            .map(|row| (row.destination, row.event))
            .collect();
        found.sort_by_key(|(destination, seq)| (*seq, *destination));
        Ok(found)
    }

    fn is_meant(&self, target: &Target, row: &Row) -> bool {
        let matches = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        matches(&target.tenant, &row.tenant)
            && matches(&target.event_id, &self.events[&row.event].id)
            && matches(&target.destination, &self.name_of(row.destination))
    }

    fn delivery_row(&self, row: &Row) -> DeliveryRow {
        let event = &self.events[&row.event];
        DeliveryRow {
            sequence: row.event.0,
            tenant: row.tenant.clone(),
            event_id: event.id.clone(),
            topic: event.topic.clone(),
            key: row.key.clone(),
            destination: self.name_of(row.destination),
            status: row.status,
            attempts: row.attempts,
            deferrals: row.deferrals,
            lost: row.lost,
            fence: row.fence,
            due_at: row.due_at,
            lease_until: row.lease_until,
            claimed_by: row.claimed_by.clone(),
            disposition: row.disposition.clone(),
            reference: row.reference.clone(),
            last_error: row.last_error.clone(),
            uncertain: row.uncertain,
            created_at: event.created_at,
            finished_at: row.finished_at,
        }
    }

    fn is_after(&self, row: &Row, end: &PageEnd) -> bool {
        let last = end.destination.as_deref().and_then(|name| match name {
            UNROUTED_NAME => Some(UNROUTED),
            name => self.find_lane(name),
        });
        row.event > end.event || (row.event == end.event && last.is_some_and(|last| row.destination > last))
    }

    fn list(&self, filter: &DeliveryFilter) -> Vec<DeliveryRow> {
        let target = Target {
            tenant: filter.tenant.clone(),
            event_id: filter.event_id.clone(),
            destination: filter.destination.clone(),
        };
        let mut rows: Vec<&Row> = self
            .rows
            .values()
            .filter(|row| self.is_meant(&target, row))
            .filter(|row| filter.status.is_none_or(|status| status == row.status))
            .filter(|row| filter.after.as_ref().is_none_or(|after| self.is_after(row, after)))
            .filter(|row| filter.topic.as_ref().is_none_or(|topic| *topic == self.events[&row.event].topic))
            .collect();
        rows.sort_by_key(|row| (row.event, row.destination));
        rows.into_iter().take(filter.limit as usize).map(|row| self.delivery_row(row)).collect()
    }

    fn report(&self, id: DestinationId, lane: Option<&Lane>, now: Timestamp) -> LaneReport {
        let rows: Vec<&Row> = self.rows_of(id).collect();
        let is_waiting = |row: &Row| matches!(row.status, DeliveryStatus::Pending | DeliveryStatus::Unrouted);
        let count = |test: &dyn Fn(&Row) -> bool| {
            (rows.iter().filter(|row| test(row)).count() as u64).min(COUNTED_UP_TO)
        };
        LaneReport {
            destination: self.name_of(id),
            id: lane.map(|_| id),
            state: lane.map_or(LaneState::Active, |lane| lane.state),
            paused_until: lane.and_then(|lane| lane.paused_until),
            reason: lane.and_then(|lane| lane.reason.clone()),
            pending: count(&is_waiting),
            leased: count(&|row| row.status == DeliveryStatus::Pending && row.has_live_lease(now)),
            dead: count(&|row| row.status == DeliveryStatus::Dead),
            counted_up_to: COUNTED_UP_TO,
            oldest_pending: rows
                .iter()
                .filter(|row| is_waiting(row))
                .map(|row| self.events[&row.event].created_at)
                .min(),
            now,
        }
    }

    fn show(&self, tenant: &str, event_id: &str) -> Option<EventReport> {
        let event = self.find_event(tenant, event_id)?;
        let mut attempts: Vec<AttemptRow> = self
            .history
            .iter()
            .filter(|((seq, ..), _)| *seq == event.seq)
            .map(|(_, row)| row.clone())
            .collect();
        attempts.sort_by(|a, b| (&a.destination, a.fence).cmp(&(&b.destination, b.fence)));
        Some(EventReport {
            sequence: event.seq.0,
            tenant: event.tenant.clone(),
            event_id: event.id.clone(),
            topic: event.topic.clone(),
            key: event.key.clone(),
            headers: event.headers.clone(),
            content_type: event.content_type.clone(),
            payload_bytes: event.payload.len() as u64,
            created_at: event.created_at,
            available_at: event.available_at,
            expires_at: event.expires_at,
            deliveries: self
                .rows
                .values()
                .filter(|row| row.event == event.seq)
                .map(|row| self.delivery_row(row))
                .collect(),
            attempts,
        })
    }

    fn redrive(&mut self, order: &RedriveOrder, now: Timestamp) -> StoreResult<u64> {
        let mut due = now.plus(order.start_after);
        let mut count = 0;
        for key in self.targets(&order.target, DeliveryStatus::Dead)? {
            let row = self.rows.get_mut(&key).expect("just found");
            if count == u64::from(order.limit) || (row.is_past_expiry(now) && !order.ignore_expiry) {
                continue;
            }
            if order.ignore_expiry {
                row.expires_at = None;
            }
            row.restart(due);
            due = due.plus(order.stagger);
            count += 1;
        }
        Ok(count)
    }
}

fn unknown(name: &str) -> StoreError {
    StoreError::Refused(format!(
        "there is no destination {name:?}; `outhaul lanes list` shows those there are"
    ))
}

#[async_trait]
impl Operate for MemoryStore {
    async fn emit(&self, events: &[NewEvent]) -> StoreResult<Vec<Emitted>> {
        let emitted = self.call("emit", |model, now| {
            events.iter().try_for_each(|event| event.check().map_err(StoreError::Refused))?;
            let mut emitted = Vec::new();
            for event in events {
                if model.find_event(&event.tenant, &event.id).is_some() {
                    emitted.push(Emitted::Existed);
                    continue;
                }
                let row = model.new_event(event, now)?;
                emitted.push(Emitted::Inserted(row.seq));
                let destinations = model.destinations_of(&row.topic);
                model.insert(row, &destinations);
            }
            Ok(emitted)
        });
        self.announce();
        emitted
    }

    async fn lane_reports(&self) -> StoreResult<Vec<LaneReport>> {
        self.call("lane_reports", |model, now| {
            let mut ids: BTreeSet<DestinationId> = model.lanes.keys().copied().collect();
            ids.extend(model.rows_of(UNROUTED).next().map(|row| row.destination));
            Ok(ids.into_iter().map(|id| model.report(id, model.lanes.get(&id), now)).collect())
        })
    }

    async fn pause(&self, destination: &str, reason: &str, who: &str) -> StoreResult<bool> {
        self.call("pause", |model, now| {
            let lane = model.lane_named(destination)?;
            if lane.state == LaneState::Paused && lane.paused_until.is_none() {
                return Ok(false);
            }
            lane.set_state(LaneState::Paused, Some(reason.to_owned()));
            model.act(who, "pause", format!("destination {destination:?}"), 1, now);
            Ok(true)
        })
    }

    async fn resume(&self, destination: &str, who: &str) -> StoreResult<bool> {
        let resumed = self.call("resume", |model, now| {
            model.lane_named(destination)?.set_state(LaneState::Active, None);
            model.act(who, "resume", format!("destination {destination:?}"), 1, now);
            Ok(true)
        });
        self.announce();
        resumed
    }

    async fn deliveries(&self, filter: &DeliveryFilter) -> StoreResult<Vec<DeliveryRow>> {
        self.call("deliveries", |model, _| Ok(model.list(filter)))
    }

    async fn show(&self, tenant: &str, event_id: &str) -> StoreResult<Option<EventReport>> {
        self.call("show", |model, _| Ok(model.show(tenant, event_id)))
    }

    async fn payload(&self, event: EventSeq) -> StoreResult<Option<Bytes>> {
        self.call("payload", |model, _| Ok(model.events.get(&event).map(|event| event.payload.clone())))
    }

    async fn recorded(
        &self,
        destination: &str,
        before: Option<EventSeq>,
        page_rows: u32,
    ) -> StoreResult<RecordedPage> {
        self.call("recorded", |model, _| {
            let id = model.find_lane(destination).ok_or_else(|| unknown(destination))?;
            Ok(model.recorded(id, before, page_rows))
        })
    }

    async fn cancel(&self, target: &Target, who: &str) -> StoreResult<u64> {
        self.call("cancel", |model, now| {
            target.require_one()?;
            let found = model.targets(target, DeliveryStatus::Pending)?;
            for key in &found {
                let row = model.rows.get_mut(key).expect("just found");
                let live_lease = row.lease_until.filter(|until| *until > now);
                row.finish(DeliveryStatus::Cancelled, "cancelled", now);
                row.lease_until = live_lease;
                model.unpark_behind(key.0, key.1, now);
            }
            model.act(who, "cancel", target.describe(), found.len() as u64, now);
            Ok(found.len() as u64)
        })
    }

    async fn redeliver(&self, target: &Target, who: &str) -> StoreResult<u64> {
        let redelivered = self.call("redeliver", |model, now| {
            target.require_one()?;
            let found = model.targets(target, DeliveryStatus::Delivered)?;
            for key in &found {
                let row = model.rows.get_mut(key).expect("just found");
                // On purpose, so neither an old expiry nor a first effect that did happen is news.
                row.expires_at = None;
                row.uncertain = true;
                row.restart(now);
            }
            model.act(who, "redeliver", target.describe(), found.len() as u64, now);
            Ok(found.len() as u64)
        });
        self.announce();
        redelivered
    }

    async fn redrive(&self, order: &RedriveOrder, who: &str) -> StoreResult<u64> {
        let redriven = self.call("redrive", |model, now| {
            let count = model.redrive(order, now)?;
            model.act(who, "redrive", order.target.describe(), count, now);
            Ok(count)
        });
        self.announce();
        redriven
    }

    async fn discard(&self, target: &Target, limit: u32, who: &str) -> StoreResult<u64> {
        let discarded = self.call("discard", |model, now| {
            let mut found = model.targets(target, DeliveryStatus::Dead)?;
            found.truncate(limit as usize);
            for key in &found {
                let row = model.rows.get_mut(key).expect("just found");
                row.finish(DeliveryStatus::Cancelled, "discarded", now);
                model.unpark_behind(key.0, key.1, now);
            }
            model.act(who, "discard", target.describe(), found.len() as u64, now);
            Ok(found.len() as u64)
        });
        self.announce();
        discarded
    }

    async fn hosts(&self) -> StoreResult<Vec<HostReport>> {
        self.call("hosts", |model, _| {
            let mut hosts: Vec<HostReport> = model
                .hosts
                .iter()
                .map(|(id, host)| HostReport {
                    host: id.clone(),
                    version: host.version.clone(),
                    config_digest: host.config_digest.clone(),
                    schema_version: 1,
                    last_seen: host.last_seen,
                    is_current: model.generations.last() == Some(&host.config_digest),
                    notes: host.notes.clone(),
                })
                .collect();
            hosts.sort_by_key(|host| std::cmp::Reverse(host.last_seen));
            Ok(hosts)
        })
    }

    async fn actions(&self, limit: u32) -> StoreResult<Vec<ActionRow>> {
        self.call("actions", |model, _| {
            Ok(model.actions.iter().rev().take(limit as usize).cloned().collect())
        })
    }
}
