//! Keep-alive connections of one destination, capped: when all are busy, requests wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use wasmtime_wasi_http::{Error, WasiBody};

use super::Grant;
use super::dialled;
use super::origin::Origin;
use crate::clock::SharedClock;
use crate::plugin::capability::dial::{Dialer, Transport};
use crate::plugin::spec::HttpLimits;
use crate::plugin::stats::Stats;

/// How often a connection looks whether its time is over. It may outlive its limit by this much.
const SWEEP: Duration = Duration::from_secs(1);
/// A connection that is not ready again this long after its response ended is given up.
const READY_TIMEOUT: Duration = Duration::from_secs(1);
/// hyper's own least.
const READ_BUFFER_BYTES_MIN: usize = 8 << 10;

pub struct ConnectionPool {
    limits: HttpLimits,
    dialer: Dialer,
    stats: Arc<Stats>,
    clock: SharedClock,
    state: Mutex<State>,
    /// A connection became idle, or a place became free.
    changed: tokio::sync::Notify,
}

#[derive(Default)]
struct State {
    /// Busy and idle ones.
    open: usize,
    /// Nothing is kept alive any more.
    is_closed: bool,
    idle: HashMap<Origin, Vec<Connected>>,
}

struct Connected {
    sender: SendRequest<WasiBody>,
    expires_at: Arc<Expiry>,
}

/// When a connection ends whatever it does, in milliseconds since boot: moved with each request.
struct Expiry(AtomicU64);

/// A connection taken out of the pool for one exchange.
pub struct Checkout {
    pool: Arc<ConnectionPool>,
    origin: Origin,
    connected: Connected,
    /// It may have been closed by the other side since its last use.
    pub is_reused: bool,
}

enum Place {
    Idle(Connected),
    New(OpenGuard),
}

impl ConnectionPool {
    pub fn new(limits: HttpLimits, dialer: Dialer, stats: Arc<Stats>, clock: SharedClock) -> Self {
        Self { limits, dialer, stats, clock, state: Mutex::default(), changed: tokio::sync::Notify::new() }
    }

    /// An idle connection to the origin, or a new one; waits while the destination has as many as
    /// it may. Ends by `ends_at` (since boot).
    pub async fn checkout(self: &Arc<Self>, grant: &Grant, ends_at: Duration) -> Result<Checkout, Error> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Armed before looking: what changes in between is not missed.
            changed.as_mut().enable();
            match self.place(&grant.origin) {
                Some(Place::Idle(connected)) => return Ok(self.lend(grant, connected, true)),
                Some(Place::New(open)) => {
                    let transport =
                        self.dialer.dial(grant.target(), ends_at).await.map_err(dialled::error)?;
                    self.stats.http_connections_opened.add_one();
                    let connected = self.handshake(transport, open).await?;
                    return Ok(self.lend(grant, connected, false));
                }
                None => {
                    let left = ends_at.saturating_sub(self.clock.since_boot());
                    timeout(left, changed).await.map_err(|_| Error::ConnectionLimitReached)?;
                }
            }
        }
    }

    /// Keeps no connection alive from now on; requests still get one, each its own.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        // Dropping a sender ends its connection.
        state.idle.clear();
    }

    fn place(self: &Arc<Self>, origin: &Origin) -> Option<Place> {
        let mut state = self.state();
        while let Some(connected) = state.idle.get_mut(origin).and_then(Vec::pop) {
            if connected.sender.is_ready() {
                return Some(Place::Idle(connected));
            }
        }
        if state.open < self.limits.connections.max(1) {
            state.open += 1;
            return Some(Place::New(OpenGuard(self.clone())));
        }
        // Another origin's idle connection makes room: dropping its sender ends it.
        let crowded = state.idle.values_mut().find(|idle| !idle.is_empty());
        drop(crowded.map(|idle| idle.remove(0)));
        None
    }

    fn lend(self: &Arc<Self>, grant: &Grant, connected: Connected, is_reused: bool) -> Checkout {
        connected.expires_at.set(self.clock.since_boot() + self.limits.total);
        Checkout { pool: self.clone(), origin: grant.origin.clone(), connected, is_reused }
    }

    async fn handshake(
        self: &Arc<Self>,
        transport: Box<dyn Transport>,
        open: OpenGuard,
    ) -> Result<Connected, Error> {
        let (sender, connection) = Builder::new()
            .max_headers(self.limits.headers)
            .max_header_size(self.limits.header_bytes)
            .max_buf_size(self.limits.header_bytes.max(READ_BUFFER_BYTES_MIN))
            .handshake(TokioIo::new(transport))
            .await?;
        let expires_at = Arc::new(Expiry(AtomicU64::new(u64::MAX)));
        tokio::spawn(drive(connection, expires_at.clone(), self.clock.clone(), open));
        Ok(Connected { sender, expires_at })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves bytes until the connection ends or its time is over, then frees its place. The place
/// belongs to the connection and not to whoever uses it: a guest that keeps a response for ever
/// can't keep the place.
async fn drive(
    connection: Connection<TokioIo<Box<dyn Transport>>, WasiBody>,
    expires_at: Arc<Expiry>,
    clock: SharedClock,
    _open: OpenGuard,
) {
    tokio::pin!(connection);
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            // Its error is also told to whoever waits for the response.
            _ = &mut connection => return,
            _ = sweep.tick() => {
                if expires_at.is_past(clock.since_boot()) {
                    return;
                }
            }
        }
    }
}

impl Expiry {
    fn set(&self, at: Duration) {
        self.0.store(u64::try_from(at.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn is_past(&self, now: Duration) -> bool {
        now.as_millis() >= u128::from(self.0.load(Ordering::Relaxed))
    }
}

impl Checkout {
    pub fn sender(&mut self) -> &mut SendRequest<WasiBody> {
        &mut self.connected.sender
    }

    /// Gives the connection back once its response has been read to the end.
    pub fn give_back(self) {
        if self.connected.sender.is_ready() {
            return self.make_idle();
        }
        if self.connected.sender.is_closed() {
            return;
        }
        // The connection's own task has yet to see the end of the body.
        tokio::spawn(async move {
            let mut checkout = self;
            let ready = timeout(READY_TIMEOUT, checkout.connected.sender.ready()).await;
            if matches!(ready, Ok(Ok(()))) {
                checkout.make_idle();
            }
        });
    }

    fn make_idle(self) {
        let Checkout { pool, origin, connected, .. } = self;
        connected.expires_at.set(pool.clock.since_boot() + pool.limits.idle);
        let mut state = pool.state();
        if !state.is_closed {
            state.idle.entry(origin).or_default().push(connected);
        }
        drop(state);
        pool.changed.notify_one();
    }
}

/// One of the connections a destination may have open.
struct OpenGuard(Arc<ConnectionPool>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.state().open -= 1;
        self.0.changed.notify_one();
    }
}
