//! The store as a model: one mutex over maps, every promise written in the plainest way. The
//! simulation runs on it, and the conformance suite holds it and the real databases to one text.

mod claim;
mod faults;
mod keys;
mod lanes;
mod model;
mod operate;
mod recorded;
mod settle;
mod sweep;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

pub use faults::{Fault, Faults};
pub use model::{EventRow, Row};

use super::*;
use crate::clock::SharedClock;
use model::Model;

/// Deliveries in memory. Its database clock is `Clock::wall`.
pub struct MemoryStore {
    clock: SharedClock,
    model: Mutex<Model>,
    commits: watch::Sender<u64>,
    faults: Faults,
}

impl MemoryStore {
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, model: Mutex::default(), commits: watch::Sender::new(0), faults: Faults::default() }
    }

    /// Where a test makes calls fail.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Every delivery row as it stands, in the order of destination and event.
    pub fn rows(&self) -> Vec<Row> {
        self.model().rows.values().cloned().collect()
    }

    /// Opens a producer's transaction: sequence numbers are taken at the insert, and rows appear
    /// at the commit.
    pub fn begin(self: &Arc<Self>) -> MemoryTransaction {
        MemoryTransaction { store: self.clone(), written: Vec::new() }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().expect("no thread panics while it changes the model")
    }

    fn call<T>(
        &self,
        method: &'static str,
        act: impl FnOnce(&mut Model, Timestamp) -> StoreResult<T>,
    ) -> StoreResult<T> {
        let fault = self.faults.draw(method);
        if fault == Some(Fault::BeforeEffect) {
            return Err(injected(method));
        }
        let answer = act(&mut self.model(), self.clock.wall());
        match fault {
            Some(_) => Err(injected(method)),
            None => answer,
        }
    }

    fn announce(&self) {
        self.commits.send_modify(|count| *count += 1);
    }
}

fn injected(method: &str) -> StoreError {
    StoreError::Unavailable(format!("the test made {method} fail"))
}

/// What a producer has written and not yet committed. Dropping it rolls back.
pub struct MemoryTransaction {
    store: Arc<MemoryStore>,
    written: Vec<(EventRow, Vec<DestinationId>)>,
}

impl MemoryTransaction {
    /// Inserts an event; its destinations are those routed at this moment.
    pub fn insert(&mut self, event: &NewEvent) -> StoreResult<EventSeq> {
        let mut model = self.store.model();
        let row = model.new_event(event, self.store.clock.wall())?;
        if self.written.iter().any(|(other, _)| (&other.tenant, &other.id) == (&row.tenant, &row.id)) {
            return Err(StoreError::Refused(format!("event {:?} exists", row.id)));
        }
        let destinations = model.destinations_of(&row.topic);
        let seq = row.seq;
        self.written.push((row, destinations));
        Ok(seq)
    }

    /// Inserts an event with the routing switched off, as a restored dump does.
    pub fn insert_without_routing(&mut self, event: &NewEvent) -> StoreResult<EventSeq> {
        let seq = self.insert(event)?;
        if let Some((_, destinations)) = self.written.last_mut() {
            destinations.clear();
        }
        Ok(seq)
    }

