//! What people do: each act and its record in one transaction.

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqlStr, SqliteConnection, query};

use super::SqliteStore;
use super::errors::Work;
use super::lanes::state;
use super::rows::*;
use crate::domain::{EventSeq, Timestamp};
use crate::store::*;

/// Deliveries changed by one transaction of an act that has no limit of its own.
const BATCH: u32 = 2_000;

#[derive(Clone)]
struct Found {
    destination: i64,
    event: i64,
    key: Option<(String, String)>,
}

/// Where an act on a whole lane goes on.
#[derive(Clone, Copy)]
struct Slice {
    status: DeliveryStatus,
    /// (destination, event) of the last one changed.
    after: (i64, i64),
    limit: u32,
    also_expired: bool,
}

impl SqliteStore {
    pub(super) async fn insert_events(&self, events: &[NewEvent]) -> Work<Vec<Emitted>> {
        for event in events {
            event.check().map_err(StoreError::Refused)?;
        }
        let mut tx = self.begin().await?;
        let mut emitted = Vec::with_capacity(events.len());
        for event in events {
            let row = query(self.sql.emit.clone())
                .bind(&event.tenant)
                .bind(&event.id)
                .bind(&event.topic)
                .bind(&event.payload)
                .bind(&event.key)
                .bind(headers_json(&event.headers))
                .bind(&event.content_type)
                .bind(event.available_at.map(|at| at.0))
                .bind(event.expires_at.map(|at| at.0))
                .fetch_optional(&mut *tx)
                .await?;
            emitted.push(match row {
                Some(row) => Emitted::Inserted(EventSeq(row.try_get("seq")?)),
                None => Emitted::Existed,
            });
        }
        tx.commit().await?;
        Ok(emitted)
    }

    async fn act(
        &self,
        tx: &mut SqliteConnection,
        who: &str,
        action: &str,
        target: &str,
        count: u64,
    ) -> sqlx::Result<()> {
        if count > 0 {
            query(self.sql.record_action.clone())
                .bind(who)
                .bind(action)
                .bind(target)
                .bind(i64::try_from(count).unwrap_or(i64::MAX))
                .execute(tx)
                .await?;
        }
        Ok(())
    }

    /// Pauses (with a reason) or resumes a lane.
    pub(super) async fn operate_lane(&self, name: &str, pause: Option<&str>, who: &str) -> Work<bool> {
        let mut tx = self.begin().await?;
        let row = query(self.sql.find_lane.clone()).bind(name).fetch_optional(&mut *tx).await?;
        let Some(row) = row else { return Err(unknown(name).into()) };
        if state(&row)? == LaneState::Removed {
            return Err(StoreError::Refused(format!(
                "destination {name:?} was removed from the config; add it there again to make it active"
            ))
            .into());
        }
        let id: i64 = row.try_get("id")?;
        let (statement, action) = match pause {
            Some(reason) => (query(self.sql.operator_pause.clone()).bind(id).bind(reason), "pause"),
            None => (query(self.sql.activate_lane.clone()).bind(id), "resume"),
        };
        let changed = statement.execute(&mut *tx).await?.rows_affected();
        if changed == 1 && pause.is_none() {
            query(self.sql.forget_rejections.clone()).bind(id).execute(&mut *tx).await?;
        }
        self.act(&mut tx, who, action, &format!("destination {name:?}"), changed).await?;
        tx.commit().await?;
        Ok(changed == 1)
    }

    /// Cancels or redelivers all that the target means, a batch a transaction: producers wait for
    /// one batch at most.
    pub(super) async fn act_on_all(
        &self,
        target: &Target,
        status: DeliveryStatus,
        sql: &SqlStr,
        action: &str,
        who: &str,
    ) -> StoreResult<u64> {
        target.require_one()?;
        let mut slice = Slice { status, after: (i64::MIN, i64::MIN), limit: BATCH, also_expired: true };
        let mut total = 0;
        loop {
            let batch = self.act_on_batch(target, slice, sql, action, who);
            let Some((count, last)) = self.limited(batch).await? else { return Ok(total) };
            slice.after = last;
            total += count;
        }
    }

    /// How many it changed, and where it ended; None if the target means no more.
    async fn act_on_batch(
        &self,
        target: &Target,
        slice: Slice,
        sql: &SqlStr,
        action: &str,
        who: &str,
    ) -> Work<Option<(u64, (i64, i64))>> {
        let mut tx = self.begin().await?;
        let found = self.targets(&mut tx, target, slice).await?;
        let Some(last) = found.last() else { return Ok(None) };
        let count = self.change(&mut tx, sql, &found).await?;
        self.act(&mut tx, who, action, &target.describe(), count).await?;
        tx.commit().await?;
        Ok(Some((count, (last.destination, last.event))))
    }

