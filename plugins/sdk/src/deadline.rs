//! A moment of the monotonic clock, and waiting for something or it.

use std::time::Duration;

use crate::bindings::destination::wasi::clocks::monotonic_clock;
use crate::bindings::destination::wasi::io::poll::{Pollable, poll};

pub struct Deadline {
    at_ns: u64,
    timer: Pollable,
}

impl Deadline {
    pub fn after(time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self::at(monotonic_clock::now().saturating_add(nanos))
    }

    fn at(at_ns: u64) -> Self {
        Self { at_ns, timer: monotonic_clock::subscribe_instant(at_ns) }
    }

    pub fn or_sooner(&self, time: Duration) -> Self {
        Self::at(self.at_ns.min(Self::after(time).at_ns))
    }

    pub fn has_passed(&self) -> bool {
        monotonic_clock::now() >= self.at_ns
    }

    /// Until one of them is ready or the time is up.
    pub fn wait(&self, pollables: &[&Pollable]) {
        let mut all = pollables.to_vec();
        all.push(&self.timer);
        poll(&all);
    }
}
