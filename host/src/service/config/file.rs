//! The config file as it is written: every key, its type and its default. The JSON Schema and the
//! check for unknown keys are derived from these types, so they can't disagree with the reader.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::canary::CanaryOf;
pub use super::database::*;
pub use super::destination::*;
pub use super::endpoint::*;
use super::secret::{SecretRef, UrlRef};
use super::units::{Bytes, Span};

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Outhaul config", deny_unknown_fields)]
pub struct ConfigFile {
    /// The format's version: 1.
    pub version: u32,
    pub outbox: Outbox,
    #[serde(default)]
    pub relay: RelayDefaults,
    #[serde(default)]
    pub server: Server,
    #[serde(default)]
    pub runtime: Runtime,
    /// Where applications post events. Not in this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intake: Option<Intake>,
    /// How registries are asked, each by the host (and port) that components name.
    #[serde(default)]
    pub registry: BTreeMap<String, Registry>,
    /// Each destination by its name.
    #[serde(default)]
    pub destination: BTreeMap<String, Destination>,
    /// Databases that destinations may be granted, each by its name.
    #[serde(default)]
    pub sql: BTreeMap<String, SqlDatabase>,
}

impl ConfigFile {
    /// A database, and nothing that uses it.
    pub fn of(outbox: Outbox) -> Self {
        Self {
            version: super::read::VERSION,
            outbox,
            relay: RelayDefaults::default(),
            server: Server::default(),
            runtime: Runtime::default(),
            intake: None,
            registry: BTreeMap::new(),
            destination: BTreeMap::new(),
            sql: BTreeMap::new(),
        }
    }
}

/// The database that holds the outbox.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Outbox {
    /// `sqlite:PATH` (relative to the config file) or `postgres://…`; a reference to a secret if
    /// it holds a password.
    pub url: UrlRef,
    /// PostgreSQL: the schema that holds the tables, instead of the connection's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Whether `run` may create and upgrade the tables.
    #[serde(default = "yes")]
    pub migrate: bool,
    /// The most connections this host opens. A running delivery holds none.
    #[serde(default = "Outbox::default_pool")]
    pub pool: u32,
    /// The longest one statement may take.
    #[serde(default = "Outbox::default_timeout")]
    pub timeout: Span,
    /// The floor under every wake-up: the longest a due delivery waits to be noticed.
    #[serde(default = "Outbox::default_poll")]
    pub poll: Span,
    /// PostgreSQL: a pooler in transaction mode stands in between.
    #[serde(default)]
    pub pooler: bool,
    /// PostgreSQL: listen for notifications, or only poll.
    #[serde(default)]
    pub wake: Wake,
}

impl Outbox {
    /// With the defaults.
    pub fn of(url: UrlRef) -> Self {
        Self {
            url,
            schema: None,
            migrate: yes(),
            pool: Self::default_pool(),
            timeout: Self::default_timeout(),
            poll: Self::default_poll(),
            pooler: false,
            wake: Wake::default(),
        }
    }

    fn default_pool() -> u32 {
        10
    }

    fn default_timeout() -> Span {
        Span::secs(5)
    }

    fn default_poll() -> Span {
        Span::secs(1)
    }
}

pub(super) fn yes() -> bool {
    true
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Wake {
    #[default]
    Notify,
    Poll,
}

/// Defaults for each destination, and the host's drain.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct RelayDefaults {
    /// How long a claim lasts unless it is renewed.
    pub lease: Span,
    /// The most deliveries claimed at once.
    pub batch: u32,
    /// How much earlier than the database this host stops trusting its own lease.
    pub margin: Span,
    /// Whether leases are renewed while a call runs.
    pub renew: bool,
    /// How long a stopping host waits for running calls.
    pub drain: Span,
    /// The most payload bytes this host holds in memory; deliveries wait when they do not fit.
    pub payload_memory: Bytes,
}

impl Default for RelayDefaults {
    fn default() -> Self {
        Self {
            lease: Span::secs(30),
            batch: 100,
            margin: Span::secs(2),
            renew: true,
            drain: Span::secs(20),
            payload_memory: Bytes(64 << 20),
        }
    }
}

/// What operators and probes talk to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct Server {
    /// Address and port; port 0 takes a free one. Anything but loopback needs a token.
    pub listen: SocketAddr,
    /// What a client sends as `Authorization: Bearer …`; without it `/livez` answers, and
    /// `/readyz` beyond this machine says only whether the host is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretRef>,
}

impl Default for Server {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 8780)), token: None }
    }
}

/// Where plugins run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct Runtime {
    /// A directory of the host's own for compiled code; without it, `outhaul` in the user's cache
    /// directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// Threads that run plugins; 0 is one for each core.
    pub threads: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Intake {
    /// Address and port.
    pub listen: SocketAddr,
}