    pub(super) async fn discard_dead(&self, target: &Target, limit: u32, who: &str) -> Work<u64> {
        let mut tx = self.begin().await?;
        let found = self.targets(&mut tx, target, Slice::dead(limit, true)).await?;
        let count = self.change(&mut tx, &self.sql.discard, &found).await?;
        self.act(&mut tx, who, "discard", &target.describe(), count).await?;
        tx.commit().await?;
        Ok(count)
    }

    pub(super) async fn redrive_dead(&self, order: &RedriveOrder, who: &str) -> Work<u64> {
        let mut tx = self.begin().await?;
        let now = time(&query(self.sql.now.clone()).fetch_one(&mut *tx).await?, "now")?;
        let found =
            self.targets(&mut tx, &order.target, Slice::dead(order.limit, order.ignore_expiry)).await?;
        let mut due = now.plus(order.start_after);
        let mut rows = Vec::with_capacity(found.len());
        for found in &found {
            rows.push((found.destination, found.event, due.0));
            due = due.plus(order.stagger);
        }
        let done = query(self.sql.redrive.clone())
            .bind(json!(rows).to_string())
            .bind(order.ignore_expiry)
            .execute(&mut *tx)
            .await?;
        let count = done.rows_affected();
        self.act(&mut tx, who, "redrive", &order.target.describe(), count).await?;
        tx.commit().await?;
        Ok(count)
    }

    async fn change(&self, tx: &mut SqliteConnection, sql: &SqlStr, found: &[Found]) -> sqlx::Result<u64> {
        let rows: Vec<_> = found.iter().map(|found| (found.destination, found.event)).collect();
        let done = query(sql.clone()).bind(json!(rows).to_string()).execute(&mut *tx).await?;
        let now: Timestamp = time(&query(self.sql.now.clone()).fetch_one(&mut *tx).await?, "now")?;
        let keys: BTreeSet<_> = found
            .iter()
            .filter_map(|found| found.key.clone().map(|(tenant, key)| (found.destination, tenant, key)))
            .collect();
        self.unpark_keys(tx, keys, now).await?;
        Ok(done.rows_affected())
    }

    /// The next deliveries an act means, in the order of their destinations and events.
    async fn targets(&self, tx: &mut SqliteConnection, target: &Target, slice: Slice) -> Work<Vec<Found>> {
        let ids = self.destination_ids(target.destination.as_deref()).await?;
        if let Some(name) = &target.destination
            && (ids.is_empty() || name == UNROUTED_NAME)
        {
            return Err(unknown(name).into());
        }
        if let Some(event_id) = &target.event_id {
            return self.targets_of_event(tx, event_id, target.tenant.as_deref(), &ids, slice).await;
        }
        let mut found = Vec::new();
        for id in ids.into_iter().filter(|id| *id >= slice.after.0) {
            let left = slice.limit - found.len() as u32;
            let after = if id == slice.after.0 { slice.after.1 } else { i64::MIN };
            let lane = |sql: &SqlStr| query(sql.clone()).bind(id).bind(&target.tenant).bind(after).bind(left);
            let statement = match slice.status {
                DeliveryStatus::Dead => lane(&self.sql.dead_of_lane).bind(slice.also_expired),
                DeliveryStatus::Delivered => lane(&self.sql.delivered_of_lane),
                _ => lane(&self.sql.pending_of_lane),
            };
            for row in &statement.fetch_all(&mut *tx).await? {
                found.push(Found::read(row)?);
            }
        }
        Ok(found)
    }

    async fn targets_of_event(
        &self,
        tx: &mut SqliteConnection,
        event_id: &str,
        tenant: Option<&str>,
        ids: &[i64],
        slice: Slice,
    ) -> Work<Vec<Found>> {
        let seqs = self.event_seqs(event_id, tenant).await?;
        let rows = query(self.sql.targets_of_events.clone())
            .bind(slice.status.code())
            .bind(json!(seqs).to_string())
            .bind(json!(ids).to_string())
            .bind(slice.limit)
            .bind(slice.also_expired)
            .fetch_all(tx)
            .await?;
        Ok(rows.iter().map(Found::read).collect::<sqlx::Result<_>>()?)
    }
}

impl Slice {
    fn dead(limit: u32, also_expired: bool) -> Self {
        Self { status: DeliveryStatus::Dead, after: (i64::MIN, i64::MIN), limit, also_expired }
    }
}

impl Found {
    fn read(row: &SqliteRow) -> sqlx::Result<Self> {
        let tenant = text(row, "tenant_id")?;
        Ok(Self {
            destination: row.try_get("destination_id")?,
            event: row.try_get("event_seq")?,
            key: maybe_text(row, "partition_key")?.map(|key| (tenant, key)),
        })
    }
}

pub(super) fn unknown(name: &str) -> StoreError {
    StoreError::Refused(format!(
        "there is no destination {name:?}; `outhaul lanes list` shows those there are"
    ))
}
