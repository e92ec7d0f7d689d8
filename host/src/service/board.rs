//! What a host says of itself while it starts, runs and drains.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Serialize;

use super::plugins::Target;
use super::stores::Stores;
use crate::relay::RelayHandle;

/// Longer than this, and a database that answers is no use to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Shared by the server and by what starts and stops the host.
#[derive(Default)]
pub struct Board {
    phase: RwLock<Phase>,
}

#[derive(Clone, Default)]
enum Phase {
    #[default]
    Starting,
    /// Starting, and what it waits for.
    Waiting(String),
    Running(Arc<Running>),
    Draining(Arc<Running>),
}

/// A host whose relay runs.
pub struct Running {
    pub stores: Stores,
    pub relay: RelayHandle,
    pub targets: Vec<Target>,
}

impl Board {
    pub fn wait_for(&self, what: String) {
        self.set(Phase::Waiting(what));
    }

    pub fn run(&self, running: Arc<Running>) {
        self.set(Phase::Running(running));
    }

    pub fn drain(&self, running: Arc<Running>) {
        self.set(Phase::Draining(running));
    }

    pub fn running(&self) -> Option<Arc<Running>> {
        match self.get() {
            Phase::Running(running) | Phase::Draining(running) => Some(running),
            Phase::Starting | Phase::Waiting(_) => None,
        }
    }

    pub async fn readiness(&self) -> Readiness {
        match self.get() {
            Phase::Starting => Readiness::not_yet("starting", "the host is starting"),
            Phase::Waiting(what) => Readiness::not_yet("starting", &what),
            Phase::Running(running) => running.readiness("running").await,
            Phase::Draining(running) => {
                let readiness = running.readiness("draining").await;
                Readiness { ready: false, ..readiness }
            }
        }
    }

    fn set(&self, phase: Phase) {
        *self.phase.write().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    fn get(&self) -> Phase {
        self.phase.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The body of `/readyz`: everything that could keep a host from its work, by name.
#[derive(Clone, Debug, Serialize)]
pub struct Readiness {
    pub ready: bool,
    pub phase: &'static str,
    pub database: Part,
    pub migrations: Part,
    pub destinations: BTreeMap<String, DestinationPart>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Part {
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct DestinationPart {
    /// Whether the host is unready without it.
    pub required: bool,
    #[serde(flatten)]
    pub part: Part,
}

impl Part {
    fn of(problem: Option<String>) -> Self {
        Self { ok: problem.is_none(), problem }
    }
}

impl Readiness {
    fn not_yet(phase: &'static str, why: &str) -> Self {
        let waiting = Part::of(Some(why.to_owned()));
        Self {
            ready: false,
            phase,
            database: waiting.clone(),
            migrations: waiting,
            destinations: BTreeMap::new(),
        }
    }
}

impl Running {
    async fn readiness(&self, phase: &'static str) -> Readiness {
        let (database, migrations) = tokio::join!(self.database_problem(), self.migrations_problem());
        let destinations = self.destinations();
        let blocked = destinations.values().any(|destination| destination.required && !destination.part.ok);
        let ready = database.is_none() && migrations.is_none() && !blocked;
        Readiness {
            ready,
            phase,
            database: Part::of(database),
            migrations: Part::of(migrations),
            destinations,
        }
    }

    /// Besides the question itself: a database that answers questions may still refuse claims.
    async fn database_problem(&self) -> Option<String> {
        match tokio::time::timeout(PROBE_TIMEOUT, self.stores.store.now()).await {
            Err(_) => Some(format!("it did not answer within {} s", PROBE_TIMEOUT.as_secs())),
            Ok(Err(error)) => Some(error.to_string()),
            Ok(Ok(_)) => {
                let problems = self.relay.status().store_problems;
                (!problems.is_empty()).then(|| problems.join("; "))
            }
        }
    }

    async fn migrations_problem(&self) -> Option<String> {
        match tokio::time::timeout(PROBE_TIMEOUT, self.stores.schema.status()).await {
            Err(_) => Some(format!("it did not answer within {} s", PROBE_TIMEOUT.as_secs())),
            Ok(Err(error)) => Some(error.to_string()),
            Ok(Ok(schema)) if !schema.pending.is_empty() => {
                Some(format!("{} migrations are pending; run  outhaul migrate", schema.pending.len()))
            }
            Ok(Ok(_)) => None,
        }
    }

    fn destinations(&self) -> BTreeMap<String, DestinationPart> {
        let lanes = self.relay.status().lanes;
        let part = |target: &Target| {
            let lane = lanes.iter().find(|lane| lane.name == target.name);
            let problem = match lane {
                Some(lane) => lane.problem.clone(),
                None => Some("another host has applied a newer config, which does not have it".to_owned()),
            };
            DestinationPart {
                required: target.required,
                part: Part::of(problem.or_else(|| target.plugin.unready())),
            }
        };
        self.targets.iter().map(|target| (target.name.clone(), part(target))).collect()
    }
}
