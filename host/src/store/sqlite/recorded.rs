//! What was delivered or died, newest first.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, query};

use super::SqliteStore;
use super::acts::unknown;
use super::claim::event;
use super::errors::Work;
use super::lists::status;
use super::rows::maybe_text;
use crate::domain::{EventSeq, UNROUTED};
use crate::store::*;

impl SqliteStore {
    pub(super) async fn read_recorded(
        &self,
        destination: &str,
        before: Option<EventSeq>,
        page_rows: u32,
    ) -> Work<RecordedPage> {
        let ids = self.destination_ids(Some(destination)).await?;
        let id = ids.into_iter().find(|id| *id != UNROUTED.0).ok_or_else(|| unknown(destination))?;
        let rows = query(self.sql.recorded.clone())
            .bind(id)
            .bind(before.map_or(i64::MAX, |before| before.0))
            .bind(page_rows)
            .fetch_all(&self.readers)
            .await?;
        let seqs = rows.iter().map(|row| row.try_get("event_seq")).collect::<sqlx::Result<Vec<i64>>>()?;
        let next = seqs.into_iter().min().map(EventSeq);
        let found = rows.iter().map(recorded).collect::<sqlx::Result<Vec<_>>>()?;
        let mut deliveries: Vec<_> = found.into_iter().flatten().collect();
        deliveries.sort_unstable_by_key(|delivery| std::cmp::Reverse(delivery.event.seq));
        Ok(RecordedPage { deliveries, next })
    }
}

/// None of the row that only says where the page ends.
fn recorded(row: &SqliteRow) -> sqlx::Result<Option<RecordedDelivery>> {
    let status = status(row)?;
    if !matches!(status, DeliveryStatus::Delivered | DeliveryStatus::Dead) {
        return Ok(None);
    }
    Ok(Some(RecordedDelivery {
        event: event(row)?,
        status,
        disposition: maybe_text(row, "disposition")?,
        outcome: maybe_text(row, "outcome")?,
        code: maybe_text(row, "code")?,
    }))
}
