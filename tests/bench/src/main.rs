//! Measures Outhaul. Ratios and shares that a test can't assert on a busy machine are shown here.

mod relay;

use clap::Parser;

#[derive(Parser)]
enum Bench {
    /// The relay with a plugin that does nothing in process: what store and relay cost.
    Relay(relay::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Bench::parse() {
        Bench::Relay(options) => relay::run(options).await,
    }
}
