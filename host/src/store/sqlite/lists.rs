//! What people look at.

use bytes::Bytes;
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, query};

use super::SqliteStore;
use super::errors::Work;
use super::lanes::state;
use super::rows::*;
use crate::domain::{DestinationId, EventSeq, UNROUTED};
use crate::store::*;

impl SqliteStore {
    /// The destinations a filter means, the reserved one among them.
    pub(super) async fn destination_ids(&self, name: Option<&str>) -> Work<Vec<i64>> {
        let rows = query(self.sql.destinations.clone()).fetch_all(&self.readers).await?;
        let mut ids = Vec::new();
        for row in &rows {
            if name.is_none_or(|name| text(row, "name").is_ok_and(|is| is == name)) {
                ids.push(row.try_get("id")?);
            }
        }
        Ok(ids)
    }

    pub(super) async fn event_seqs(&self, event_id: &str, tenant: Option<&str>) -> Work<Vec<i64>> {
        let rows =
            query(self.sql.find_events.clone()).bind(event_id).bind(tenant).fetch_all(&self.readers).await?;
        Ok(rows.iter().map(|row| row.try_get("seq")).collect::<sqlx::Result<_>>()?)
    }

    pub(super) async fn list_deliveries(&self, filter: &DeliveryFilter) -> Work<Vec<DeliveryRow>> {
        let ids = self.destination_ids(filter.destination.as_deref()).await?;
        let after_destination = match filter.after.as_ref().and_then(|after| after.destination.as_deref()) {
            Some(name) => self.destination_ids(Some(name)).await?.first().copied().unwrap_or(i64::MAX),
            None => i64::MAX,
        };
        let statement = match &filter.event_id {
            Some(event_id) => {
                let seqs = self.event_seqs(event_id, filter.tenant.as_deref()).await?;
                query(self.sql.list_of_events.clone())
                    .bind(json!(seqs).to_string())
                    .bind(json!(ids).to_string())
            }
            None => {
                let sql = match filter.status {
                    Some(DeliveryStatus::Dead) => &self.sql.list_dead,
                    Some(DeliveryStatus::Pending) => &self.sql.list_pending,
                    _ => &self.sql.list,
                };
                query(sql.clone()).bind(json!(ids).to_string()).bind(&filter.tenant)
            }
        };
        let rows = statement
            .bind(filter.status.map(DeliveryStatus::code))
            .bind(&filter.topic)
            .bind(filter.after.as_ref().map_or(i64::MIN, |after| after.event.0))
            .bind(filter.limit)
            .bind(after_destination)
            .fetch_all(&self.readers)
            .await?;
        Ok(rows.iter().map(delivery).collect::<sqlx::Result<_>>()?)
    }

    pub(super) async fn show_event(&self, tenant: &str, event_id: &str) -> Work<Option<EventReport>> {
        let row = query(self.sql.show_event.clone())
            .bind(tenant)
            .bind(event_id)
            .fetch_optional(&self.readers)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let seq: i64 = row.try_get("seq")?;
        let filter = DeliveryFilter {
            tenant: Some(tenant.to_owned()),
            event_id: Some(event_id.to_owned()),
            limit: u32::MAX,
            ..DeliveryFilter::default()
        };
        let attempts = query(self.sql.show_attempts.clone()).bind(seq).fetch_all(&self.readers).await?;
        Ok(Some(EventReport {
            sequence: seq,
            tenant: text(&row, "tenant_id")?,
            event_id: text(&row, "event_id")?,
            topic: text(&row, "topic")?,
            key: maybe_text(&row, "partition_key")?,
            headers: headers(&row, "headers")?,
            content_type: text(&row, "content_type")?,
            payload_bytes: big_count(&row, "payload_bytes")?,
            created_at: time(&row, "created_at")?,
            available_at: maybe_time(&row, "available_at")?,
            expires_at: maybe_time(&row, "expires_at")?,
            deliveries: self.list_deliveries(&filter).await?,
            attempts: attempts.iter().map(attempt).collect::<sqlx::Result<_>>()?,
        }))
    }

    pub(super) async fn payload_of(&self, event: EventSeq) -> Work<Option<Bytes>> {
        Ok(self.read_payloads(&[event]).await?.pop().map(|(_, payload)| payload))
    }

