//! Time and chance from one seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outhaul::clock::Clock;
use outhaul::domain::{ClaimToken, Timestamp};
use tokio::time::Instant;

/// SplitMix64 (G. Steele, D. Lea, C. Flood, 2014): small, seedable and the same everywhere.
#[derive(Clone)]
pub struct Chance(Arc<Mutex<u64>>);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In 0..1.
    pub fn share(&self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn happens(&self, probability: f64) -> bool {
        self.share() < probability
    }

    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub fn millis(&self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }
}

/// Tokio's paused time as a clock. Each machine has its own time since boot and its own idea of
/// the wall clock; both run at the same speed.
pub struct SimClock {
    start: Instant,
    booted_before: Duration,
    wall_at_start: Timestamp,
    chance: Chance,
}

impl SimClock {
    /// The database's machine, whose wall clock is the one that counts.
    pub fn of_database(start: Instant, chance: Chance) -> Self {
        Self { start, booted_before: Duration::ZERO, wall_at_start: Timestamp::from_secs(1_000), chance }
    }

    /// A host ten minutes fast (S19), booted some other day.
    pub fn of_host(start: Instant, chance: Chance, booted_before: Duration) -> Self {
        Self { start, booted_before, wall_at_start: Timestamp::from_secs(1_600), chance }
    }
}

impl Clock for SimClock {
    fn since_boot(&self) -> Duration {
        self.booted_before + self.start.elapsed()
    }

    fn wall(&self) -> Timestamp {
        self.wall_at_start.plus(self.start.elapsed())
    }

    fn jitter(&self) -> f64 {
        self.chance.share()
    }

    fn token(&self) -> ClaimToken {
        let mut token = [0; 16];
        token[..8].copy_from_slice(&self.chance.next().to_be_bytes());
        token[8..].copy_from_slice(&self.chance.next().to_be_bytes());
        ClaimToken(token)
    }
}
