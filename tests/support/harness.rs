//! One destination with one plugin, and calls of it.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::guests::{self, guest};
use bytes::Bytes;
use outhaul::clock::SystemClock;
use outhaul::domain::{Detail, Event, EventSeq, Fence, Outcome, Timestamp};
use outhaul::plugin::spec::{HttpGrant, PluginSpec, SecretGrant, SecretSource};
use outhaul::plugin::{Call, Deliver, LoadedPlugin, Runtime, RuntimeSettings, StatsSnapshot, WentTo};
use serde_json::Value;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut settings = RuntimeSettings::new(Arc::new(SystemClock));
    settings.cache_dir = Some(guests::compiled());
    Runtime::new(settings).expect("the runtime starts")
});

pub fn runtime() -> &'static Runtime {
    &RUNTIME
}

/// What a test says of a destination before it is loaded.
pub struct Plan {
    pub spec: PluginSpec,
}

pub fn http(settings: Value) -> Plan {
    Plan::of("http", settings)
}

impl Plan {
    pub fn of(component: &str, settings: Value) -> Self {
        Self::at(&guest(component), settings)
    }

    /// The same of a component in any file.
    pub fn at(component: &Path, settings: Value) -> Self {
        let name = component.file_stem().and_then(|name| name.to_str()).unwrap_or("plugin");
        let name = format!("{name}-{}", uuid::Uuid::new_v4().simple());
        let spec = PluginSpec {
            settings_json: settings.to_string(),
            ..PluginSpec::bare(name, component.to_owned())
        };
        Self { spec }
    }

    pub fn change(mut self, change: impl FnOnce(&mut PluginSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Grants an origin on this machine.
    pub fn reaching(self, origin: &str) -> Self {
        let origin = origin.to_owned();
        self.change(|spec| {
            let headers = Vec::new();
            spec.http.push(HttpGrant { origin, headers, private: true, roots: None, client_cert: None });
        })
    }

    /// Grants the secret `signing`, whose keys are files.
    pub fn signing(self, folder: &Path, keys: &[&[u8]], uses: &[&str]) -> Self {
        let keys = keys.iter().map(|key| {
            let path = folder.join(uuid::Uuid::new_v4().simple().to_string());
            std::fs::write(&path, key).expect("a key file");
            SecretSource::File(path)
        });
        let uses = uses.iter().map(|usage| usage.to_string()).collect();
        let grant = SecretGrant { keys: keys.collect(), uses };
        self.change(|spec| {
            spec.secrets.insert("signing".to_owned(), grant);
        })
    }

    pub async fn load(self) -> Lane {
        let destination = self.spec.destination.clone();
        let plugin = RUNTIME.load(self.spec).await.unwrap_or_else(|error| panic!("{error}"));
        Lane { destination, plugin }
    }

    /// The words of the refusal.
    pub async fn refusal(self) -> String {
        match RUNTIME.load(self.spec).await {
            Ok(_) => panic!("it loaded"),
            Err(error) => error.to_string(),
        }
    }
}

pub struct Lane {
    destination: String,
    pub plugin: Arc<LoadedPlugin>,
}

impl Lane {
    /// Its destination's name, which no other has.
    pub fn destination(&self) -> &str {
        &self.destination
    }

    pub async fn deliver(&self, call: Call) -> Outcome {
        self.plugin.deliver(call).await
    }

    pub fn stats(&self) -> StatsSnapshot {
        self.plugin.stats()
    }

    pub async fn send(&self, payload: &[u8]) -> Outcome {
        self.deliver(call(payload)).await
    }
}

pub fn call(payload: &[u8]) -> Call {
    Call {
        event: Event {
            seq: EventSeq(1),
            tenant: String::new(),
            id: "order-1".to_owned(),
            topic: "order.created".to_owned(),
            key: None,
            headers: Vec::new(),
            content_type: "application/json".to_owned(),
            created_at: Timestamp::from_secs(784_111_777),
            expires_at: None,
            payload_bytes: payload.len() as u64,
        },
        dedup_id: "order-1".to_owned(),
        payload: Bytes::copy_from_slice(payload),
        attempt: 1,
        is_last_attempt: false,
        uncertain_before: false,
        fence: Fence(1),
        budget: Duration::from_secs(10),
        is_probe: false,
        went_to: WentTo::default(),
    }
}

pub fn after(outcome: &Outcome) -> Option<Duration> {
    match outcome {
        Outcome::Retry { after, .. }
        | Outcome::RateLimited { after, .. }
        | Outcome::Unavailable { after, .. } => *after,
        other => panic!("{other:?} has no wish to wait"),
    }
}

pub fn detail(outcome: &Outcome) -> &Detail {
    outcome.detail().unwrap_or_else(|| panic!("{outcome:?} is no failure"))
}
