//! Points in time as the database tells them.

use std::time::Duration;

/// A point in time in UTC, in microseconds since the Unix epoch: the resolution every supported
/// database keeps. It is always the *database's* time; a host's wall clock never becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn from_secs(secs: i64) -> Self {
        Self(secs * 1_000_000)
    }

    /// Time passed since `earlier`, zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    pub fn plus(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(micros(wait)))
    }
}

/// A duration in whole microseconds, saturating at the largest a database column holds.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_a_later_point_is_zero() {
        let (early, late) = (Timestamp::from_secs(100), Timestamp::from_secs(120));
        assert_eq!(late.since(early), Duration::from_secs(20));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early.plus(Duration::from_secs(20)), late);
    }
}
