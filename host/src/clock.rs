//! The only place that reads a clock or draws a random number. Everything else is handed this
//! trait, so that a simulation can run the same code on virtual time from one seed.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{ClaimToken, Timestamp};

/// Time and chance as arguments.
pub trait Clock: Send + Sync + 'static {
    /// Time since boot, counting through a suspended machine (CLOCK_BOOTTIME): what leases are
    /// measured with on this host.
    fn since_boot(&self) -> Duration;

    /// This host's wall clock. On SQLite it is the database's clock; elsewhere only log lines and
    /// the guest's own clock show it.
    fn wall(&self) -> Timestamp;

    /// A number in 0..1.
    fn jitter(&self) -> f64;

    /// A new claim token from a cryptographic source.
    fn token(&self) -> ClaimToken;
}

pub type SharedClock = Arc<dyn Clock>;

/// Random numbers that are the same for the same seed.
pub fn seeded(seed: u64) -> impl rand::Rng + Send + 'static {
    <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(seed)
}

/// The machine's own clock and randomness.
pub struct SystemClock;

impl Clock for SystemClock {
    fn since_boot(&self) -> Duration {
        let mut spec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `spec` is a valid timespec for the whole call, and CLOCK_BOOTTIME exists on
        // every Linux this host supports.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut spec) } != 0;
        assert!(!failed, "CLOCK_BOOTTIME is not available");
        Duration::new(spec.tv_sec.unsigned_abs(), spec.tv_nsec as u32)
    }

    fn wall(&self) -> Timestamp {
        let now = std::time::SystemTime::now();
        let micros = match now.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => crate::domain::time::micros(after),
            Err(before) => -crate::domain::time::micros(before.duration()),
        };
        Timestamp(micros)
    }

    fn jitter(&self) -> f64 {
        rand::random::<f64>()
    }

    fn token(&self) -> ClaimToken {
        ClaimToken(uuid::Uuid::new_v4().into_bytes())
    }
}
