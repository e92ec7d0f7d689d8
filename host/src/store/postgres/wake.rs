//! Wake-ups by LISTEN. A floor of polling runs beside it in the relay, so a listener that hears
//! nothing costs the poll interval and no event; it is said once, in one log line.

use std::sync::OnceLock;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const CHANNEL: &str = "outbox_wake";

/// How long a notification of our own may take before the listener counts as deaf.
const HEARS_WITHIN: Duration = Duration::from_secs(5);
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);

pub(super) struct Wake {
    connect: PgConnectOptions,
    pool: PgPool,
    listens: bool,
    wakes: watch::Sender<u64>,
    listener: OnceLock<JoinHandle<()>>,
}

impl Wake {
    pub fn new(connect: PgConnectOptions, pool: PgPool, listens: bool) -> Self {
        Self { connect, pool, listens, wakes: watch::Sender::new(0), listener: OnceLock::new() }
    }

    /// The next wake-up after this call. The first call starts listening.
    pub fn next(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut wakes = self.wakes.subscribe();
        if self.listens {
            self.listener.get_or_init(|| {
                let ears = Ears {
                    connect: self.connect.clone(),
                    pool: self.pool.clone(),
                    wakes: self.wakes.clone(),
                };
                tokio::spawn(ears.listen_for_ever())
            });
        }
        async move {
            if wakes.changed().await.is_err() {
                // The store is gone, and so is whoever asked.
                std::future::pending().await
            }
        }
    }

    /// Whether producers are asked to notify.
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// Something this process did may have become due.
    pub fn now(&self) {
        self.wakes.send_modify(|count| *count += 1);
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

struct Ears {
    connect: PgConnectOptions,
    pool: PgPool,
    wakes: watch::Sender<u64>,
}

impl Ears {
    async fn listen_for_ever(self) {
        let mut retry = RETRY_MIN;
        let mut said_deaf = false;
        let mut said_down = false;
        loop {
            match self.listen(&mut said_deaf, &mut retry, &mut said_down).await {
                Ok(()) => {}
                Err(error) if !said_down => {
                    said_down = true;
                    tracing::warn!(%error, "the connection that listens for wake-ups is lost; polling goes on");
                }
                Err(_) => {}
            }
            // Whatever was sent meanwhile is lost: look once.
            self.wake();
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    async fn listen(
        &self,
        said_deaf: &mut bool,
        retry: &mut Duration,
        said_down: &mut bool,
    ) -> sqlx::Result<()> {
        // A connection of its own: the pool's are for statements.
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.connect.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        self.check_hearing(&mut listener, said_deaf).await?;
        self.wake();
        *retry = RETRY_MIN;
        *said_down = false;
        // None is a lost connection; the caller makes a new one and says so.
        while listener.try_recv().await?.is_some() {
            self.wake();
        }
        Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into()))
    }

    /// Behind a transaction pooler LISTEN succeeds and nothing is ever heard, so say something and
    /// listen for it.
    async fn check_hearing(&self, listener: &mut PgListener, said_deaf: &mut bool) -> sqlx::Result<()> {
        sqlx::query("select pg_notify($1, '')::text").bind(CHANNEL).execute(&self.pool).await?;
        let heard = tokio::time::timeout(HEARS_WITHIN, listener.try_recv()).await;
        match heard {
            Ok(Ok(Some(_))) => *said_deaf = false,
            Ok(Ok(None)) => return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into())),
            Ok(Err(error)) => return Err(error),
            Err(_) if !*said_deaf => {
                *said_deaf = true;
                tracing::warn!(
                    "LISTEN hears no notification on this connection, as behind a transaction pooler: \
                     deliveries start within outbox.poll; connect to the database directly, or set \
                     outbox.wake = \"poll\" and save the notifications"
                );
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn wake(&self) {
        self.wakes.send_modify(|count| *count += 1);
    }
}
