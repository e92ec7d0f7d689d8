//! What was delivered or died, newest first.

use sqlx::postgres::PgRow;

use super::claim::event;
use super::reports::status;
use super::*;

impl PostgresStore {
    pub(super) async fn read_recorded(
        &self,
        destination: &str,
        before: Option<EventSeq>,
        page_rows: u32,
    ) -> StoreResult<RecordedPage> {
        let mut work = self.one().await?;
        let (id, _) = self.destination(work.connection(), destination).await?;
        let rows = sqlx::query(self.statements.recorded.clone())
            .bind(id)
            .bind(before.map_or(i64::MAX, |before| before.0))
            .bind(i64::from(page_rows))
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        page(&rows).map_err(map)
    }
}

fn page(rows: &[PgRow]) -> sqlx::Result<RecordedPage> {
    let next = rows.last().map(|row| row.try_get("event_seq")).transpose()?.map(EventSeq);
    let deliveries = rows.iter().map(recorded).collect::<sqlx::Result<Vec<_>>>()?;
    Ok(RecordedPage { deliveries: deliveries.into_iter().flatten().collect(), next })
}

/// None of the row that only says where the page ends.
fn recorded(row: &PgRow) -> sqlx::Result<Option<RecordedDelivery>> {
    let status = status(row)?;
    if !matches!(status, DeliveryStatus::Delivered | DeliveryStatus::Dead) {
        return Ok(None);
    }
    Ok(Some(RecordedDelivery {
        event: event(EventSeq(row.try_get("event_seq")?), row)?,
        status,
        disposition: row.try_get("disposition")?,
        outcome: row.try_get("outcome")?,
        code: row.try_get("code")?,
    }))
}
