//! What was delivered or died, newest first.

use super::model::{Model, Row};
use crate::domain::{DestinationId, Event, EventSeq};
use crate::store::{DeliveryStatus, RecordedDelivery, RecordedPage};

impl Model {
    pub fn recorded(
        &self,
        destination: DestinationId,
        before: Option<EventSeq>,
        page_rows: u32,
    ) -> RecordedPage {
        let mut rows: Vec<&Row> = self.rows_of(destination).collect();
        rows.retain(|row| before.is_none_or(|before| row.event < before));
        rows.sort_by_key(|row| std::cmp::Reverse(row.event));
        rows.truncate(page_rows as usize);
        let next = rows.last().map(|row| row.event);
        let is_recorded = |row: &&Row| matches!(row.status, DeliveryStatus::Delivered | DeliveryStatus::Dead);
        let deliveries = rows.into_iter().filter(is_recorded).map(|row| self.recorded_row(row)).collect();
        RecordedPage { deliveries, next }
    }

    fn recorded_row(&self, row: &Row) -> RecordedDelivery {
        let event = &self.events[&row.event];
        let last = self.history.get(&(row.event, row.destination, row.fence));
        RecordedDelivery {
            event: Event {
                seq: event.seq,
                tenant: event.tenant.clone(),
                id: event.id.clone(),
                topic: event.topic.clone(),
                key: event.key.clone(),
                headers: event.headers.clone(),
                content_type: event.content_type.clone(),
                created_at: event.created_at,
                expires_at: event.expires_at,
                payload_bytes: event.payload.len() as u64,
            },
            status: row.status,
            disposition: row.disposition.clone(),
            outcome: last.map(|attempt| attempt.outcome.clone()),
            code: last.and_then(|attempt| attempt.code.clone()),
        }
    }
}
