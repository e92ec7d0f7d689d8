//! What came of the calls to each of two components, and how long they took.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::Outcome;

/// Buckets of times: each ends a quarter of an octave after the one before, so that a quantile is told
/// within a fifth; from 0.1 ms to some 20 minutes.
const BUCKETS: usize = 96;
const BUCKETS_OF_AN_OCTAVE: usize = 4;
const FIRST_SECS: f64 = 1e-4;

#[derive(Debug, Default)]
pub struct Tally(Mutex<Compared>);

/// Both sides at one moment.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    pub stable: Numbers,
    pub canary: Numbers,
    /// Deliveries of the canary's share that the stable component decided: not among its own numbers,
    /// unless they were a last attempt.
    pub handed_over: u64,
}

/// What one component did.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// Events by what came of them.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Calls, of one event or of a batch, that ended.
    pub calls: u64,
    pub seconds: f64,
    times: [u64; BUCKETS],
}

impl Tally {
    pub fn stable(&self, outcomes: &[Outcome], took: Duration) {
        self.lock().stable.add(outcomes, took);
    }

    pub fn canary(&self, outcomes: &[Outcome], took: Duration) {
        self.lock().canary.add(outcomes, took);
    }

    pub fn hand_over(&self, events: usize) {
        self.lock().handed_over += events as u64;
    }

    pub fn compared(&self) -> Compared {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Compared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Numbers {
    fn default() -> Self {
        Self { outcomes: BTreeMap::new(), calls: 0, seconds: 0.0, times: [0; BUCKETS] }
    }
}

impl Numbers {
    fn add(&mut self, outcomes: &[Outcome], took: Duration) {
        if outcomes.is_empty() {
            return;
        }
        for outcome in outcomes {
            *self.outcomes.entry(outcome.kind()).or_default() += 1;
        }
        self.calls += 1;
        self.seconds += took.as_secs_f64();
        self.times[(0..BUCKETS - 1).find(|at| took <= end_of(*at)).unwrap_or(BUCKETS - 1)] += 1;
    }

    pub fn events(&self) -> u64 {
        self.outcomes.values().sum()
    }

    /// What this part of the calls took at most, rounded up by less than a fifth. None without calls.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let wanted = (part * self.calls as f64).ceil().max(1.0);
        let mut seen = 0;
        let at = self.times.iter().position(|count| {
            seen += count;
            seen as f64 >= wanted
        });
        at.map(end_of)
    }

    /// Ends of buckets in seconds, an octave each, with the calls in each; the last has no end.
    pub fn octaves(&self) -> Vec<(f64, u64)> {
        let octaves = self.times.chunks(BUCKETS_OF_AN_OCTAVE).enumerate();
        let mut octaves: Vec<_> = octaves
            .map(|(number, counts)| {
                let last = number * BUCKETS_OF_AN_OCTAVE + counts.len() - 1;
                (end_of(last).as_secs_f64(), counts.iter().sum())
            })
            .collect();
        octaves.last_mut().expect("there are buckets").0 = f64::MAX;
        octaves
    }
}

fn end_of(bucket: usize) -> Duration {
    Duration::from_secs_f64(FIRST_SECS * 2_f64.powf(bucket as f64 / BUCKETS_OF_AN_OCTAVE as f64))
}
