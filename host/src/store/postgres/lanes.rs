//! Lanes as all hosts see them, and the relay's changes to them.

use sqlx::Row;
use sqlx::types::Uuid;

use super::pgtime::time;
use super::*;

impl PostgresStore {
    pub(super) async fn lane_views(&self, destinations: &[DestinationId]) -> StoreResult<Vec<LaneView>> {
        let ids: Vec<i64> = destinations.iter().map(|id| id.0).collect();
        let mut work = self.one().await?;
        let rows = sqlx::query(self.statements.lanes.clone())
            .bind(ids)
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        let views: Vec<LaneView> = rows.iter().map(view).collect::<Result<_, _>>().map_err(map)?;
        let find = |id: &DestinationId| views.iter().find(|view| view.destination == *id).cloned();
        Ok(destinations.iter().filter_map(find).collect())
    }

    pub(super) async fn promise_to_look(
        &self,
        destinations: &[DestinationId],
        wait: Duration,
    ) -> StoreResult<()> {
        let ids: Vec<i64> = destinations.iter().map(|id| id.0).collect();
        let mut work = self.one().await?;
        sqlx::query(self.statements.attend.clone())
            .bind(ids)
            .bind(wait_us(wait))
            .execute(work.connection())
            .await
            .map_err(map)?;
        work.done().await
    }

    pub(super) async fn take_the_probe(
        &self,
        destination: DestinationId,
        lease: Duration,
    ) -> StoreResult<Option<ProbeToken>> {
        let mut work = self.one().await?;
        let token: Option<Uuid> = sqlx::query_scalar(self.statements.take_probe.clone())
            .bind(destination.0)
            .bind(wait_us(lease))
            .fetch_optional(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        Ok(token.map(|token| ProbeToken(token.into_bytes())))
    }

    pub(super) async fn change_the_lane(
        &self,
        destination: DestinationId,
        epoch: i64,
        change: LaneChange,
    ) -> StoreResult<bool> {
        let statements = &self.statements;
        let on = |statement: &SqlStr| sqlx::query(statement.clone()).bind(destination.0).bind(epoch);
        let query = match change {
            LaneChange::Pause { wait, reason, probe } => on(&statements.pause_lane)
                .bind(wait_us(wait))
                .bind(text(&reason))
                .bind(probe.map(|ProbeToken(token)| Uuid::from_bytes(token))),
            LaneChange::Stop { reason } => on(&statements.stop_lane).bind(text(&reason)),
            LaneChange::Reopen { probe, success } => {
                on(&statements.reopen_lane).bind(Uuid::from_bytes(probe.0)).bind(success)
            }
            LaneChange::Revive => on(&statements.revive_lane),
            LaneChange::DropProbe { probe } => on(&statements.drop_probe).bind(Uuid::from_bytes(probe.0)),
        };
        let mut work = self.one().await?;
        let done = query.execute(work.connection()).await.map_err(map)?;
        work.done().await?;
        Ok(done.rows_affected() == 1)
    }

    pub(super) async fn count_a_rejection(
        &self,
        destination: DestinationId,
        event: Option<EventSeq>,
    ) -> StoreResult<u32> {
        let mut work = self.one().await?;
        let rejections: Option<i32> = sqlx::query_scalar(self.statements.count_rejection.clone())
            .bind(destination.0)
            .bind(event.map(|seq| seq.0))
            .fetch_optional(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        Ok(rejections.unwrap_or(0).unsigned_abs())
    }
}

fn view(row: &sqlx::postgres::PgRow) -> sqlx::Result<LaneView> {
    Ok(LaneView {
        destination: DestinationId(row.try_get("id")?),
        state: lane_state(row)?,
        epoch: row.try_get("epoch")?,
        pauses: row.try_get::<i32, _>("pauses")?.unsigned_abs(),
        paused_until: time(row.try_get("paused_until")?),
        has_due: row.try_get("has_due")?,
        has_due_suspect: row.try_get("has_due_suspect")?,
        wants_probe: row.try_get("wants_probe")?,
        next_due_at: time(row.try_get("next_due_at")?),
    })
}

pub(super) fn lane_state(row: &sqlx::postgres::PgRow) -> sqlx::Result<LaneState> {
    let word: String = row.try_get("state")?;
    LaneState::parse(&word)
        .ok_or_else(|| sqlx::Error::Decode(format!("a lane can't be in the state {word:?}").into()))
}
