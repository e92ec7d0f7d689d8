//! What the relay is told: once for the host, and for each lane.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{DestinationId, RetryPolicy};
use crate::plugin::Deliver;
use crate::store::Order;

#[derive(Clone, Debug)]
pub struct RelaySettings {
    pub host_id: String,
    /// The floor under every wake-up.
    pub poll: Duration,
    /// Of one statement.
    pub store_timeout: Duration,
    /// How long a drain waits for what is in flight.
    pub drain: Duration,
}

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
