//! Plugins that reach nothing: what they send is answered on the spot and kept, what they would
//! connect to is not there, idle ones do not tick, and time and chance are the same in every run. To
//! compare components, or to look at them, without an effect anywhere.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wasmtime_wasi::{HostWallClock, WasiCtxBuilder};

use crate::clock;
use crate::domain::Timestamp;

/// What stands in for the world outside.
#[derive(Clone)]
pub struct Offline {
    pub answers: Arc<dyn Answers>,
    /// What time it is for guests, for ever.
    pub wall: Timestamp,
    /// The host may fetch components from registries: whether plugins reach anything is another matter.
    pub may_pull: bool,
}

/// Told of everything a plugin sends, and asked what comes back. Called on the guests' threads.
pub trait Answers: Send + Sync + 'static {
    fn answer(&self, request: Sent) -> Answer;

    /// Something else was asked for, which is not there: a connection (`net`, `sockets`, `sql`), or an origin
    /// that is not granted (`http`).
    fn unreached(&self, capability: &'static str, what: &str);
}

/// A request to a granted origin, as it would have left the host, but for the headers the operator
/// injects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub method: String,
    pub url: String,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    /// What it begins with.
    pub body: Bytes,
    /// Of all of it.
    pub body_bytes: u64,
    /// Hex, of all of it.
    pub body_sha256: String,
}

/// What the plugin gets for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Response {
        status: u16,
        headers: Vec<(String, String)>,
        body: Bytes,
        /// The body does not end as it should.
        fault: Option<BodyFault>,
    },
    /// Nobody listens.
    Refused,
    /// The connection ends in place of an answer.
    Reset,
    /// No answer comes; told at once, and not after the wait.
    Silent,
}

/// How a response's body goes wrong after its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// The connection ends.
    Cut,
    /// No more comes, told at once.
    Stalled,
    /// It is larger than `limits.http.response_body`.
    TooLarge,
}

/// What a request's body is kept of.
pub const BODY_KEPT_BYTES: usize = 1 << 20;

/// The seed of every guest's random numbers.
const SEED: u64 = 1;

impl Offline {
    /// Nobody listens anywhere, and nothing is fetched.
    pub fn alone(wall: Timestamp) -> Self {
        Self { answers: Arc::new(Nobody), wall, may_pull: false }
    }

    /// The same time and the same numbers for every instance.
    pub(super) fn configure(&self, wasi: &mut WasiCtxBuilder) {
        wasi.wall_clock(Stopped(self.wall));
        wasi.secure_random(clock::seeded(SEED));
        wasi.insecure_random(clock::seeded(SEED));
        wasi.insecure_random_seed(u128::from(SEED));
    }
}

struct Nobody;

impl Answers for Nobody {
    fn answer(&self, _: Sent) -> Answer {
        Answer::Refused
    }

    fn unreached(&self, _: &'static str, _: &str) {}
}

/// A clock that stands.
struct Stopped(Timestamp);

impl HostWallClock for Stopped {
    fn resolution(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn now(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.0).unwrap_or(0))
    }
}
