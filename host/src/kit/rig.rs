//! The component on the real runtime, with what a case grants it, and the calls a host would make.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::case::{self, Common};
use super::server::{Request, Server};
use crate::domain::{Event, EventSeq, Fence, Outcome, Timestamp};
use crate::plugin::spec::{
    HttpGrant, Limits, NetGrant, PluginSpec, SecretGrant, SecretSource, SqlGrant, SqlIsolation, SqlUrl,
};
use crate::plugin::{Call, Deliver, LoadError, LoadedPlugin, Runtime, WentTo, dedup_id};

/// What a setting says to mean the scripted server.
pub const SERVER: &str = "{{server}}";

/// Of a call that meets a server which never answers, so that a run is short.
pub const SHORT_CALL: Duration = Duration::from_secs(2);
/// The same in a plugin's own cases, whose settings may hold a timeout of some seconds.
pub const OWN_SHORT_CALL: Duration = Duration::from_secs(5);
const CALL: Duration = Duration::from_secs(10);

pub struct Rig {
    runtime: Runtime,
    component: PathBuf,
    settings: Map<String, Value>,
    secrets: BTreeMap<String, SecretGrant>,
    net: BTreeMap<String, NetGrant>,
    sql: BTreeMap<String, SqlGrant>,
    pub server: Server,
    /// A port that nobody listens on: it was free a moment ago.
    closed: String,
    /// Where the secrets' keys and the databases of the run are, for as long as it takes.
    _folder: tempfile::TempDir,
}

/// How often an instance is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instances {
    /// One instance takes all events.
    Warm,
    /// Each event gets a fresh one.
    Recycled,
}

impl Instances {
    pub const BOTH: [Self; 2] = [Self::Warm, Self::Recycled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Recycled => "recycled",
        }
    }
}

/// What a case changes of the ordinary.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    pub settings: &'a Map<String, Value>,
    pub instances: Instances,
    pub concurrency: u32,
    pub call: Duration,
    /// Nobody listens where the settings say the server is.
    pub is_refused: bool,
}

impl Setup<'_> {
    pub fn new(instances: Instances) -> Setup<'static> {
        static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        Setup { settings: &NONE, instances, concurrency: 1, call: CALL, is_refused: false }
    }
}

impl Rig {
    pub async fn new(runtime: Runtime, component: PathBuf, common: Common) -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut secrets = BTreeMap::new();
        for (number, (name, secret)) in common.secrets.into_iter().enumerate() {
            let mut sources = Vec::new();
            for (index, key) in secret.keys.iter().enumerate() {
                let path = folder.path().join(format!("{number}-{index}"));
                std::fs::write(&path, key)?;
                sources.push(SecretSource::File(path));
            }
            secrets.insert(name, SecretGrant { keys: sources, uses: secret.uses });
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let closed = format!("http://{}", listener.local_addr()?);
        drop(listener);
        let server = Server::start().await?;
        let settings = common.settings;
        let grant = |address| NetGrant { address, private: true, ..NetGrant::default() };
        let net = common.net.into_iter().map(|(name, address)| (name, grant(address))).collect();
        let sql = common.sql.into_iter().map(|(name, url)| {
            let url = match url.as_str() {
                "sqlite" => format!("sqlite:{}?mode=rwc", folder.path().join(format!("{name}.db")).display()),
                _ => url,
            };
            let grant = SqlGrant { url: SqlUrl::Text(url), pool: 2, isolation: SqlIsolation::default() };
            (name, grant)
        });
        let sql = sql.collect();
        Ok(Self { runtime, component, settings, secrets, net, sql, server, closed, _folder: folder })
    }

    /// Whether the settings lead to the scripted server at all.
    pub fn names_server(&self) -> bool {
        Value::Object(self.settings.clone()).to_string().contains(SERVER)
    }