    pub(super) async fn report_lanes(&self) -> Work<Vec<LaneReport>> {
        let mut reports = Vec::new();
        for row in query(self.sql.destinations.clone()).fetch_all(&self.readers).await? {
            let id = DestinationId(row.try_get("id")?);
            let statement = match id {
                UNROUTED => query(self.sql.report_unrouted.clone()),
                _ => query(self.sql.report_lane.clone()).bind(id.0),
            };
            let counts = statement.bind(COUNTED_UP_TO as i64).fetch_one(&self.readers).await?;
            let unrouted = id == UNROUTED;
            let pending = big_count(&counts, "pending")?;
            if unrouted && pending == 0 {
                continue;
            }
            reports.push(LaneReport {
                destination: text(&row, "name")?,
                id: (!unrouted).then_some(id),
                state: state(&row)?,
                paused_until: maybe_time(&row, "paused_until")?,
                reason: maybe_text(&row, "reason")?,
                pending,
                leased: if unrouted { 0 } else { big_count(&counts, "leased")? },
                dead: if unrouted { 0 } else { big_count(&counts, "dead")? },
                counted_up_to: COUNTED_UP_TO,
                oldest_pending: maybe_time(&counts, "oldest_pending")?,
                now: time(&counts, "now")?,
            });
        }
        Ok(reports)
    }

    pub(super) async fn list_hosts(&self) -> Work<Vec<HostReport>> {
        let rows = query(self.sql.hosts.clone()).fetch_all(&self.readers).await?;
        Ok(rows.iter().map(host).collect::<sqlx::Result<_>>()?)
    }

    pub(super) async fn list_actions(&self, limit: u32) -> Work<Vec<ActionRow>> {
        let rows = query(self.sql.actions.clone()).bind(limit).fetch_all(&self.readers).await?;
        Ok(rows.iter().map(action).collect::<sqlx::Result<_>>()?)
    }
}

fn delivery(row: &SqliteRow) -> sqlx::Result<DeliveryRow> {
    Ok(DeliveryRow {
        sequence: row.try_get("event_seq")?,
        tenant: text(row, "tenant_id")?,
        event_id: text(row, "event_id")?,
        topic: text(row, "topic")?,
        key: maybe_text(row, "partition_key")?,
        destination: text(row, "destination")?,
        status: status(row)?,
        attempts: count(row, "attempts")?,
        deferrals: count(row, "deferrals")?,
        lost: count(row, "lost")?,
        fence: row.try_get("fence")?,
        due_at: maybe_time(row, "due_at")?,
        lease_until: maybe_time(row, "lease_until")?,
        claimed_by: maybe_text(row, "claimed_by")?,
        disposition: maybe_text(row, "disposition")?,
        reference: maybe_text(row, "reference")?,
        last_error: maybe_text(row, "last_error")?,
        uncertain: row.try_get("uncertain")?,
        created_at: time(row, "created_at")?,
        finished_at: maybe_time(row, "finished_at")?,
    })
}

pub(super) fn status(row: &SqliteRow) -> sqlx::Result<DeliveryStatus> {
    let code: i16 = row.try_get("status")?;
    DeliveryStatus::from_code(code).ok_or_else(|| sqlx::Error::ColumnDecode {
        index: "status".to_owned(),
        source: format!("{code} is not a delivery's status").into(),
    })
}

fn attempt(row: &SqliteRow) -> sqlx::Result<AttemptRow> {
    Ok(AttemptRow {
        destination: text(row, "destination")?,
        fence: row.try_get("fence")?,
        attempt: count(row, "attempt")?,
        host: text(row, "host")?,
        started_at: maybe_time(row, "started_at")?,
        ended_at: maybe_time(row, "ended_at")?,
        outcome: text(row, "outcome")?,
        code: maybe_text(row, "code")?,
        message: maybe_text(row, "message")?,
        uncertain: row.try_get("uncertain")?,
        component_digest: maybe_text(row, "component_digest")?,
    })
}

fn host(row: &SqliteRow) -> sqlx::Result<HostReport> {
    Ok(HostReport {
        host: text(row, "host_id")?,
        version: text(row, "version")?,
        config_digest: text(row, "config_digest")?,
        schema_version: row.try_get("schema_version")?,
        last_seen: time(row, "last_seen")?,
        is_current: row.try_get::<Option<bool>, _>("is_current")? == Some(true),
        notes: serde_json::from_str(&text(row, "notes")?).unwrap_or_default(),
    })
}

fn action(row: &SqliteRow) -> sqlx::Result<ActionRow> {
    Ok(ActionRow {
        at: time(row, "at")?,
        who: text(row, "who")?,
        action: text(row, "action")?,
        target: text(row, "target")?,
        count: row.try_get("count")?,
    })
}
