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

/// Whatever a crashed host held waits for the end of its lease.
const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    if lane.lease > LEASE_MAX {
        return Err(format!(
            "destination \"{name}\": with a lease of {:?} a crash would hold its deliveries for so long; set \
             relay.lease to {LEASE_MAX:?} or less, and let renewals (relay.renew) carry longer calls",
            lane.lease
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

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn lane() -> LaneSettings {
        LaneSettings {
            name: "stock".to_owned(),
            concurrency: 16,
            batch: 100,
            lease: secs(30),
            margin: secs(2),
            renew: true,
            order: Order::None,
            retry: RetryPolicy::default(),
            call_budget: secs(10),
            payload_bytes_max: 1 << 20,
            stop_after_rejections: 0,
        }
    }

    fn check(lane: &LaneSettings, connections: u32) -> Result<(), String> {
        check_lease_arithmetic(&RelaySettings::new("one"), lane, connections)
    }

    #[test]
    fn s5_a_lease_shorter_than_three_statements_and_the_margin_is_refused_with_the_numbers() {
        assert_eq!(check(&LaneSettings { lease: secs(17), ..lane() }, 10), Ok(()));
        let error = check(&LaneSettings { lease: secs(16), ..lane() }, 10).unwrap_err();
        for part in ["\"stock\"", "16s", "5s", "2s", "17s", "relay.lease"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }

    #[test]
    fn s5_without_renewal_a_call_of_a_lease_or_more_is_refused() {
        let without = LaneSettings { renew: false, ..lane() };
        assert_eq!(check(&LaneSettings { call_budget: secs(29), ..without.clone() }, 10), Ok(()));
        let error = check(&LaneSettings { call_budget: secs(30), ..without }, 10).unwrap_err();
        assert!(error.contains("limits.call") && error.contains("relay.renew = true"), "{error}");
        // With renewal a call may outlast a lease period.
        assert_eq!(check(&LaneSettings { call_budget: secs(300), ..lane() }, 10), Ok(()));
    }

    #[test]
    fn s5_a_pool_smaller_than_the_hosts_own_loops_is_refused() {
        assert_eq!(check(&lane(), CONNECTIONS_MIN), Ok(()));
        let error = check(&lane(), CONNECTIONS_MIN - 1).unwrap_err();
        assert!(error.contains("outbox.pool") && error.contains('3'), "{error}");
    }
}
