//! The promises on the in-memory model.

use std::sync::Arc;

use async_trait::async_trait;
use outhaul::domain::Timestamp;
use outhaul::store::NewEvent;
use outhaul::store::memory::{MemoryStore, MemoryTransaction};
use outhaul_tests::clock::ManualClock;

use crate::harness::{AnyStore, Database, Isolation, Producer};

pub struct MemoryDatabase {
    clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
}

impl MemoryDatabase {
    pub async fn open() -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Self { clock, store }
    }
}

#[async_trait]
impl Database for MemoryDatabase {
    fn store(&self) -> Arc<dyn AnyStore> {
        self.store.clone()
    }

    async fn second_store(&self) -> Arc<dyn AnyStore> {
        self.store.clone()
    }

    async fn set_now(&self, now: Timestamp) {
        self.clock.set(now);
    }

    async fn begin(&self, _isolation: Isolation) -> Box<dyn Producer> {
        Box::new(self.store.begin())
    }
}

#[async_trait]
impl Producer for MemoryTransaction {
    async fn insert(&mut self, event: &NewEvent) -> Result<(), String> {
        MemoryTransaction::insert(self, event).map(|_| ()).map_err(|error| error.to_string())
    }

    async fn insert_without_routing(&mut self, event: &NewEvent) -> Result<(), String> {
        MemoryTransaction::insert_without_routing(self, event).map(|_| ()).map_err(|error| error.to_string())
    }

    async fn commit(self: Box<Self>) -> Result<(), String> {
        MemoryTransaction::commit(*self);
        Ok(())
    }

    async fn rollback(self: Box<Self>) {}
}

crate::promises!(crate::memory::MemoryDatabase);
crate::promises_of_overlapping_producers!(crate::memory::MemoryDatabase);
