//! Logs: one structured record a line on standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Starts logging. `$OUTHAUL_LOG` filters as `info,outhaul::relay=debug` does.
pub fn start(format: LogFormat, default: &str) -> anyhow::Result<()> {
    let filter = match std::env::var("OUTHAUL_LOG") {
        Ok(filter) => EnvFilter::try_new(&filter).map_err(|error| {
            anyhow::anyhow!(
                "OUTHAUL_LOG={filter:?} is not a filter: {error}; write info or info,outhaul::relay=debug"
            )
        })?,
        Err(_) => EnvFilter::new(default),
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE);
    match format {
        LogFormat::Text => logs.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}
