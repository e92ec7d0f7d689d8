//! What people look at.

use std::collections::BTreeMap;

use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;

use super::pgtime::{PgTime, time};
use super::*;

impl PostgresStore {
    pub(super) async fn report_lanes(&self) -> StoreResult<Vec<LaneReport>> {
        let mut work = self.one().await?;
        let rows = sqlx::query(self.statements.lane_reports.clone())
            .bind(COUNTED_UP_TO as i64)
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        rows.iter().map(lane_report).collect::<Result<_, _>>().map_err(map)
    }

    pub(super) async fn list(&self, filter: &DeliveryFilter) -> StoreResult<Vec<DeliveryRow>> {
        let mut work = self.one().await?;
        let query = match &filter.event_id {
            Some(id) => {
                let events = self.events(work.connection(), filter.tenant.as_deref(), id).await?;
                sqlx::query(self.statements.deliveries_of_events.clone()).bind(events)
            }
            None => sqlx::query(self.statements.deliveries.clone()).bind(&filter.tenant),
        };
        let rows = query
            .persistent(false)
            .bind(&filter.destination)
            .bind(&filter.topic)
            .bind(filter.status.map(DeliveryStatus::code))
            .bind(filter.after.as_ref().map(|after| after.event.0))
            .bind(i64::from(filter.limit))
            .bind(filter.after.as_ref().and_then(|after| after.destination.clone()))
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        rows.iter().map(delivery_row).collect::<Result<_, _>>().map_err(map)
    }

    pub(super) async fn report_event(
        &self,
        tenant: &str,
        event_id: &str,
    ) -> StoreResult<Option<EventReport>> {
        let mut work = self.one().await?;
        let event = sqlx::query(self.statements.event.clone())
            .bind(tenant)
            .bind(event_id)
            .fetch_optional(work.connection())
            .await
            .map_err(map)?;
        let Some(event) = event else { return Ok(None) };
        let seq: i64 = event.try_get("seq").map_err(map)?;
        let deliveries = sqlx::query(self.statements.deliveries_of_events.clone())
            .bind(vec![seq])
            .bind(None::<String>)
            .bind(None::<String>)
            .bind(None::<i16>)
            .bind(None::<i64>)
            .bind(i64::MAX)
            .bind(None::<String>)
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        let attempts = sqlx::query(self.statements.attempts.clone())
            .bind(seq)
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        event_report(&event, &deliveries, &attempts).map(Some).map_err(map)
    }

    pub(super) async fn report_hosts(&self) -> StoreResult<Vec<HostReport>> {
        let mut work = self.one().await?;
        let rows =
            sqlx::query(self.statements.hosts.clone()).fetch_all(work.connection()).await.map_err(map)?;
        work.done().await?;
        rows.iter().map(host_report).collect::<Result<_, _>>().map_err(map)
    }

    pub(super) async fn report_actions(&self, limit: u32) -> StoreResult<Vec<ActionRow>> {
        let mut work = self.one().await?;
        let rows = sqlx::query(self.statements.actions.clone())
            .bind(i64::from(limit))
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        rows.iter().map(action_row).collect::<Result<_, _>>().map_err(map)
    }
}

fn unsigned(row: &PgRow, column: &str) -> sqlx::Result<u32> {
    Ok(row.try_get::<i32, _>(column)?.unsigned_abs())
}

fn lane_report(row: &PgRow) -> sqlx::Result<LaneReport> {
    let id: i64 = row.try_get("id")?;
    let PgTime(now) = row.try_get("now")?;
    let count = |column: &str| row.try_get::<i64, _>(column).map(i64::unsigned_abs);
    Ok(LaneReport {
        destination: row.try_get("name")?,
        id: (id > 0).then_some(DestinationId(id)),
        state: lanes::lane_state(row)?,
        paused_until: time(row.try_get("paused_until")?),
        reason: row.try_get("reason")?,
        pending: count("pending")?,
        leased: count("leased")?,
        dead: count("dead")?,
        counted_up_to: COUNTED_UP_TO,
        oldest_pending: time(row.try_get("oldest_pending")?),
        now,
    })
}

