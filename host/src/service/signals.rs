//! What the operating system asks of a host: stop in order, stop at once, look at the config again.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Signals of this process from the moment of [`Signals::listen`] on.
#[derive(Clone)]
pub struct Signals {
    stop: CancellationToken,
    reread: Arc<Notify>,
}

impl Signals {
    /// SIGTERM or SIGINT asks for a drain, a second one ends the process at once; SIGHUP asks for
    /// another look at the config.
    pub fn listen() -> std::io::Result<Self> {
        let signals = Self { stop: CancellationToken::new(), reread: Arc::new(Notify::new()) };
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let mut hangup = signal(SignalKind::hangup())?;
        let heard = signals.clone();
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                    _ = hangup.recv() => {
                        heard.reread.notify_one();
                        continue;
                    }
                };
                if heard.stop.is_cancelled() {
                    tracing::warn!(
                        signal = name,
                        "a second signal: ending at once; leases in flight run out by themselves"
                    );
                    std::process::exit(1);
                }
                tracing::info!(signal = name, "stopping; a second signal ends at once");
                heard.stop.cancel();
            }
        });
        Ok(signals)
    }

    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    pub async fn asked_to_reread(&self) {
        self.reread.notified().await;
    }
}
