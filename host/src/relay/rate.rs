//! How much a lane delivered in the last minute, by this host.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);
/// Between two marks: a heartbeat that was hurried leaves none, so that there are never many.
const MARK_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Rate {
    delivered: AtomicU64,
    /// When it was looked at, and how much had been delivered by then.
    marks: Mutex<VecDeque<(Duration, u64)>>,
}

impl Rate {
    /// A delivery was recorded.
    pub fn count(&self) {
        self.delivered.fetch_add(1, Relaxed);
    }

    /// What was delivered in the minute before `now` (since boot), longer by at most the time between
    /// two looks. To be asked regularly. None at the first look, before which nothing is known.
    pub fn per_minute(&self, now: Duration) -> Option<u64> {
        let delivered = self.delivered.load(Relaxed);
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = marks.is_empty();
        let is_old =
            |mark: Option<&(Duration, u64)>| mark.is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW);
        while is_old(marks.get(1)) {
            marks.pop_front();
        }
        // Younger marks only: nothing was delivered before the minute began.
        let before = marks.front().filter(|mark| is_old(Some(mark))).map_or(0, |(_, before)| *before);
        if marks.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= MARK_EVERY) {
            marks.push_back((now, delivered));
        }
        (!is_first).then_some(delivered - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliver(rate: &Rate, times: u64) {
        (0..times).for_each(|_| rate.count());
    }

    #[test]
    fn what_was_delivered_counts_for_a_minute() {
        let rate = Rate::default();
        assert_eq!(rate.per_minute(Duration::from_secs(999)), None, "nothing was seen before");
        let at = |secs| rate.per_minute(Duration::from_secs(secs)).unwrap();
        deliver(&rate, 7);
        assert_eq!(at(1_000), 7);
        deliver(&rate, 3);
        assert_eq!(at(1_005), 10);
        assert_eq!(at(1_059), 10);
        assert_eq!(at(1_060), 3, "the first ones are a minute old");
        assert_eq!(at(1_065), 0);
        deliver(&rate, 2);
        assert_eq!((at(1_066), at(5_000)), (2, 0));
    }

    #[test]
    fn a_steady_stream_has_a_steady_rate_and_few_marks() {
        let rate = Rate::default();
        for tenth in 0..10_000 {
            deliver(&rate, 5);
            let found = rate.per_minute(Duration::from_millis(1_000_000 + tenth * 100));
            if tenth > 700 {
                let found = found.unwrap();
                assert!((3_000..=3_050).contains(&found), "{found} at {tenth}");
            }
        }
        assert!(rate.marks.lock().unwrap().len() <= 62);
    }
}
