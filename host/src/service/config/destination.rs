//! One `[destination.NAME]` of the config file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::canary::CanaryOf;
use super::database::{SqlDatabase, SqlLimits};
use super::endpoint::Endpoint;
use super::secret::SecretRef;
use super::units::{Bytes, Span};
use crate::domain::RetryPolicy;
use crate::domain::topic::Pattern;
use crate::plugin::spec;

/// A named target: a plugin, its settings, grants and limits.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Destination {
    /// The component's file, relative to the config file, or `oci://HOST/REPOSITORY@sha256:DIGEST`.
    pub component: String,
    /// A pin: the component's hex SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How the registry of its component is asked: the file's section of that name.
    #[serde(skip)]
    pub registry: Registry,
    /// The component is used only with this signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// A second component that gets a share of the deliveries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryOf>,
    /// `order.created`, `order.*` (anything that starts with `order.`) or `*`.
    pub topics: Vec<Topic>,
    /// The most deliveries at once, in batches or singly, and so the most instances.
    #[serde(default = "Destination::default_concurrency")]
    pub concurrency: u32,
    /// `key`: one delivery of a key at a time, in commit order.
    #[serde(default)]
    pub order: OrderBy,
    /// With `order = "key"`: what a dead letter does to the deliveries of its key behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<OnDead>,
    /// Readiness fails while this destination's plugin does not run.
    #[serde(default)]
    pub required: bool,
    /// Distinct events rejected in a row that stop the lane, up to 1,000; 0 is never.
    #[serde(default)]
    pub stop_after_rejections: u32,
    /// The name this destination had; its deliveries come with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// Overrides `relay.lease`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
    /// Overrides `relay.batch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// Overrides `relay.margin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<Span>,
    /// Overrides `relay.renew`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew: Option<bool>,
    #[serde(default)]
    pub retry: Retry,
    #[serde(default)]
    pub limits: Limits,
    /// What the plugin's `configure` receives, as JSON.
    #[serde(default)]
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// Origins the plugin may send requests to.
    #[serde(default)]
    pub http: Vec<HttpOrigin>,
    /// Keys the plugin may sign with, by name.
    #[serde(default)]
    pub secrets: BTreeMap<String, Secret>,
    /// Databases the plugin may use: names of `[sql.NAME]` sections.
    #[serde(default)]
    pub sql: Vec<String>,
    /// Those sections of the file, so that a change of one is a change of the destination.
    #[serde(skip_deserializing, default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(skip)]
    pub databases: BTreeMap<String, SqlDatabase>,
    /// Endpoints the plugin may connect to, by the names it knows them by.
    #[serde(default)]
    pub net: BTreeMap<String, Endpoint>,
    /// What the plugin may reach by sockets of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Allow>,
}

impl Destination {
    fn default_concurrency() -> u32 {
        16
    }
}

/// How a registry is asked for components.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Registry {
    /// With the password: who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<SecretRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretRef>,
    /// A PEM file of roots to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<PathBuf>,
    /// It is asked over plain HTTP.
    #[serde(default)]
    pub insecure: bool,
}

/// A detached signature by minisign.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Signature {
    /// A file with the public key, as `minisign -G` writes it.
    pub key: PathBuf,
    /// The signature's file, as `minisign -S` writes it.
    pub file: PathBuf,
}

/// A validated route pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topic(pub Pattern);

impl Serialize for Topic {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for Topic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |why| serde::de::Error::custom(format!("{text:?} is not a topic pattern: {why}"));
        Pattern::parse(&text).map(Self).map_err(wrong)
    }
}

impl JsonSchema for Topic {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Topic".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^\\S+$" })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrderBy {
    #[default]
    None,
    Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDead {
    Block,
    Skip,
}

/// When a failed delivery is attempted again, and when no longer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct Retry {
    /// Attempts after which a delivery is a dead letter.
    pub max_attempts: u32,
    /// The ceiling of the first wait; it doubles with each attempt.
    pub base: Span,
    /// The ceiling of every later wait.
    pub cap: Span,
    /// The longest a destination's own "come back after" is honoured.
    pub after_cap: Span,
    /// From the first claim: after it, a failed or deferred delivery is a dead letter.
    pub max_age: Span,
}

impl Default for Retry {
    fn default() -> Self {
        let RetryPolicy { max_attempts, base, cap, after_cap, max_age } = RetryPolicy::default();
        Self {
            max_attempts,
            base: Span(base),
            cap: Span(cap),
            after_cap: Span(after_cap),
            max_age: Span(max_age),
        }
    }
}

