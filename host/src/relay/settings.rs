//! What the relay is told, once for the host and for each lane, and what it refuses of it.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{DestinationId, RetryPolicy};
use crate::plugin::Deliver;
use crate::store::Order;

/// One connection for renewals, one for acknowledgements, one for claims and questions: with fewer,
/// a slow claim could hold up the renewal that keeps another lane's lease.
pub const CONNECTIONS_MIN: u32 = 3;

/// Statements a lease must have time for: a renewal that times out, the one after it, and the
/// acknowledgement.
const STATEMENTS_IN_A_LEASE: u32 = 3;

/// What holds for the whole host.
#[derive(Clone, Debug)]
pub struct RelaySettings {
    pub host_id: String,
    /// The floor under every wake-up.
    pub poll: Duration,
    /// Of one statement.
    pub store_timeout: Duration,
    /// How long a drain waits for what is in flight.
    pub drain: Duration,
    /// The most payload bytes in memory at once. A delivery waits when it does not fit, but each
    /// lane may hold one payload beyond it, so that no lane waits for another's.
    pub payload_budget_bytes: u64,
}

impl RelaySettings {
    /// The defaults of the config file, for a host of this name.
    pub fn new(host_id: impl Into<String>) -> Self {
        Self {
            host_id: host_id.into(),
            poll: Duration::from_secs(1),
            store_timeout: Duration::from_secs(5),
            drain: Duration::from_secs(20),
            payload_budget_bytes: 64 << 20,
        }
    }
}

/// What holds for one lane.
#[derive(Clone, Debug)]
pub struct LaneSettings {
    pub name: String,
    /// The most deliveries in flight on this host.
    pub concurrency: u32,
    /// The most claimed at once.
    pub batch: u32,
    pub lease: Duration,
    /// Of the trust window.
    pub margin: Duration,
    pub renew: bool,
    pub order: Order,
    pub retry: RetryPolicy,
    /// The most one call may take.
    pub call_budget: Duration,
    pub payload_bytes_max: u64,
    /// Distinct events rejected in a row that stop the lane; 0 is never.
    pub stop_after_rejections: u32,
}

/// A destination this host can deliver to.
#[derive(Clone)]
pub struct Lane {
    pub id: DestinationId,
    pub settings: LaneSettings,
    pub plugin: Arc<dyn Deliver>,
}

/// Refuses a lease that could not be kept, with the numbers and what to change. `connections` is
/// the size of the database pool.
pub fn check_lease_arithmetic(
    relay: &RelaySettings,
    lane: &LaneSettings,
    connections: u32,
) -> Result<(), String> {
    let name = &lane.name;
    let needed = relay.store_timeout * STATEMENTS_IN_A_LEASE + lane.margin;
    if lane.lease < needed {
        return Err(format!(
            "destination \"{name}\": a lease of {:?} can't be kept: three statements of up to {:?} \
             (outbox.timeout) and the margin of {:?} take {needed:?}; set relay.lease to {needed:?} or more, \
             or lower outbox.timeout",
            lane.lease, relay.store_timeout, lane.margin
        ));
    }
    if !lane.renew && lane.call_budget >= lane.lease {
        return Err(format!(
            "destination \"{name}\": without renewal a call of up to {:?} (limits.call) outlives the lease \
             of {:?}, and the event would go out twice; set relay.renew = true, or relay.lease above {:?}",
            lane.call_budget, lane.lease, lane.call_budget
        ));
    }
    if connections < CONNECTIONS_MIN {
        return Err(format!(
            "a database pool of {connections} is smaller than the {CONNECTIONS_MIN} connections the host's own \
             loops need (renewals, acknowledgements, claims); set outbox.pool to {CONNECTIONS_MIN} or more"
        ));
    }
    Ok(())
}
