//! What the operator allows a destination: its component, settings, grants and limits. Built by
//! the service from the config file; secrets are still references here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// One destination's plugin.
#[derive(Clone, Debug)]
pub struct PluginSpec {
    pub destination: String,
    /// A file; of a component that is pulled first, nothing yet.
    pub component: PathBuf,
    pub pull: Option<Pull>,
    /// An optional pin: the component's hex SHA-256.
    pub sha256: Option<String>,
    /// An optional signature that the component must have.
    pub signature: Option<SignatureCheck>,
    /// The `settings` table as a JSON object.
    pub settings_json: String,
    /// The most calls at once, and so the most instances.
    pub concurrency: u32,
    pub limits: Limits,
    pub http: Vec<HttpGrant>,
    pub secrets: BTreeMap<String, SecretGrant>,
    /// Endpoints by the names the plugin knows them by.
    pub net: BTreeMap<String, NetGrant>,
    pub sockets: Option<SocketsGrant>,
    /// Databases by the names of the config.
    pub sql: BTreeMap<String, SqlGrant>,
}

impl PluginSpec {
    /// A component with the default limits and no grant at all.
    pub fn bare(destination: impl Into<String>, component: impl Into<PathBuf>) -> Self {
        Self {
            destination: destination.into(),
            component: component.into(),
            pull: None,
            sha256: None,
            signature: None,
            settings_json: "{}".to_owned(),
            concurrency: 1,
            limits: Limits::default(),
            http: Vec::new(),
            secrets: BTreeMap::new(),
            net: BTreeMap::new(),
            sockets: None,
            sql: BTreeMap::new(),
        }
    }

    /// The same, without anything the operator grants.
    pub(super) fn without_grants(&self) -> Self {
        Self {
            http: Vec::new(),
            secrets: BTreeMap::new(),
            net: BTreeMap::new(),
            sockets: None,
            sql: BTreeMap::new(),
            ..self.clone()
        }
    }
}

/// A component in a registry.
#[derive(Clone, Debug)]
pub struct Pull {
    /// `oci://HOST/REPOSITORY@sha256:DIGEST`.
    pub reference: String,
    pub access: RegistryAccess,
}

/// How a registry is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistryAccess {
    pub username: Option<SecretSource>,
    pub password: Option<SecretSource>,
    /// Trust these roots instead of the system's.
    pub roots: Option<PathBuf>,
    /// Without TLS.
    pub insecure: bool,
}

/// A detached signature by minisign, and the key it must be by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureCheck {
    /// A file with the public key.
    pub key: PathBuf,
    pub file: PathBuf,
}

/// Each limit has a unit, a number and a consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of one instance; growing past it is `out-of-memory`, and costs an attempt.
    pub memory_bytes: u64,
    /// Entries of all tables of one instance; growing past it traps.
    pub table_elements: u64,
    /// Handles the guest may hold; one more traps.
    pub handles: u32,
    /// The whole call, host waits included; longer is `deadline`, and costs an attempt.
    pub call: Duration,
    /// Calls after which an instance is replaced.
    pub calls_per_instance: u64,
    /// A larger event is dead-lettered, never truncated.
    pub payload_bytes: u64,
    /// Events of one call of `deliver-batch`; more go into another. 1 delivers all singly.
    pub batch_events: u32,
    /// Payload bytes of one such call; more go into another, and a larger event goes alone.
    pub batch_bytes: u64,
    /// One log line; the rest of it is cut.
    pub log_line_bytes: usize,
    /// Log lines a second; more are dropped and counted.
    pub log_lines_per_second: u32,
    /// A failure's message, code or a settings problem; the rest is cut.
    pub text_bytes: usize,
    /// A receipt's reference; the rest is cut.
    pub reference_bytes: usize,
    pub http: HttpLimits,
    pub net: NetLimits,
    pub sql: SqlLimits,
}

/// Bounds of one outgoing request; past any of them the request fails inside the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    pub connect: Duration,
    pub tls: Duration,
    pub first_byte: Duration,
    /// From the request's start to the response body's end.
    pub total: Duration,
    pub response_body_bytes: u64,
    pub header_bytes: usize,
    pub headers: usize,
    /// Connections of one destination, busy and idle; more requests wait.
    pub connections: usize,
    pub idle: Duration,
}