/// What one instance and one call may use.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct Limits {
    /// Memory of one instance; growing past it costs an attempt.
    pub memory: Bytes,
    /// The whole call, waits for the host included; longer costs an attempt.
    pub call: Span,
    /// A larger event is dead-lettered, never truncated.
    pub payload: Bytes,
    /// Calls after which an instance is replaced.
    pub calls_per_instance: u64,
    /// Entries of all tables of one instance; growing past it traps.
    pub tables: u64,
    /// Handles a plugin may hold; one more traps.
    pub handles: u32,
    /// One log line; the rest of it is cut.
    pub log_line: Bytes,
    /// Log lines a second; more are dropped and counted.
    pub log_lines_per_second: u32,
    /// A failure's code and message; the rest is cut.
    pub text: Bytes,
    /// A receipt's reference; the rest is cut.
    pub reference: Bytes,
    /// Events of one call, for a plugin that exports `batch`; 1 delivers all singly.
    pub batch_events: u32,
    /// Payload bytes of one such call; a larger event goes alone.
    pub batch_bytes: Bytes,
    pub http: HttpLimits,
    pub net: NetLimits,
    pub sql: SqlLimits,
}

impl Default for Limits {
    fn default() -> Self {
        let limits = spec::Limits::default();
        Self {
            memory: Bytes(limits.memory_bytes),
            call: Span(limits.call),
            payload: Bytes(limits.payload_bytes),
            calls_per_instance: limits.calls_per_instance,
            tables: limits.table_elements,
            handles: limits.handles,
            log_line: Bytes(limits.log_line_bytes as u64),
            log_lines_per_second: limits.log_lines_per_second,
            text: Bytes(limits.text_bytes as u64),
            reference: Bytes(limits.reference_bytes as u64),
            batch_events: limits.batch_events,
            batch_bytes: Bytes(limits.batch_bytes),
            http: HttpLimits::default(),
            net: NetLimits::default(),
            sql: SqlLimits::default(),
        }
    }
}

/// Bounds of connections to endpoints; past any of them the plugin is told.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct NetLimits {
    /// Of resolving and connecting together.
    pub connect: Span,
    pub tls: Span,
    /// Open connections of one instance.
    pub connections: u32,
}

impl Default for NetLimits {
    fn default() -> Self {
        let net = spec::NetLimits::default();
        Self { connect: Span(net.connect), tls: Span(net.tls), connections: net.connections }
    }
}

/// Bounds of one outgoing request; past any of them the request fails inside the plugin.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[serde(default)]
pub struct HttpLimits {
    pub connect: Span,
    pub tls: Span,
    pub first_byte: Span,
    /// From the request's start to the end of the response's body.
    pub total: Span,
    pub response_body: Bytes,
    /// Of all response headers together.
    pub header_bytes: Bytes,
    pub headers: u32,
    /// Connections, busy and idle; more requests wait.
    pub connections: u32,
    /// After which an unused connection is closed.
    pub idle: Span,
}

impl Default for HttpLimits {
    fn default() -> Self {
        let http = spec::HttpLimits::default();
        Self {
            connect: Span(http.connect),
            tls: Span(http.tls),
            first_byte: Span(http.first_byte),
            total: Span(http.total),
            response_body: Bytes(http.response_body_bytes),
            header_bytes: Bytes(http.header_bytes as u64),
            headers: http.headers as u32,
            connections: http.connections as u32,
            idle: Span(http.idle),
        }
    }
}

/// An origin the plugin may send requests to.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HttpOrigin {
    /// `scheme://host[:port]`.
    pub origin: String,
    /// Injected by the host; the plugin neither sees nor overrides them.
    #[serde(default)]
    pub headers: BTreeMap<String, SecretRef>,
    /// The origin may be a private, loopback or link-local address.
    #[serde(default)]
    pub private: bool,
    /// A PEM file of roots to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<ClientCert>,
}

/// A certificate the host presents.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ClientCert {
    /// A PEM file.
    pub cert: PathBuf,
    /// PEM.
    pub key: SecretRef,
}

/// A named secret: what it is and what the plugin may do with it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Secret {
    /// Newest first; `sign` answers with one signature of each.
    pub keys: Vec<SecretRef>,
    /// `hmac-sha256`, `ed25519`, or `reveal`, which hands the key itself to the plugin.
    #[serde(rename = "use")]
    pub uses: Vec<String>,
}

/// Sockets of the plugin's own (`wasi:sockets`).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Allow {
    /// `host:port` each; names are resolved by the host when a socket connects.
    #[serde(default)]
    pub tcp: Vec<String>,
    /// The plugin may ask for the addresses of these names.
    #[serde(default)]
    pub resolve: bool,
    /// They may be private, loopback or link-local addresses.
    #[serde(default)]
    pub private: bool,
}
