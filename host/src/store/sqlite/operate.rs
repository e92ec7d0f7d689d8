//! The operator's side, call by call.

use async_trait::async_trait;
use bytes::Bytes;

use super::SqliteStore;
use crate::domain::EventSeq;
use crate::store::*;

#[async_trait]
impl Operate for SqliteStore {
    async fn emit(&self, events: &[NewEvent]) -> StoreResult<Vec<Emitted>> {
        let emitted = self.limited(self.insert_events(events)).await;
        self.announce();
        emitted
    }

    async fn lane_reports(&self) -> StoreResult<Vec<LaneReport>> {
        self.limited(self.report_lanes()).await
    }

    async fn pause(&self, destination: &str, reason: &str, who: &str) -> StoreResult<bool> {
        self.limited(self.operate_lane(destination, Some(reason), who)).await
    }

    async fn resume(&self, destination: &str, who: &str) -> StoreResult<bool> {
        let resumed = self.limited(self.operate_lane(destination, None, who)).await;
        self.announce();
        resumed
    }

    async fn deliveries(&self, filter: &DeliveryFilter) -> StoreResult<Vec<DeliveryRow>> {
        self.limited(self.list_deliveries(filter)).await
    }

    async fn show(&self, tenant: &str, event_id: &str) -> StoreResult<Option<EventReport>> {
        self.limited(self.show_event(tenant, event_id)).await
    }

    async fn payload(&self, event: EventSeq) -> StoreResult<Option<Bytes>> {
        self.limited(self.payload_of(event)).await
    }

    async fn recorded(
        &self,
        destination: &str,
        before: Option<EventSeq>,
        page_rows: u32,
    ) -> StoreResult<RecordedPage> {
        self.limited(self.read_recorded(destination, before, page_rows)).await
    }

    async fn cancel(&self, target: &Target, who: &str) -> StoreResult<u64> {
        self.act_on_all(target, DeliveryStatus::Pending, &self.sql.cancel, "cancel", who).await
    }

    async fn redeliver(&self, target: &Target, who: &str) -> StoreResult<u64> {
        let act = self.act_on_all(target, DeliveryStatus::Delivered, &self.sql.redeliver, "redeliver", who);
        let redelivered = act.await;
        self.announce();
        redelivered
    }

    async fn redrive(&self, order: &RedriveOrder, who: &str) -> StoreResult<u64> {
        let redriven = self.limited(self.redrive_dead(order, who)).await;
        self.announce();
        redriven
    }

    async fn discard(&self, target: &Target, limit: u32, who: &str) -> StoreResult<u64> {
        let discarded = self.limited(self.discard_dead(target, limit, who)).await;
        self.announce();
        discarded
    }

    async fn hosts(&self) -> StoreResult<Vec<HostReport>> {
        self.limited(self.list_hosts()).await
    }

    async fn actions(&self, limit: u32) -> StoreResult<Vec<ActionRow>> {
        self.limited(self.list_actions(limit)).await
    }
}
