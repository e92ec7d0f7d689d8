//! Where a transaction is between two steps, and the end of one whose guest says nothing more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::transaction::Active;
use crate::clock::SharedClock;
use crate::plugin::bindings::sql::SqlError;

/// Of one transaction.
#[derive(Default)]
pub struct Slot(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// None once it has ended, and while a step of it runs.
    active: Option<Active>,
    /// It was ended at its deadline, and its guest has not been told yet.
    is_overdue: bool,
}

impl Slot {
    /// For a step. Fails as `closed`, and once as `timeout` if its deadline came between two steps.
    pub fn take(&self) -> Result<Active, SqlError> {
        let mut held = self.held();
        if std::mem::take(&mut held.is_overdue) {
            return Err(overdue());
        }
        held.active.take().ok_or(SqlError::Closed)
    }

    /// After a step. Gives it back if its time is over: nobody watches it any more.
    pub fn put(&self, active: Active) -> Option<Active> {
        let mut held = self.held();
        // Asked under the lock. Whoever watches looks under it as well, and later: one of the two ends it.
        if active.is_overdue() {
            return Some(active);
        }
        held.active = Some(active);
        None
    }

    pub fn is_open(&self) -> bool {
        self.held().active.is_some()
    }

    fn expire(&self) -> Option<Active> {
        let mut held = self.held();
        let active = held.active.take();
        held.is_overdue = active.is_some();
        active
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn overdue() -> SqlError {
    SqlError::Timeout("the transaction took longer than limits.sql.transaction allows".to_owned())
}

/// A task that ends a transaction at its deadline. Dropped, it does not.
#[derive(Default)]
pub struct Watch(Option<AbortHandle>);

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Rolls back what is still open at its deadline: others wait for its locks while its guest computes or
/// sleeps. A step that runs then has a deadline of its own.
pub fn watch(slot: &Arc<Slot>, ends_at: Duration, clock: SharedClock) -> Watch {
    let slot = Arc::downgrade(slot);
    let task = tokio::spawn(async move {
        loop {
            let left = ends_at.saturating_sub(clock.since_boot());
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(left).await;
        }
        if let Some(active) = slot.upgrade().and_then(|slot| slot.expire()) {
            active.roll_back().await;
        }
    });
    Watch(Some(task.abort_handle()))
}
