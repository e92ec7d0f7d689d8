//! Measures Outhaul beside a peer in the same run. The peer is the same relay on the same database
//! with a native deliverer in place of the component, so that a ratio says what the sandbox costs.
//! Runs are interleaved and medians are quoted.

mod batch;
mod calls;
#[cfg(feature = "destinations")]
mod destinations;
mod languages;
mod latency;
mod memory;
mod notify;
mod peer;
mod receiver;
mod rig;
mod throughput;

use std::path::PathBuf;

use clap::{Args, Parser};

/// Run it by `cargo xtask bench`, which starts a PostgreSQL and builds with optimisation.
#[derive(Parser)]
enum Bench {
    /// Events a second through a no-op and through the HTTP plugin, on both databases.
    Throughput {
        #[command(flatten)]
        common: Common,
        /// Events a run.
        #[arg(long, default_value_t = 20_000)]
        events: usize,
    },
    /// Events a second through a no-op that takes batches, with them and without.
    Batch {
        #[command(flatten)]
        common: Common,
        /// Events a run.
        #[arg(long, default_value_t = 20_000)]
        events: usize,
    },
    /// From the producer's commit to the plugin's call and to the recorded delivery, when idle.
    Latency {
        #[command(flatten)]
        common: Common,
        #[arg(long, default_value_t = 300)]
        events: usize,
    },
    /// Resident memory with so many warm instances of the HTTP plugin.
    Memory {
        #[command(flatten)]
        common: Common,
    },
    /// One component call on a warm instance.
    Calls {
        #[command(flatten)]
        common: Common,
        #[arg(long, default_value_t = 20_000)]
        calls: u32,
    },
    /// The template in each language: size, compilation, memory, calls and events a second.
    Languages {
        #[command(flatten)]
        common: Common,
        /// Events a run.
        #[arg(long, default_value_t = 2_000)]
        events: usize,
        /// Calls a run.
        #[arg(long, default_value_t = 1_000)]
        calls: u32,
        /// Only these templates, as `python`.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Events a second to each destination, beside the broker's own client.
    #[cfg(feature = "destinations")]
    Destinations {
        #[command(flatten)]
        common: Common,
        /// Events a run.
        #[arg(long, default_value_t = 10_000)]
        events: usize,
        /// Only these.
        #[arg(long, value_delimiter = ',', value_parser = destinations::NAMES)]
        only: Vec<String>,
    },
    /// What the wake-up by NOTIFY costs 16 producers on PostgreSQL.
    Notify {
        #[command(flatten)]
        common: Common,
        #[arg(long, default_value_t = 16)]
        producers: usize,
        #[arg(long, default_value_t = 3)]
        seconds: u64,
    },
}

#[derive(Args, Clone)]
pub struct Common {
    /// How often each side runs.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// A server to make databases on.
    #[arg(long, default_value_t = from_environment("OUTHAUL_TEST_POSTGRES"))]
    postgres: String,
    /// Where the components are.
    #[arg(long, default_value_os_t = PathBuf::from(from_environment("OUTHAUL_GUESTS")))]
    guests: PathBuf,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    match Bench::parse() {
        Bench::Throughput { common, events } => throughput::run(&common, events).await,
        Bench::Batch { common, events } => batch::run(&common, events).await,
        Bench::Latency { common, events } => latency::run(&common, events).await,
        Bench::Memory { common } => memory::run(&common).await,
        Bench::Calls { common, calls } => calls::run(&common, calls).await,
        Bench::Languages { common, events, calls, only } => {
            languages::run(&common, events, calls, &only).await
        }
        #[cfg(feature = "destinations")]
        Bench::Destinations { common, events, only } => destinations::run(&common, events, &only).await,
        Bench::Notify { common, producers, seconds } => notify::run(&common, producers, seconds).await,
    }
}

fn from_environment(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// The middle one; of an even number, the upper.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}
