//! Plain counters of one destination's plugin, for metrics and `status`.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts up; shared by everything that serves one destination.
        #[derive(Debug, Default)]
        pub struct Stats { $($(#[$doc])* pub $name: Counter,)* }

        /// The counters at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct StatsSnapshot { $($(#[$doc])* pub $name: u64,)* }

        impl Stats {
            pub fn snapshot(&self) -> StatsSnapshot {
                StatsSnapshot { $($name: self.$name.get(),)* }
            }
        }

        impl StatsSnapshot {
            /// Names and values, for exporting all of them.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Calls of `deliver` and `deliver-batch` that reached a guest.
    calls,
    /// Those of them that were batches.
    batches,
    /// Events handed over in batches.
    batched_events,
    /// Calls that ended in a trap, running out of memory excepted.
    traps,
    /// Calls that trapped after a refused growth of memory.
    out_of_memory,
    /// Calls that ran past their budget.
    timeouts,
    /// Calls whose caller went away, because trust in the lease ended or the host drains.
    cancelled,
    /// Results that could not be read.
    bad_outputs,
    /// Batches answered with another number of results.
    wrong_batch_lengths,
    checks,
    /// Checks that did not find the destination well.
    checks_failed,
    ticks,
    /// Ticks that trapped or took too long; each cost its instance.
    ticks_failed,
    /// Last words of instances dropped in good order.
    closes,
    closes_failed,
    /// Events larger than the destination's limit.
    payloads_too_large,
    instances_created,
    /// Instances that could not be created or configured.
    instances_failed,
    instances_dropped,
    http_requests,
    http_connections_opened,
    net_connections_opened,
    /// Connections to endpoints that could not be made.
    net_connections_failed,
    net_bytes_sent,
    net_bytes_received,
    sql_connections_opened,
    sql_transactions,
    sql_commits,
    /// Statements, begins and commits that failed, whatever for.
    sql_failures,
    log_lines,
    log_lines_dropped,
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add_one(&self) {
        self.add(1);
    }

    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