    pub fn commit(self) {
        let mut model = self.store.model();
        for (row, destinations) in self.written {
            model.insert(row, &destinations);
        }
        drop(model);
        self.store.announce();
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn server_version(&self) -> StoreResult<String> {
        Ok("in-memory model".to_owned())
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.call("now", |_, now| Ok(now))
    }

    async fn register(&self, host: &HostRegistration) -> StoreResult<Registered> {
        self.call("register", |model, now| Ok(model.register(host, now)))
    }

    async fn heartbeat(&self, host_id: &str, notes: &HostNotes) -> StoreResult<ConfigStanding> {
        self.call("heartbeat", |model, now| model.heartbeat(host_id, notes, now))
    }

    async fn lanes(&self, destinations: &[DestinationId]) -> StoreResult<Vec<LaneView>> {
        self.call("lanes", |model, now| Ok(model.lane_views(destinations, now)))
    }

    async fn claim(&self, request: &ClaimRequest) -> StoreResult<Claims> {
        self.call("claim", |model, now| Ok(model.claim(request, now, &|| self.clock.token())))
    }

    async fn payloads(&self, events: &[EventSeq]) -> StoreResult<Vec<(EventSeq, Bytes)>> {
        self.call("payloads", |model, _| {
            Ok(events.iter().filter_map(|seq| Some((*seq, model.events.get(seq)?.payload.clone()))).collect())
        })
    }

    async fn renew(&self, claims: &[ClaimRef], lease: Duration) -> StoreResult<Vec<Settled>> {
        self.call("renew", |model, now| {
            Ok(claims.iter().map(|claim| model.renew(claim, lease, now)).collect())
        })
    }

    async fn acknowledge(&self, results: &[Acknowledgement]) -> StoreResult<Vec<Settled>> {
        self.call("acknowledge", |model, now| {
            Ok(results.iter().map(|result| model.acknowledge(result, now)).collect())
        })
    }

    async fn release(&self, claims: &[ClaimRef]) -> StoreResult<Vec<Settled>> {
        self.call("release", |model, now| Ok(claims.iter().map(|claim| model.release(claim, now)).collect()))
    }

    async fn take_probe(
        &self,
        destination: DestinationId,
        lease: Duration,
    ) -> StoreResult<Option<ProbeToken>> {
        let token = ProbeToken(self.clock.token().0);
        self.call("take_probe", |model, now| Ok(model.take_probe(destination, lease, token, now)))
    }

    async fn change_lane(
        &self,
        destination: DestinationId,
        epoch: i64,
        change: LaneChange,
    ) -> StoreResult<bool> {
        self.call("change_lane", |model, now| Ok(model.change_lane(destination, epoch, change, now)))
    }

    async fn count_rejection(&self, destination: DestinationId, event: Option<EventSeq>) -> StoreResult<u32> {
        self.call("count_rejection", |model, _| Ok(model.count_rejection(destination, event)))
    }

    async fn sweep(&self, destinations: &[DestinationId], limit: u32) -> StoreResult<Swept> {
        self.call("sweep", |model, now| Ok(model.sweep(destinations, limit, now)))
    }

    async fn attend(&self, _: &[DestinationId], _: Duration) -> StoreResult<bool> {
        Ok(false)
    }

    // Written out, because an `async fn` would subscribe only when it is first polled.
    fn wait_for_wake<'life0, 'async_trait>(
        &'life0 self,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let mut commits = self.commits.subscribe();
        Box::pin(async move {
            // The sender lives as long as the store, so this can't fail.
            let _ = commits.changed().await;
        })
    }
}

#[async_trait]
impl Schema for MemoryStore {
    async fn refuses_writes(&self) -> StoreResult<Option<String>> {
        Ok(None)
    }

    async fn status(&self) -> StoreResult<SchemaStatus> {
        Ok(SchemaStatus { installed: Some(1), newest_known: 1, pending: Vec::new() })
    }

    async fn migrate(&self) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn store() -> MemoryStore {
        MemoryStore::new(Arc::new(SystemClock))
    }

    fn event(id: &str) -> NewEvent {
        NewEvent { id: id.to_owned(), topic: "order.created".to_owned(), ..NewEvent::default() }
    }

    #[tokio::test]
    async fn a_wait_is_woken_by_a_commit_between_the_call_and_the_first_poll() {
        let store = store();
        let wake = store.wait_for_wake();
        store.emit(&[event("a")]).await.expect("emit");
        wake.await;
    }

    #[tokio::test]
    async fn a_fault_after_the_effect_fails_the_call_and_keeps_its_rows() {
        let store = store();
        store.faults().fail_next("emit", Fault::BeforeEffect);
        store.faults().fail_next("emit", Fault::AfterEffect);
        for rows in [0, 1] {
            let failure = store.emit(&[event("a")]).await;
            assert!(matches!(failure, Err(StoreError::Unavailable(_))), "{failure:?}");
            assert_eq!(store.rows().len(), rows);
        }
        assert_eq!(store.emit(&[event("a")]).await.expect("emit"), [Emitted::Existed]);
    }
}
