//! The contract's words for what comes of an event.

use std::fmt;

/// How an attempt ended, without the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Delivered,
    Duplicate,
    Retry,
    RateLimited,
    Unavailable,
    Rejected,
    Conflict,
    Gone,
    Misconfigured,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::Delivered,
        Self::Duplicate,
        Self::Retry,
        Self::RateLimited,
        Self::Unavailable,
        Self::Rejected,
        Self::Conflict,
        Self::Gone,
        Self::Misconfigured,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Duplicate => "duplicate",
            Self::Retry => "retry",
            Self::RateLimited => "rate-limited",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Misconfigured => "misconfigured",
        }
    }

    /// The meaning of an HTTP status where the destination documents no other.
    pub fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Delivered,
            400 | 413 | 415 | 422 => Self::Rejected,
            // Not the event's fault: a rotated credential must not kill a backlog.
            401 | 403 => Self::Misconfigured,
            410 => Self::Gone,
            429 => Self::RateLimited,
            502..=504 => Self::Unavailable,
            _ => Self::Retry,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_documented_meaning() {
        for status in 100..=599 {
            let expected = match status {
                200..=299 => Kind::Delivered,
                400 | 413 | 415 | 422 => Kind::Rejected,
                401 | 403 => Kind::Misconfigured,
                410 => Kind::Gone,
                429 => Kind::RateLimited,
                502..=504 => Kind::Unavailable,
                _ => Kind::Retry,
            };
            assert_eq!(Kind::of_status(status), expected, "{status}");
        }
    }
}