fn delivery_row(row: &PgRow) -> sqlx::Result<DeliveryRow> {
    let PgTime(created_at) = row.try_get("created_at")?;
    Ok(DeliveryRow {
        sequence: row.try_get("event_seq")?,
        tenant: row.try_get("tenant_id")?,
        event_id: row.try_get("event_id")?,
        topic: row.try_get("topic")?,
        key: row.try_get("partition_key")?,
        destination: row.try_get("destination")?,
        status: status(row)?,
        attempts: unsigned(row, "attempts")?,
        deferrals: unsigned(row, "deferrals")?,
        lost: unsigned(row, "lost")?,
        fence: row.try_get("fence")?,
        due_at: time(row.try_get("due_at")?),
        lease_until: time(row.try_get("lease_until")?),
        claimed_by: row.try_get("claimed_by")?,
        disposition: row.try_get("disposition")?,
        reference: row.try_get("reference")?,
        last_error: row.try_get("last_error")?,
        uncertain: row.try_get("uncertain")?,
        created_at,
        finished_at: time(row.try_get("finished_at")?),
    })
}

pub(super) fn status(row: &PgRow) -> sqlx::Result<DeliveryStatus> {
    let code: i16 = row.try_get("status")?;
    DeliveryStatus::from_code(code)
        .ok_or_else(|| sqlx::Error::Decode(format!("a delivery can't have the status {code}").into()))
}

fn event_report(event: &PgRow, deliveries: &[PgRow], attempts: &[PgRow]) -> sqlx::Result<EventReport> {
    let headers: Option<Json<BTreeMap<String, String>>> = event.try_get("headers")?;
    let PgTime(created_at) = event.try_get("created_at")?;
    Ok(EventReport {
        sequence: event.try_get("seq")?,
        tenant: event.try_get("tenant_id")?,
        event_id: event.try_get("event_id")?,
        topic: event.try_get("topic")?,
        key: event.try_get("partition_key")?,
        headers: headers.map(|Json(headers)| headers.into_iter().collect()).unwrap_or_default(),
        content_type: event.try_get("content_type")?,
        payload_bytes: u64::from(unsigned(event, "payload_bytes")?),
        created_at,
        available_at: time(event.try_get("available_at")?),
        expires_at: time(event.try_get("expires_at")?),
        deliveries: deliveries.iter().map(delivery_row).collect::<Result<_, _>>()?,
        attempts: attempts.iter().map(attempt_row).collect::<Result<_, _>>()?,
    })
}

fn attempt_row(row: &PgRow) -> sqlx::Result<AttemptRow> {
    Ok(AttemptRow {
        destination: row.try_get("destination")?,
        fence: row.try_get("fence")?,
        attempt: unsigned(row, "attempt")?,
        host: row.try_get("host")?,
        started_at: time(row.try_get("started_at")?),
        ended_at: time(row.try_get("ended_at")?),
        outcome: row.try_get("outcome")?,
        code: row.try_get("code")?,
        message: row.try_get("message")?,
        uncertain: row.try_get("uncertain")?,
        component_digest: row.try_get("component_digest")?,
    })
}

fn host_report(row: &PgRow) -> sqlx::Result<HostReport> {
    let PgTime(last_seen) = row.try_get("last_seen")?;
    let Json(notes) = row.try_get("notes")?;
    Ok(HostReport {
        host: row.try_get("host_id")?,
        version: row.try_get("version")?,
        config_digest: row.try_get("config_digest")?,
        schema_version: row.try_get("schema_version")?,
        last_seen,
        is_current: row.try_get("is_current")?,
        notes,
    })
}

fn action_row(row: &PgRow) -> sqlx::Result<ActionRow> {
    let PgTime(at) = row.try_get("at")?;
    Ok(ActionRow {
        at,
        who: row.try_get("who")?,
        action: row.try_get("action")?,
        target: row.try_get("target")?,
        count: row.try_get("count")?,
    })
}