    pub async fn load(&self, setup: &Setup<'_>) -> Result<Lane<'_>, LoadError> {
        let plugin = self.runtime.load(self.spec(setup)).await?;
        Ok(Lane { plugin, server: &self.server, budget: setup.call })
    }

    fn spec(&self, setup: &Setup) -> PluginSpec {
        let mut settings = self.settings.clone();
        settings.extend(setup.settings.clone());
        let origin = if setup.is_refused { self.closed.clone() } else { self.server.origin() };
        let calls_per_instance = match setup.instances {
            Instances::Warm => Limits::default().calls_per_instance,
            Instances::Recycled => 1,
        };
        let grant = |origin: String| HttpGrant {
            origin,
            headers: Vec::new(),
            private: true,
            roots: None,
            client_cert: None,
        };
        PluginSpec {
            settings_json: filled(&Value::Object(settings), &origin).to_string(),
            concurrency: setup.concurrency,
            limits: Limits { call: setup.call, calls_per_instance, ..Limits::default() },
            http: vec![grant(self.server.origin()), grant(self.closed.clone())],
            secrets: self.secrets.clone(),
            net: self.net.clone(),
            sql: self.sql.clone(),
            ..PluginSpec::bare("test", self.component.clone())
        }
    }
}

/// The settings with the server's address in place of its name.
fn filled(value: &Value, origin: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(SERVER, origin)),
        Value::Array(items) => items.iter().map(|item| filled(item, origin)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), filled(value, origin))).collect()
        }
        other => other.clone(),
    }
}

/// A loaded plugin beside the server it talks to.
pub struct Lane<'a> {
    pub plugin: Arc<LoadedPlugin>,
    server: &'a Server,
    budget: Duration,
}

impl Lane<'_> {
    /// One event, and the requests that came in meanwhile.
    pub async fn send(&self, event: &case::Event) -> (Outcome, Vec<Request>) {
        self.server.take();
        let outcome = self.deliver(event).await;
        (outcome, self.server.take())
    }

    pub async fn deliver(&self, event: &case::Event) -> Outcome {
        self.plugin.deliver(self.call(event)).await
    }

    /// Whether it takes several events in one call.
    pub fn takes_batches(&self) -> bool {
        self.plugin.exports().batch
    }

    pub async fn deliver_batch(&self, events: &[case::Event]) -> Vec<Outcome> {
        self.server.take();
        self.plugin.deliver_batch(events.iter().map(|event| self.call(event)).collect()).await
    }

    fn call(&self, event: &case::Event) -> Call {
        let payload = case::payload(event).expect("it was read before");
        Call {
            event: Event {
                seq: EventSeq(1),
                tenant: event.tenant.clone(),
                id: event.id.clone(),
                topic: event.topic.clone(),
                key: event.key.clone(),
                headers: event.headers.clone().into_iter().collect(),
                content_type: event.content_type.clone(),
                created_at: Timestamp::from_secs(1_700_000_000),
                expires_at: None,
                payload_bytes: payload.len() as u64,
            },
            dedup_id: dedup_id(&event.tenant, &event.id),
            payload: Bytes::from(payload),
            attempt: event.attempt,
            is_last_attempt: event.last_attempt,
            uncertain_before: event.uncertain_before,
            fence: Fence(1),
            budget: self.budget,
            is_probe: false,
            went_to: WentTo::default(),
        }
    }
}

/// An outcome in a line.
pub fn told(outcome: &Outcome) -> String {
    let uncertain = if outcome.is_uncertain() { ", and it may have been applied" } else { "" };
    match outcome.detail() {
        None => outcome.kind().to_owned(),
        Some(detail) => format!("{} ({}: {}{uncertain})", outcome.kind(), detail.code, detail.message),
    }
}

/// How long the outcome asks to wait.
pub fn wish(outcome: &Outcome) -> Option<Duration> {
    match outcome {
        Outcome::Retry { after, .. }
        | Outcome::RateLimited { after, .. }
        | Outcome::Unavailable { after, .. } => *after,
        _ => None,
    }
}
