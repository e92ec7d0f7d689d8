//! The state of lanes, and the right to probe them.

use std::time::Duration;

use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, query};

use super::SqliteStore;
use super::errors::Work;
use super::rows::*;
use crate::domain::time::micros;
use crate::domain::{DestinationId, EventSeq, Timestamp};
use crate::store::*;

pub(super) fn state(row: &SqliteRow) -> sqlx::Result<LaneState> {
    let word = text(row, "state")?;
    LaneState::parse(&word).ok_or_else(|| sqlx::Error::ColumnDecode {
        index: "state".to_owned(),
        source: format!("{word:?} is not a lane's state").into(),
    })
}

fn view(row: &SqliteRow) -> sqlx::Result<LaneView> {
    let next_due_at: i64 = row.try_get("next_due_at")?;
    Ok(LaneView {
        destination: DestinationId(row.try_get("id")?),
        state: state(row)?,
        epoch: row.try_get("epoch")?,
        pauses: count(row, "pauses")?,
        paused_until: maybe_time(row, "paused_until")?,
        has_due: row.try_get("has_due")?,
        has_due_suspect: row.try_get("has_due_suspect")?,
        wants_probe: row.try_get("wants_probe")?,
        next_due_at: (next_due_at != i64::MAX).then_some(Timestamp(next_due_at)),
    })
}

impl SqliteStore {
    pub(super) async fn lane_views(&self, destinations: &[DestinationId]) -> Work<Vec<LaneView>> {
        let ids: Vec<i64> = destinations.iter().map(|id| id.0).collect();
        let rows =
            query(self.sql.lanes.clone()).bind(json!(ids).to_string()).fetch_all(&self.readers).await?;
        Ok(rows.iter().map(view).collect::<sqlx::Result<_>>()?)
    }

    pub(super) async fn probe(
        &self,
        destination: DestinationId,
        lease: Duration,
    ) -> Work<Option<ProbeToken>> {
        let mut tx = self.begin().await?;
        let row = query(self.sql.take_probe.clone())
            .bind(destination.0)
            .bind(micros(lease))
            .fetch_optional(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(row.map(|row| token(&row, "probe_token")).transpose()?.map(|token| ProbeToken(token.0)))
    }

    pub(super) async fn move_lane(
        &self,
        destination: DestinationId,
        epoch: i64,
        change: LaneChange,
    ) -> Work<bool> {
        let bytes = |probe: ProbeToken| probe.0.to_vec();
        let lane = |sql: &sqlx::SqlStr| query(sql.clone()).bind(destination.0).bind(epoch);
        let reopens = matches!(change, LaneChange::Reopen { .. } | LaneChange::Revive);
        let statement = match change {
            LaneChange::Pause { wait, reason, probe } => {
                lane(&self.sql.pause_lane).bind(micros(wait)).bind(reason).bind(probe.map(bytes))
            }
            LaneChange::Stop { reason } => lane(&self.sql.stop_lane).bind(reason),
            LaneChange::Reopen { probe, success } => {
                lane(&self.sql.reopen_lane).bind(bytes(probe)).bind(success)
            }
            LaneChange::Revive => lane(&self.sql.revive_lane),
            LaneChange::DropProbe { probe } => lane(&self.sql.drop_probe).bind(bytes(probe)),
        };
        let mut tx = self.begin().await?;
        let changed = statement.execute(&mut *tx).await?.rows_affected() == 1;
        if changed && reopens {
            query(self.sql.forget_rejections.clone()).bind(destination.0).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(changed)
    }

    pub(super) async fn reject(&self, destination: DestinationId, event: Option<EventSeq>) -> Work<u32> {
        let mut tx = self.begin().await?;
        let change = match event {
            Some(event) => query(self.sql.note_rejection.clone()).bind(destination.0).bind(event.0),
            None => query(self.sql.forget_rejections.clone()).bind(destination.0),
        };
        change.execute(&mut *tx).await?;
        let row = query(self.sql.count_rejections.clone()).bind(destination.0).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(count(&row, "count")?)
    }
}
