//! Back-off: exponential, capped, with full jitter (M. Brooker, "Exponential Backoff And Jitter",
//! 2015), and a destination's own `after`, which jitter only lengthens.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts, counted when claimed, after which a delivery is a dead letter.
    pub max_attempts: u32,
    pub base: Duration,
    pub cap: Duration,
    /// The longest a destination's own "come back after" is honoured.
    pub after_cap: Duration,
    /// From the first claim since the delivery last became pending; judged when an attempt fails.
    pub max_age: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 12,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(15 * 60),
            after_cap: Duration::from_secs(60 * 60),
            max_age: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

impl RetryPolicy {
    /// The wait before the attempt after attempt number `attempt` (from 1). `jitter` is in 0..1.
    pub fn wait(&self, attempt: u32, after: Option<Duration>, jitter: f64) -> Duration {
        let ceiling = exponential(self.base, self.cap, attempt.saturating_sub(1));
        match after {
            None => ceiling.mul_f64(jitter),
            // Everyone who was told "in 60 s" at once would come back at once.
            Some(after) => {
                let after = after.min(self.after_cap);
                after + (after / 10 + self.base).mul_f64(jitter)
            }
        }
    }

    /// How long a lane stays paused after its `pauses`-th pause in a row (from 1).
    pub fn pause(&self, pauses: u32, after: Option<Duration>, jitter: f64) -> Duration {
        let ceiling = exponential(self.base, self.cap, pauses.saturating_sub(1));
        // Half of it is fixed: a probe that may come at once would not be a pause.
        let wait = ceiling / 2 + (ceiling / 2).mul_f64(jitter);
        match after {
            None => wait,
            Some(_) => wait.max(self.wait(1, after, jitter)),
        }
    }
}

fn exponential(base: Duration, cap: Duration, doublings: u32) -> Duration {
    let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
    base.checked_mul(factor).unwrap_or(cap).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy { base: secs(1), cap: secs(60), after_cap: secs(600), ..Default::default() }
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn the_wait_doubles_up_to_the_cap_and_is_spread_from_zero() {
        let policy = policy();
        for (attempt, ceiling) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (40, 60), (u32::MAX, 60)] {
            assert_eq!(policy.wait(attempt, None, 0.0), Duration::ZERO, "attempt {attempt}");
            assert_eq!(policy.wait(attempt, None, 0.5), secs(ceiling) / 2, "attempt {attempt}");
        }
    }

    #[test]
    fn s22_a_destinations_after_is_clamped_and_only_lengthened() {
        let policy = policy();
        assert_eq!(policy.wait(1, Some(secs(30)), 0.0), secs(30));
        assert!(policy.wait(1, Some(secs(30)), 0.99) > secs(30));
        assert_eq!(policy.wait(1, Some(secs(365 * 86_400)), 0.0), secs(600));
        assert_eq!(policy.wait(1, Some(Duration::ZERO), 0.0), Duration::ZERO);
    }

    #[test]
    fn a_pause_grows_and_never_ends_at_once() {
        let policy = policy();
        assert_eq!(policy.pause(1, None, 0.0), Duration::from_millis(500));
        assert_eq!(policy.pause(3, None, 0.0), secs(2));
        assert_eq!(policy.pause(50, None, 0.0), secs(30));
        assert_eq!(policy.pause(1, Some(secs(90)), 0.0), secs(90));
    }
}
