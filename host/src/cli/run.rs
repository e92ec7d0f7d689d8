//! `outhaul run`: the host.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::context::load_config;
use super::{Common, Exit};
use crate::clock::SystemClock;
use crate::service::{host, telemetry};

/// Delivers until it is told to stop; SIGTERM and SIGINT drain, a second one ends at once.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// Receives the address the server listens on, once the host delivers
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// How log records are written; else $OUTHAUL_LOG_FORMAT, else text
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Renewals, acknowledgements, probes: two threads, which no guest ever runs on.
const CONTROL_THREADS: usize = 2;

pub fn run(common: &Common, args: &RunArgs) -> anyhow::Result<Exit> {
    let config = load_config(common)?;
    telemetry::start(log_format(args)?, "info")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(host::run(config, args.ready_file.clone(), Arc::new(SystemClock)));
    // A guest that does not end would keep the process; its lease runs out by itself.
    runtime.shutdown_background();
    outcome.map(|()| Exit::Fine)
}

fn log_format(args: &RunArgs) -> anyhow::Result<telemetry::LogFormat> {
    let from_environment = || match std::env::var("OUTHAUL_LOG_FORMAT") {
        Ok(text) => LogFormat::from_str(&text, true)
            .map_err(|_| anyhow::anyhow!("OUTHAUL_LOG_FORMAT={text:?} is not a format; write text or json")),
        Err(_) => Ok(LogFormat::Text),
    };
    Ok(match args.log_format.map_or_else(from_environment, Ok)? {
        LogFormat::Text => telemetry::LogFormat::Text,
        LogFormat::Json => telemetry::LogFormat::Json,
    })
}
