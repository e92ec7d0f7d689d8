//! Whether the database answers, operation by operation: one log line when an operation begins to
//! fail and one when it works again, however many tries lie between.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::store::StoreError;

/// What fails now. Kept by operation, because a read-only database answers questions and refuses
/// claims.
#[derive(Default)]
pub(super) struct Health {
    failing: Mutex<BTreeMap<&'static str, Failing>>,
}

/// A failure older than this says nothing of now: the operation was just not needed since.
const RECENT: Duration = Duration::from_secs(15);

struct Failing {
    since: Duration,
    latest: Duration,
    error: String,
}

impl Health {
    pub fn succeeded(&self, operation: &'static str, now: Duration) {
        let was_failing = self.lock().remove(operation);
        if let Some(failing) = was_failing {
            let seconds = now.saturating_sub(failing.since).as_secs_f64();
            tracing::info!(operation, seconds, "the database answers again");
        }
    }

    pub fn failed(&self, operation: &'static str, error: &StoreError, now: Duration) {
        let mut failing = self.lock();
        match failing.get_mut(operation) {
            Some(known) => (known.latest, known.error) = (now, error.to_string()),
            None => {
                failing.insert(operation, Failing { since: now, latest: now, error: error.to_string() });
                drop(failing);
                tracing::warn!(
                    operation,
                    error = %error,
                    "a statement failed; it is tried again with back-off, and only its recovery is logged"
                );
            }
        }
    }

    /// The operations that fail at `now`, with their latest errors.
    pub fn problems(&self, now: Duration) -> Vec<String> {
        let failing = self.lock();
        let recent = failing.iter().filter(|(_, failing)| failing.latest + RECENT > now);
        recent.map(|(operation, failing)| format!("{operation}: {}", failing.error)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
