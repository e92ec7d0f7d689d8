//! A clock that stands still until a test moves it.

use std::sync::Mutex;
use std::time::Duration;

use outhaul::clock::{Clock, SystemClock};
use outhaul::domain::{ClaimToken, Timestamp};

#[derive(Default)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
}

impl ManualClock {
    pub fn set(&self, now: Timestamp) {
        *self.now.lock().expect("not poisoned") = now;
    }

    pub fn get(&self) -> Timestamp {
        *self.now.lock().expect("not poisoned")
    }
}

impl Clock for ManualClock {
    fn since_boot(&self) -> Duration {
        self.get().since(Timestamp(0))
    }

    fn wall(&self) -> Timestamp {
        self.get()
    }

    fn jitter(&self) -> f64 {
        0.5
    }

    fn token(&self) -> ClaimToken {
        SystemClock.token()
    }
}
