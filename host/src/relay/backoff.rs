//! The wait between two tries of the same statement.

use std::time::Duration;

const BASE: Duration = Duration::from_millis(50);
const CAP: Duration = Duration::from_secs(5);

/// Doubles from 50 ms to 5 s. Half of each wait is random, so that hosts which lost the database
/// at the same moment do not come back at the same moment.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub fn next(&mut self, jitter: f64) -> Duration {
        let ceiling = BASE.saturating_mul(2u32.saturating_pow(self.failures)).min(CAP);
        self.failures = self.failures.saturating_add(1);
        ceiling / 2 + (ceiling / 2).mul_f64(jitter)
    }

    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_to_five_seconds_and_starts_again_after_a_success() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..9).map(|_| backoff.next(0.0).as_millis()).collect();
        assert_eq!(waits, [25, 50, 100, 200, 400, 800, 1600, 2500, 2500]);
        backoff.reset();
        assert_eq!(backoff.next(0.999).as_millis(), 49);
    }
}
