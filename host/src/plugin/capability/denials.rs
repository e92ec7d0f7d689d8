//! What plugins asked for and were not granted: counted each time, told to the operator once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::plugin::stats::Counter;
use crate::plugin::text;

/// Things a log line was already written for.
const TOLD_MAX: usize = 64;
const ASKED_BYTES_MAX: usize = 256;
const FIX_BYTES_MAX: usize = 1 << 10;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What was asked for, as the metric's label names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Denied { $($(#[$doc])* $kind,)* }

        const KINDS: &[(Denied, &str)] = &[$((Denied::$kind, $name),)*];
    };
}

kinds! {
    /// An origin, or an address behind one.
    Http = "http",
    Secret = "secret",
    Net = "net",
    Sql = "sql",
    Sockets = "sockets",
    Files = "files",
    Environment = "environment",
}

impl Denied {
    pub fn as_str(self) -> &'static str {
        KINDS[self as usize].1
    }

    /// Runtimes of some languages ask for these at every start, whatever the plugin does.
    fn is_ordinary(self) -> bool {
        matches!(self, Self::Files | Self::Environment)
    }
}

/// The denials of one destination.
pub struct Denials {
    destination: String,
    counters: Vec<Counter>,
    told: Mutex<HashSet<(Denied, String)>>,
}

impl Denials {
    pub fn new(destination: String) -> Self {
        let counters = KINDS.iter().map(|_| Counter::default()).collect();
        Self { destination, counters, told: Mutex::default() }
    }

    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Counts each, and writes one line for each thing asked for, because a plugin asks again with
    /// every event. `fix` says what to add to the config; both may hold the guest's text, and so are
    /// fields of the record.
    pub fn deny(&self, kind: Denied, asked: &str, fix: &str) {
        self.counters[kind as usize].add_one();
        let asked = text::word(asked, ASKED_BYTES_MAX);
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() >= TOLD_MAX || !told.insert((kind, asked.clone())) {
                return;
            }
        }
        let (destination, capability) = (&self.destination, kind.as_str());
        let fix = text::word(fix, FIX_BYTES_MAX);
        if kind.is_ordinary() {
            tracing::info!(destination, capability, asked, fix, "a plugin asked for what no plugin has");
        } else {
            tracing::warn!(destination, capability, asked, fix, "a plugin asked for what is not granted");
        }
    }

    /// How often each kind was denied.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let names = KINDS.iter().map(|(_, name)| *name);
        names.zip(self.counters.iter().map(Counter::get)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_denial_is_counted_under_its_own_name() {
        let denials = Denials::new("bus".into());
        for (kind, _) in KINDS {
            denials.deny(*kind, "x", "add it");
            denials.deny(*kind, "x", "add it");
        }
        let counts = denials.counts();
        assert_eq!(counts.len(), KINDS.len());
        assert!(counts.iter().all(|(_, count)| *count == 2), "{counts:?}");
        assert_eq!(Denied::Environment.as_str(), "environment");
    }

    #[test]
    fn the_names_a_guest_makes_up_are_remembered_within_a_bound() {
        let denials = Denials::new("bus".into());
        for n in 0..1_000 {
            denials.deny(Denied::Net, &format!("{n}{}", "x".repeat(100_000)), "add it");
        }
        let told = denials.told.lock().unwrap();
        assert_eq!(told.len(), TOLD_MAX);
        assert!(told.iter().all(|(_, asked)| asked.len() <= ASKED_BYTES_MAX));
    }
}
