//! What a plugin is handed: the event and its identity towards the destination.

use std::time::Duration;

use bytes::Bytes;

use super::claimer::Flight;
use crate::plugin::{Call, dedup_id};

/// One call for one claimed delivery.
pub(super) fn build(flight: &Flight, payload: Bytes, max_attempts: u32, budget: Duration) -> Call {
    let claimed = &flight.claimed;
    Call {
        event: claimed.event.clone(),
        dedup_id: dedup_id(&claimed.event.tenant, &claimed.event.id),
        payload,
        attempt: claimed.attempt,
        is_last_attempt: claimed.attempt >= max_attempts,
        uncertain_before: claimed.uncertain_before,
        fence: claimed.claim.fence,
        budget,
        is_probe: flight.probe.is_some(),
        went_to: flight.went_to.clone(),
    }
}
