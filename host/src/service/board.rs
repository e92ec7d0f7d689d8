//! What a host says of itself while it starts, runs and drains.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex;

use super::inventory::{SharedInventory, Target};
use super::metrics::Reloads;
use super::reach::Reach;
use super::stores::Stores;
use crate::clock::Clock;
use crate::relay::RelayHandle;

/// Longer than this, and a database that answers is no use to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// So long the database's answer is told again: whoever can reach the port could otherwise take its
/// connections from the deliveries.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Shared by the server and by what starts and stops the host.
#[derive(Default)]
pub struct Board {
    phase: RwLock<Phase>,
    probed: Kept<Probed>,
    pub reach: Arc<Reach>,
}

/// The latest answer, and when it came, in time since boot.
struct Kept<T>(Mutex<Option<(Duration, T)>>);

/// What the database said to the latest probe.
#[derive(Clone)]
struct Probed {
    database_problem: Option<String>,
    migrations_problem: Option<String>,
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
    pub inventory: SharedInventory,
    pub reloads: Reloads,
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

    pub async fn readiness(&self, clock: &dyn Clock) -> Readiness {
        match self.get() {
            Phase::Starting => Readiness::not_yet("starting", "the host is starting"),
            Phase::Waiting(what) => Readiness::not_yet("starting", &what),
            Phase::Running(running) => {
                running.readiness("running", self.probed.get(clock, running.probe()).await, &self.reach)
            }
            Phase::Draining(running) => {
                let probed = self.probed.get(clock, running.probe()).await;
                Readiness { ready: false, ..running.readiness("draining", probed, &self.reach) }
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

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Kept<T> {
    /// The answer of the last second, or a new one. Whoever asks meanwhile waits for the same one.
    async fn get(&self, clock: &dyn Clock, ask: impl Future<Output = T>) -> T {
        let mut kept = self.0.lock().await;
        if let Some((at, answer)) = &*kept
            && clock.since_boot() < *at + PROBE_EVERY
        {
            return answer.clone();
        }
        let answer = ask.await;
        *kept = Some((clock.since_boot(), answer.clone()));
        answer
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
    /// Why the config on disk is not the one that runs; the host works all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_error: Option<String>,
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
    pub generation: u64,
    pub component_digest: String,
    /// Why the latest candidate did not replace this generation; it works all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_error: Option<String>,
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
            reload_error: None,
        }
    }
}

impl Running {
    async fn probe(&self) -> Probed {
        let (database_problem, migrations_problem) =
            tokio::join!(self.database_problem(), self.migrations_problem());
        Probed { database_problem, migrations_problem }
    }

    fn readiness(&self, phase: &'static str, probed: Probed, reach: &Reach) -> Readiness {
        // A database that answers questions may still refuse claims.
        let problems = self.relay.status().store_problems;
        let database =
            probed.database_problem.or_else(|| (!problems.is_empty()).then(|| problems.join("; ")));
        let migrations = probed.migrations_problem;
        let inventory = self.inventory.get();
        let destinations = self.destinations(&inventory.targets, reach);
        let blocked = destinations.values().any(|destination| destination.required && !destination.part.ok);
        let ready = database.is_none() && migrations.is_none() && !blocked;
        Readiness {
            ready,
            phase,
            database: Part::of(database),
            migrations: Part::of(migrations),
            destinations,
            reload_error: inventory.reload_error.clone(),
        }
    }

    async fn database_problem(&self) -> Option<String> {
        match tokio::time::timeout(PROBE_TIMEOUT, self.stores.store.now()).await {
            Err(_) => Some(format!("it did not answer within {} s", PROBE_TIMEOUT.as_secs())),
            Ok(answer) => answer.err().map(|error| error.to_string()),
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

    fn destinations(&self, targets: &[Target], reach: &Reach) -> BTreeMap<String, DestinationPart> {
        let lanes = self.relay.status().lanes;
        let part = |target: &Target| {
            let lane = lanes.iter().find(|lane| lane.name == target.name);
            let problem = match lane {
                Some(lane) => lane.problem.clone(),
                None => Some("another host has applied a newer config, which does not have it".to_owned()),
            };
            DestinationPart {
                required: target.required,
                part: Part::of(problem.or_else(|| target.plugin.unready()).or_else(|| reach.problem(target))),
                generation: target.generation,
                component_digest: target.plugin.component_digest().to_owned(),
                reload_error: target.reload_error.clone(),
            }
        };
        targets.iter().map(|target| (target.name.clone(), part(target))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as Cell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::domain::{ClaimToken, Timestamp};

    #[derive(Default)]
    struct Hand(Cell<Duration>);

    impl Clock for Hand {
        fn since_boot(&self) -> Duration {
            *self.0.lock().unwrap()
        }

        fn wall(&self) -> Timestamp {
            Timestamp(0)
        }

        fn jitter(&self) -> f64 {
            0.5
        }

        fn token(&self) -> ClaimToken {
            ClaimToken([0; 16])
        }
    }

    #[tokio::test]
    async fn however_many_probes_ask_the_database_is_asked_once_a_second() {
        let (clock, asked, kept) = (Hand::default(), AtomicU32::new(0), Kept::default());
        let ask = || async {
            let answer = asked.fetch_add(1, Relaxed) + 1;
            tokio::task::yield_now().await;
            answer
        };
        let answers = futures_util::future::join_all((0..100).map(|_| kept.get(&clock, ask()))).await;
        assert_eq!(answers, [1; 100]);
        *clock.0.lock().unwrap() = PROBE_EVERY - Duration::from_millis(1);
        assert_eq!(kept.get(&clock, ask()).await, 1);
        *clock.0.lock().unwrap() = PROBE_EVERY;
        assert_eq!(kept.get(&clock, ask()).await, 2);
        assert_eq!(asked.load(Relaxed), 2);
    }
}
