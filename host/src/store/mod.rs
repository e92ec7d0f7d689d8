//! Where deliveries live. Three traits, by who asks: [`Store`] for the relay, [`Operate`] for the
//! people who look and act, [`Schema`] for installing and upgrading. Every database implements all
//! three, and one conformance suite holds them to the promises written here.
//!
//! The database answers what is due, who owns a delivery and what time it is. The process may only
//! decide how long it trusts its last answer (see [`crate::domain::TrustWindow`]).

pub mod memory;
mod operate;
pub mod postgres;
pub mod sqlite;
mod types;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

pub use operate::*;
pub use types::*;

use crate::domain::{DestinationId, EventSeq, Timestamp};

pub type StoreResult<T> = Result<T, StoreError>;

/// Why the database gave no answer. A lost lease is not here: it is a value ([`Settled::Fenced`]).
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached, is starting, read-only, full, or too slow: later may succeed.
    /// Nothing is known of the statement's effect.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The schema is missing, or newer than this host knows.
    #[error("{0}")]
    Schema(String),
    /// A person's request that can't be carried out, with the reason and the fix.
    #[error("{0}")]
    Refused(String),
    /// Anything else: a fault in a statement, or rows that break the table's rules.
    #[error("the database refused a statement: {0}")]
    Fault(String),
}

/// The relay's side. Methods are safe to call again after [`StoreError::Unavailable`]: a repeated
/// acknowledgement of a settled claim is [`Settled::Fenced`] and changes nothing.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The server's name and version, for logs and test headers.
    async fn server_version(&self) -> StoreResult<String>;

    /// The database's clock.
    async fn now(&self) -> StoreResult<Timestamp>;

    /// Announces this host and its configuration, and takes the next generation when the rules of
    /// [`Takeover`] say so: then destinations are created, renamed, revived or marked removed, and
    /// routes are replaced, in one transaction. A destination whose own digest changed and that was
    /// stopped becomes active again. Called at start and at each reload.
    async fn register(&self, host: &HostRegistration) -> StoreResult<Registered>;

    /// Says this host is alive, what it runs and what can't run here (replacing what it said
    /// before), and tells whether its config is still the current one.
    async fn heartbeat(&self, host_id: &str, notes: &HostNotes) -> StoreResult<ConfigStanding>;

    /// One question for all lanes of this host: which may run, and which have something due.
    /// Costs one round trip whatever the number of destinations.
    async fn lanes(&self, destinations: &[DestinationId]) -> StoreResult<Vec<LaneView>>;

    /// Takes up to `limit` due deliveries of one destination for `lease`: attempts + 1, fence + 1,
    /// a new random token each. In the same statement, and so at the same cost: a claim that
    /// expired without a word is written to the history as lost (uncertain) and counted; used-up
    /// attempts and passed `expires_at` become dead letters instead of claims.
    ///
    /// Returns nothing while the lane is not active, unless `request.probe` holds the lane's
    /// unexpired probe token; then at most one delivery. Nothing either where the lane keeps another
    /// order than `request.order`: a host with a superseded config must not break that order.
    async fn claim(&self, request: &ClaimRequest) -> StoreResult<Claims>;

    /// Payloads of claimed events, in any order. Called after the claim with what fits the byte
    /// budget, so that memory is bounded whatever the rows hold.
    async fn payloads(&self, events: &[EventSeq]) -> StoreResult<Vec<(EventSeq, Bytes)>>;

    /// Extends each claim whose token *and* unexpired lease still match to `lease` from now.
    /// The answer has the order and length of `claims`.
    async fn renew(&self, claims: &[ClaimRef], lease: Duration) -> StoreResult<Vec<Settled>>;

    /// Ends attempts, each judged by its own token and unexpired lease by the database's clock at
    /// the statement. A fenced one changes no delivery, but its history row is upserted as an
    /// uncertain effect. The answer has the order and length of `results`.
    async fn acknowledge(&self, results: &[Acknowledgement]) -> StoreResult<Vec<Settled>>;

    /// Gives back claims that were not started, each with its attempt. Same rules as above.
    async fn release(&self, claims: &[ClaimRef]) -> StoreResult<Vec<Settled>>;

    /// Takes the right to probe a lane whose pause has run out: a random token with a lease, held
    /// by one host at a time. None while the lane is not due for one or another host holds it.
    async fn take_probe(
        &self,
        destination: DestinationId,
        lease: Duration,
    ) -> StoreResult<Option<ProbeToken>>;

    /// Changes a lane's state on the relay's behalf, if it is still at `epoch` (an answer to a
    /// claim of an earlier epoch must not move it). Returns whether it changed. Each change of
    /// state starts a new epoch. Never overrides an operator's pause.
    async fn change_lane(
        &self,
        destination: DestinationId,
        epoch: i64,
        change: LaneChange,
    ) -> StoreResult<bool>;

    /// Counts a rejection (`Some(event)`) or ends the run of rejections (`None`). Returns how many
    /// distinct events in a row were rejected. Called only where `stop_after_rejections` is set.
    async fn count_rejection(&self, destination: DestinationId, event: Option<EventSeq>) -> StoreResult<u32>;

    /// One bounded round of housekeeping: routes unrouted events that now match, gives events
    /// without any delivery row theirs, and, only for the `destinations` this host has, buries
    /// unclaimed expired deliveries that no claim would meet and unparks heads of keys that were
    /// left parked.
    async fn sweep(&self, destinations: &[DestinationId], limit: u32) -> StoreResult<Swept>;

    /// Promises to look for due deliveries of these lanes by itself for `wait`, so that producers
    /// need not wake this host for them meanwhile: each wake-up may cost them. Never shortens
    /// another host's promise. Returns false where wake-ups cost producers nothing, or are off;
    /// then nothing was promised.
    async fn attend(&self, destinations: &[DestinationId], wait: Duration) -> StoreResult<bool>;

    /// Returns when something may have become due (a commit, a notification), or never. A floor
    /// of polling runs beside it, so a missed wake-up costs the poll interval and no event.
    /// The future is armed when the method is called, not when it is first polled: what commits
    /// between the call and the first poll wakes it too.
    async fn wait_for_wake(&self);
}

/// Installing and upgrading.
#[async_trait]
pub trait Schema: Send + Sync + 'static {
    /// Why nothing can be written there, and how to mend it, for who asks before a host is started.
    async fn refuses_writes(&self) -> StoreResult<Option<String>>;

    /// What stands in the database and what this host would apply. Refuses a schema newer than this
    /// host knows, naming both versions.
    async fn status(&self) -> StoreResult<SchemaStatus>;

    /// Applies what is missing, one migration a transaction, and returns the names applied.
    /// Refuses a schema newer than this host knows, naming both versions.
    async fn migrate(&self) -> StoreResult<Vec<String>>;
}

pub type SharedStore = Arc<dyn Store>;
