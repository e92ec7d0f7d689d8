//! Failures and refusals in one line.

use std::time::Duration;

use crate::{ConfigureError, Detail, Failure, Info, SettingsProblem};

impl Failure {
    /// This event may succeed later: another attempt with back-off.
    pub fn retry(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Retry(info(code, message))
    }

    /// The destination asks for fewer requests: the lane pauses, no attempt is used.
    pub fn rate_limited(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::RateLimited(info(code, message))
    }

    /// The destination can't take anything now: the lane pauses, no attempt is used.
    pub fn unavailable(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Unavailable(info(code, message))
    }

    /// The destination will never take this event: a dead letter at once.
    pub fn rejected(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Rejected(detail(code, message))
    }

    /// The destination has this ID with other content: a dead letter, kept for a person.
    pub fn conflict(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Conflict(detail(code, message))
    }

    /// The destination is gone for good: the lane stops and the operator is told.
    pub fn gone(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Gone(detail(code, message))
    }

    /// The destination refuses because of settings or credentials: the lane stops and the operator
    /// is told.
    pub fn misconfigured(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Misconfigured(detail(code, message))
    }

    /// Anything else: treated as a retry without a wish.
    pub fn other(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Other(detail(code, message))
    }

    /// The effect may have happened all the same: the request left, and no answer came back.
    pub fn maybe_applied(mut self) -> Self {
        match &mut self {
            Self::Retry(info) | Self::RateLimited(info) | Self::Unavailable(info) => {
                info.maybe_applied = true
            }
            Self::Rejected(detail)
            | Self::Conflict(detail)
            | Self::Gone(detail)
            | Self::Misconfigured(detail)
            | Self::Other(detail) => detail.maybe_applied = true,
        }
        self
    }

    /// A pair for what the types do not have yet.
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let attributes = match &mut self {
            Self::Retry(info) | Self::RateLimited(info) | Self::Unavailable(info) => &mut info.attributes,
            Self::Rejected(detail)
            | Self::Conflict(detail)
            | Self::Gone(detail)
            | Self::Misconfigured(detail)
            | Self::Other(detail) => &mut detail.attributes,
        };
        attributes.push((name.into(), value.into()));
        self
    }

    /// The destination's own wish when to come again; the host clamps it. Only `retry`, `rate_limited`
    /// and `unavailable` have one; of the others it is ignored.
    pub fn after(mut self, wait: Duration) -> Self {
        if let Self::Retry(info) | Self::RateLimited(info) | Self::Unavailable(info) = &mut self {
            info.after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        }
        self
    }
}

fn info(code: impl Into<String>, message: impl Into<String>) -> Info {
    Info {
        code: code.into(),
        message: message.into(),
        maybe_applied: false,
        after_ms: None,
        attributes: Vec::new(),
    }
}

fn detail(code: impl Into<String>, message: impl Into<String>) -> Detail {
    Detail { code: code.into(), message: message.into(), maybe_applied: false, attributes: Vec::new() }
}

impl ConfigureError {
    /// One wrong setting, by its JSON Pointer, such as `/url`; empty for the whole.
    pub fn setting(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Settings(vec![SettingsProblem { pointer: pointer.into(), message: message.into() }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_kept_by_the_failures_that_have_one() {
        let wait = Duration::from_secs(7);
        let Failure::RateLimited(info) = Failure::rate_limited("c", "m").after(wait) else { panic!() };
        assert_eq!((info.after_ms, info.maybe_applied), (Some(7_000), false));
        assert_eq!(Failure::gone("c", "m").after(wait), Failure::gone("c", "m"));
    }

    #[test]
    fn every_failure_can_say_that_it_may_have_been_applied() {
        for failure in [Failure::retry("c", "m"), Failure::unavailable("c", "m")] {
            let (Failure::Retry(info) | Failure::Unavailable(info)) = failure.maybe_applied() else {
                panic!()
            };
            assert!(info.maybe_applied);
        }
        for failure in [Failure::rejected("c", "m"), Failure::other("c", "m")] {
            let (Failure::Rejected(detail) | Failure::Other(detail)) = failure.maybe_applied() else {
                panic!()
            };
            assert!(detail.maybe_applied);
        }
    }
}
