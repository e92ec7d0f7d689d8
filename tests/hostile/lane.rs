//! One destination with one plugin, and calls of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::names::Names;
use bytes::Bytes;
use outhaul::clock::SystemClock;
use outhaul::domain::{Detail, Event, EventSeq, Fence, HostFailure, Outcome, Timestamp};
use outhaul::plugin::spec::{HttpGrant, PluginSpec, SecretGrant, SecretSource};
use outhaul::plugin::{
    Call, Deliver, LoadError, LoadedPlugin, Runtime, RuntimeSettings, StatsSnapshot, WentTo,
};
use outhaul_tests::guests::guest;
use tokio::sync::{RwLock, RwLockReadGuard};

/// As many as most machines that run the tests have cores, so that two guests can hold them all.
pub const GUEST_THREADS: usize = 2;

/// Held by every lane, and alone by a test that measures the process.
pub static PROCESS: LazyLock<RwLock<()>> = LazyLock::new(RwLock::default);

static CACHE: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder for the cache"));
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new(settings()).expect("the runtime starts"));

pub fn settings() -> RuntimeSettings {
    let clock = Arc::new(SystemClock);
    let mut settings = RuntimeSettings::new(clock);
    settings.cache_dir = Some(CACHE.path().to_owned());
    settings.guest_threads = GUEST_THREADS;
    settings.resolver = Arc::new(Names);
    settings
}

pub struct Lane {
    pub destination: String,
    pub plugin: Arc<LoadedPlugin>,
    _among_others: RwLockReadGuard<'static, ()>,
}

/// A spec to be changed by the test. Its name is unique, so that its log lines can be told apart.
pub fn spec(component: &str) -> PluginSpec {
    PluginSpec::bare(format!("lane-{}", uuid::Uuid::new_v4().simple()), guest(component))
}

pub async fn hostile(change: impl FnOnce(&mut PluginSpec)) -> Lane {
    let mut spec = spec("hostile");
    change(&mut spec);
    Lane::load(spec).await
}

pub async fn load_error(spec: PluginSpec) -> LoadError {
    let _among_others = PROCESS.read().await;
    match RUNTIME.load(spec).await {
        Ok(_) => panic!("it loaded"),
        Err(error) => error,
    }
}

impl Lane {
    pub async fn load(spec: PluginSpec) -> Self {
        let among_others = PROCESS.read().await;
        let destination = spec.destination.clone();
        let plugin = RUNTIME.load(spec).await.unwrap_or_else(|error| panic!("{error}"));
        Self { destination, plugin, _among_others: among_others }
    }

    pub async fn call(&self, misdeed: &str) -> Outcome {
        self.plugin.deliver(call(misdeed, &[])).await
    }

    pub async fn call_with(&self, misdeed: &str, parameters: &[(&str, &str)]) -> Outcome {
        self.plugin.deliver(call(misdeed, parameters)).await
    }

    /// How often `capability` was asked for and denied.
    pub fn denied(&self, capability: &str) -> u64 {
        let found = self.plugin.denied().into_iter().find(|(name, _)| *name == capability);
        found.unwrap_or_else(|| panic!("{capability} is no capability")).1
    }

    pub fn stats(&self) -> StatsSnapshot {
        self.plugin.stats()
    }
}

/// Parameters travel as the event's headers.
pub fn call(misdeed: &str, parameters: &[(&str, &str)]) -> Call {
    let headers = parameters.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Call {
        event: Event {
            seq: EventSeq(1),
            tenant: String::new(),
            id: "event-1".to_owned(),
            topic: format!("hostile.{misdeed}"),
            key: None,
            headers,
            content_type: "application/json".to_owned(),
            created_at: Timestamp::from_secs(100),
            expires_at: None,
            payload_bytes: 2,
        },
        dedup_id: "event-1".to_owned(),
        payload: Bytes::from_static(b"{}"),
        attempt: 1,
        is_last_attempt: false,
        uncertain_before: false,
        fence: Fence(1),
        budget: Duration::from_secs(30),
        is_probe: false,
        went_to: WentTo::default(),
    }
}

/// The reference of a success; anything else fails the test.
pub fn reference(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Delivered(receipt) => receipt.reference.as_deref().unwrap_or(""),
        other => panic!("not delivered: {other:?}"),
    }
}

pub fn host_failure(outcome: &Outcome) -> (HostFailure, &Detail) {
    match outcome {
        Outcome::Host(failure, detail) => (*failure, detail),
        other => panic!("not the host's word: {other:?}"),
    }
}

pub fn retry_message(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Retry { detail, .. } => &detail.message,
        other => panic!("not a retry: {other:?}"),
    }
}

pub fn http_grant(origin: &str) -> HttpGrant {
    HttpGrant {
        origin: origin.to_owned(),
        headers: Vec::new(),
        private: true,
        roots: None,
        client_cert: None,
    }
}

/// A secret kept in a file of the test.
pub struct SecretFile(PathBuf);

pub fn secret_file(folder: &Path, content: &[u8]) -> SecretFile {
    let file = SecretFile(folder.join(uuid::Uuid::new_v4().simple().to_string()));
    file.change(content);
    file
}

impl SecretFile {
    pub fn source(&self) -> SecretSource {
        SecretSource::File(self.0.clone())
    }

    /// Replaces the file, as tools that rotate secrets do.
    pub fn change(&self, content: &[u8]) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, content).expect("a key file");
        std::fs::rename(&new, &self.0).expect("the key file is replaced");
    }
}

pub fn secret(keys: &[&SecretFile], uses: &[&str]) -> SecretGrant {
    SecretGrant {
        keys: keys.iter().map(|key| key.source()).collect(),
        uses: uses.iter().map(|usage| usage.to_string()).collect(),
    }
}
