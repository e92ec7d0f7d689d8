//! What Outhaul decides, without any I/O, clock or randomness: events, leases, outcomes, back-off
//! and the state machine of a delivery. Nothing here knows a database, a component or a runtime.

pub mod decide;
pub mod event;
pub mod lease;
pub mod outcome;
pub mod retry;
pub mod time;
pub mod topic;

pub use decide::{AttemptFacts, DeadReason, LaneEffect, Policy, Verdict, Write, decide};
pub use event::{DestinationId, Event, EventSeq, UNROUTED};
pub use lease::{ClaimToken, Fence, TrustWindow};
pub use outcome::{Detail, HostFailure, Outcome, Receipt};
pub use retry::RetryPolicy;
pub use time::Timestamp;