/// Bounds of transactions; past any of them the guest is told in an `sql-error`, and the transaction is
/// rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlLimits {
    /// Of waiting for a connection of the pool and of making one.
    pub connect: Duration,
    /// Of one statement, its waits for locks included.
    pub statement: Duration,
    pub transaction: Duration,
    /// Open ones of one instance.
    pub transactions: u32,
    /// Of one result.
    pub rows: u32,
    /// Of the values of one result.
    pub result_bytes: usize,
}

/// Bounds of connections to endpoints; past any of them the guest is told in a `connect-error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetLimits {
    /// Of resolving and connecting together.
    pub connect: Duration,
    pub tls: Duration,
    /// Open ones of one instance.
    pub connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            table_elements: 100_000,
            handles: 1_000,
            call: Duration::from_secs(10),
            calls_per_instance: 100_000,
            payload_bytes: 1 << 20,
            batch_events: 100,
            batch_bytes: 1 << 20,
            log_line_bytes: 4 << 10,
            log_lines_per_second: 100,
            text_bytes: 2 << 10,
            reference_bytes: 1 << 10,
            http: HttpLimits::default(),
            net: NetLimits::default(),
            sql: SqlLimits::default(),
        }
    }
}

impl Default for SqlLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            statement: Duration::from_secs(5),
            transaction: Duration::from_secs(8),
            transactions: 4,
            rows: 10_000,
            result_bytes: 1 << 20,
        }
    }
}

impl Default for NetLimits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), tls: Duration::from_secs(5), connections: 16 }
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            tls: Duration::from_secs(5),
            first_byte: Duration::from_secs(30),
            total: Duration::from_secs(60),
            response_body_bytes: 1 << 20,
            header_bytes: 64 << 10,
            headers: 100,
            connections: 64,
            idle: Duration::from_secs(30),
        }
    }
}

/// An origin the plugin may send requests to.
#[derive(Clone, Debug)]
pub struct HttpGrant {
    /// `scheme://host[:port]`, compared after normalisation.
    pub origin: String,
    /// Injected by the host; the guest neither sees nor overrides them.
    pub headers: Vec<(String, SecretSource)>,
    /// The origin may resolve to a private, loopback or link-local address.
    pub private: bool,
    /// Trust these roots instead of the system's.
    pub roots: Option<PathBuf>,
    pub client_cert: Option<ClientCert>,
}

/// An endpoint the plugin may connect to by its name.
#[derive(Clone, Debug, Default)]
pub struct NetGrant {
    /// `host:port`.
    pub address: String,
    pub tls: NetTls,
    /// Further addresses it may lead to: `host:port` or `*.domain:port`.
    pub also: Vec<String>,
    /// It may be at a private, loopback or link-local address.
    pub private: bool,
    /// Trust these roots instead of the system's.
    pub roots: Option<PathBuf>,
    pub client_cert: Option<ClientCert>,
}

/// Where TLS begins on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetTls {
    #[default]
    None,
    /// With its first byte.
    AtOnce,
    /// Where the protocol starts it, after a first talk in the clear.
    Start,
}

/// A database the plugin may open by its name.
#[derive(Clone, Debug)]
pub struct SqlGrant {
    pub url: SqlUrl,
    /// The most connections of this host, for all destinations that are granted the database.
    pub pool: u32,
    pub isolation: SqlIsolation,
}

/// A database's URL, or where it is read from when it is needed.
#[derive(Clone, PartialEq, Eq)]
pub enum SqlUrl {
    Text(String),
    Secret(SecretSource),
}

/// Shows no password.
impl fmt::Debug for SqlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::Secret(source) => write!(f, "{source:?}"),
        }
    }
}

/// What a transaction sees of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SqlIsolation {
    #[default]
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// What a plugin may reach by sockets of its own.
#[derive(Clone, Debug, Default)]
pub struct SocketsGrant {
    /// `host:port` each.
    pub tcp: Vec<String>,
    /// The plugin may ask for the addresses of the names in `tcp`.
    pub resolve: bool,
    /// They may be private, loopback or link-local addresses.
    pub private: bool,
}

#[derive(Clone, Debug)]
pub struct ClientCert {
    pub cert: PathBuf,
    pub key: SecretSource,
}

#[derive(Clone, Debug)]
pub struct SecretGrant {
    /// Newest first.
    pub keys: Vec<SecretSource>,
    /// `hmac-sha256`, `ed25519`, `reveal`.
    pub uses: Vec<String>,
}

/// Where a secret is read from, when it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    Env(String),
    File(PathBuf),
}
