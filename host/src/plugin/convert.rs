//! Between the domain and the contract: a call becomes the guest's event, its result an outcome.

use std::time::Duration;

use super::Call;
use super::bindings::types::{self as wit, Disposition, Failure};
use super::spec::Limits;
use super::text;
use crate::domain::{Detail, Outcome, Receipt};

/// A code is a word for filters and alerts.
const CODE_BYTES_MAX: usize = 128;

pub fn event(destination: &str, call: Call, budget_left: Duration) -> wit::Event {
    let Call { event, dedup_id, payload, attempt, is_last_attempt, uncertain_before, fence, .. } = call;
    wit::Event {
        id: event.id,
        dedup_id,
        destination: destination.to_owned(),
        topic: event.topic,
        key: event.key,
        tenant: event.tenant,
        headers: event.headers,
        content_type: event.content_type,
        payload: payload.into(),
        created_at: event.created_at.0,
        sequence: u64::try_from(event.seq.0).unwrap_or(0),
        attempt,
        last_attempt: is_last_attempt,
        uncertain_before,
        fence: u64::try_from(fence.0).unwrap_or(0),
        budget_ms: u64::try_from(budget_left.as_millis()).unwrap_or(u64::MAX),
        attributes: Vec::new(),
    }
}

pub fn outcome(result: Result<wit::Receipt, Failure>, limits: &Limits) -> Outcome {
    result.map_or_else(|failed| failure(failed, limits), |given| receipt(given, limits))
}

pub fn failure(failed: Failure, limits: &Limits) -> Outcome {
    let info = |info: wit::Info| {
        let after = info.after_ms.map(Duration::from_millis);
        (detail(&info.code, &info.message, info.maybe_applied, limits), after)
    };
    let plain = |given: wit::Detail| detail(&given.code, &given.message, given.maybe_applied, limits);
    match failed {
        Failure::Retry(given) => {
            let (detail, after) = info(given);
            Outcome::Retry { detail, after }
        }
        Failure::RateLimited(given) => {
            let (detail, after) = info(given);
            Outcome::RateLimited { detail, after }
        }
        Failure::Unavailable(given) => {
            let (detail, after) = info(given);
            Outcome::Unavailable { detail, after }
        }
        Failure::Rejected(given) => Outcome::Rejected(plain(given)),
        Failure::Conflict(given) => Outcome::Conflict(plain(given)),
        Failure::Gone(given) => Outcome::Gone(plain(given)),
        Failure::Misconfigured(given) => Outcome::Misconfigured(plain(given)),
        Failure::Other(given) => Outcome::Other(plain(given)),
    }
}

fn receipt(given: wit::Receipt, limits: &Limits) -> Outcome {
    let reference = given.reference.map(|reference| text::word(&reference, limits.reference_bytes));
    let receipt = Receipt { reference };
    match given.disposition {
        Disposition::Delivered => Outcome::Delivered(receipt),
        Disposition::Duplicate => Outcome::Duplicate(receipt),
    }
}

fn detail(code: &str, message: &str, maybe_applied: bool, limits: &Limits) -> Detail {
    Detail {
        code: text::word(code, CODE_BYTES_MAX.min(limits.text_bytes)),
        message: text::prose(message, limits.text_bytes),
        maybe_applied,
    }
}
