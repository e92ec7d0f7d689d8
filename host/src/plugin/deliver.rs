//! The one thing the relay knows of plugins.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;

use crate::domain::{Event, Fence, Outcome};

/// One attempt, as it is handed to a plugin.
#[derive(Clone, Debug)]
pub struct Call {
    pub event: Event,
    /// (tenant, event ID) as one printable text; what ledgers and protocols use.
    pub dedup_id: String,
    pub payload: Bytes,
    pub attempt: u32,
    pub is_last_attempt: bool,
    /// An earlier attempt may have taken effect.
    pub uncertain_before: bool,
    pub fence: Fence,
    /// The most the whole call may take, host waits included.
    pub budget: Duration,
    /// It finds out for a paused lane whether the destination can take anything again.
    pub is_probe: bool,
    pub went_to: WentTo,
}

/// The component a call went to last, where a destination has more than one. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct WentTo(Arc<Mutex<Option<Called>>>);

#[derive(Clone, Debug)]
struct Called {
    component_digest: String,
    is_canary: bool,
}

impl WentTo {
    /// Said before the component is called, so that a dropped call is known by it, too.
    pub fn note(&self, component_digest: &str, is_canary: bool) {
        let called = Called { component_digest: component_digest.to_owned(), is_canary };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(called);
    }

    pub fn component_digest(&self) -> Option<String> {
        self.called().map(|called| called.component_digest)
    }

    /// What came of the call is a canary's word.
    pub fn is_canary(&self) -> bool {
        self.called().is_some_and(|called| called.is_canary)
    }

    fn called(&self) -> Option<Called> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How much one call may deliver together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    pub events: usize,
    /// Of all payloads together.
    pub bytes: u64,
}

/// A destination's plugin: warm instances, limits and grants behind one method.
#[async_trait]
pub trait Deliver: Send + Sync + 'static {
    /// Delivers one event and says what came of it. Every failure is an [`Outcome`]; nothing
    /// panics and nothing is retried here. Called from many tasks at once, up to the lane's
    /// concurrency. Dropping the future ends the call and costs one instance; the caller does so
    /// when trust in the lease ends.
    async fn deliver(&self, call: Call) -> Outcome;

    /// How much [`Self::deliver_batch`] takes; none if events go singly only.
    fn batch_limits(&self) -> Option<BatchLimits> {
        None
    }

    /// Delivers events in one call, under the shortest of their budgets, with one outcome for each in
    /// the same order. Where the call fails as a whole, every one of them has that outcome. For the
    /// rest it is as [`Self::deliver`].
    async fn deliver_batch(&self, calls: Vec<Call>) -> Vec<Outcome> {
        join_all(calls.into_iter().map(|call| self.deliver(call))).await
    }

    /// The digest of the component (hex SHA-256), for the attempt history.
    fn component_digest(&self) -> &str;

    /// Why this plugin can't take calls on this host (it failed to load or to configure), if so.
    fn unready(&self) -> Option<String>;

    /// An operator or a config gave the lane a new start: a plugin that could take calls before is
    /// ready until a call finds otherwise. One that never loaded stays as it is.
    fn try_anew(&self) {}
}
