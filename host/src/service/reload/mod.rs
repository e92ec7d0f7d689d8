//! A changed file or SIGHUP: candidates are loaded, configured and checked beside what runs, then
//! each that is good takes the place of what ran. One that is not changes nothing, and is told of in
//! the log, `status`, `/readyz` and the metrics. One reload runs at a time.

mod candidates;
mod fingerprint;
mod read;
mod sections;
mod swap;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use self::candidates::Refused;
pub use self::fingerprint::Fingerprint;
use self::watch::Watch;
use super::board::Running;
use super::config::file::Destination;
use super::config::{Config, digest};
use super::inventory::Target;
use super::metrics::THE_CONFIG;
use super::server::Token;
use super::signals::Signals;
use crate::domain::DestinationId;
use crate::plugin::Runtime;
use crate::store::Registered;

/// Before a reload that found no database is tried again.
const OWED_WAIT: Duration = Duration::from_secs(5);

/// Before what could not be fetched is tried again; doubles with each time in a row.
const AGAIN_WAIT: Duration = Duration::from_secs(5);
const AGAIN_WAIT_LONGEST: Duration = Duration::from_secs(300);

/// Knows what runs, and replaces it.
pub struct Reloader {
    running: Arc<Running>,
    runtime: Runtime,
    token: Token,
    host_id: String,
    /// What runs. Where a candidate was refused it is not what is on disk.
    config: Config,
    /// Whatever the config on disk or the one that runs is made of.
    files: BTreeSet<PathBuf>,
    /// The latest candidates that can't be used, so that they are not tried again for nothing.
    refused: BTreeMap<String, Refused>,
    /// What the database was last told.
    registered: Digests,
    ids: BTreeMap<String, DestinationId>,
    /// Keys an operator was already told of.
    told_later: Vec<String>,
    /// The database could not be told.
    is_owed: bool,
    again_wait: Duration,
}

#[derive(Clone, PartialEq, Eq)]
struct Digests {
    routes: String,
    /// Of the routes on disk: others, where a refused destination keeps its own.
    whole: String,
    destinations: BTreeMap<String, String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// A file did.
    Changed,
    Hangup,
    Owed,
    /// A candidate could not be fetched.
    Again,
}

/// Why nothing was changed.
enum Failure {
    Refused(String),
    /// Later may succeed.
    Unavailable(String),
}

/// Reads files, on a thread that may wait.
pub async fn fingerprint_of(name: &str, destination: &Destination) -> Fingerprint {
    let (name, destination) = (name.to_owned(), destination.clone());
    let read = tokio::task::spawn_blocking(move || fingerprint::of(&name, &destination));
    read.await.expect("reading files does not panic")
}

/// Reloads whenever there is a reason, for ever. Dropping it ends a reload where it stands: what was
/// not swapped yet never is.
pub async fn run(mut reloader: Reloader, signals: &Signals) {
    let mut watch = Watch::default();
    loop {
        let why = tokio::select! {
            () = signals.asked_to_reread() => Why::Hangup,
            () = watch.changed(&reloader.files) => Why::Changed,
            () = tokio::time::sleep(OWED_WAIT), if reloader.is_owed => Why::Owed,
            () = reloader.lacking_lanes_can_be_had() => Why::Owed,
            () = tokio::time::sleep(reloader.again_wait), if reloader.awaits() => Why::Again,
        };
        reloader.reload(why).await;
        reloader.again_wait = match why {
            Why::Again if reloader.awaits() => (reloader.again_wait * 2).min(AGAIN_WAIT_LONGEST),
            _ if reloader.awaits() => reloader.again_wait,
            _ => AGAIN_WAIT,
        };
    }
}

impl Reloader {
    pub fn new(
        running: Arc<Running>,
        runtime: Runtime,
        token: Token,
        host_id: String,
        config: Config,
        registered: &Registered,
    ) -> Self {
        let mut reloader = Self {
            files: read::files_of(&config),
            refused: candidates::refused_at_start(&running.inventory.get()),
            registered: Digests::of(&config, config.routes_digest()),
            ids: BTreeMap::new(),
            told_later: Vec::new(),
            is_owed: false,
            again_wait: AGAIN_WAIT,
            running,
            runtime,
            token,
            host_id,
            config,
        };
        reloader.note_ids(registered);
        reloader
    }

    /// Whether a candidate may be had later.
    fn awaits(&self) -> bool {
        self.refused.values().any(|refused| refused.is_passing)
            || self.running.inventory.get().targets.iter().any(Target::awaits_canary)
    }

    async fn reload(&mut self, why: Why) {
        let failure = match self.try_reload(why).await {
            Ok(()) => None,
            Err(Failure::Refused(problem)) => {
                tracing::error!(
                    problem,
                    "the config on disk can't be used; the host goes on with the one it has"
                );
                self.is_owed = false;
                Some(problem)
            }
            Err(Failure::Unavailable(problem)) => {
                if !self.is_owed {
                    tracing::warn!(problem, "the reload waits for the database");
                }
                self.is_owed = true;
                Some(problem)
            }
        };
        let metrics = &self.running.reloads;
        match &failure {
            None => self.is_owed = false,
            Some(_) if why == Why::Owed && self.is_owed => {}
            Some(_) => metrics.failed(THE_CONFIG),
        }
        let mut inventory = (*self.running.inventory.get()).clone();
        inventory.reload_error = failure;
        self.running.relay.tell(inventory.notes());
        self.running.inventory.set(inventory);
    }

    async fn try_reload(&mut self, why: Why) -> Result<(), Failure> {
        let config = self.read().await?;
        let candidates = self.candidates(&config, why).await;
        let next = self.assemble(config, candidates);
        read::check_leases(&next.config)?;
        let registration = self.register(&next).await?;
        self.swap(next, why, registration).await;
        Ok(())
    }

    /// A name that the database does not know any more was renamed by another host, and its lane
    /// here goes on with the rows that it had.
    fn note_ids(&mut self, registered: &Registered) {
        let taken: BTreeSet<_> = registered.destinations.iter().filter_map(|(_, id)| *id).collect();
        let before = |name| self.ids.get(name).filter(|id| !taken.contains(id)).copied();
        let known = registered.destinations.iter();
        self.ids =
            known.filter_map(|(name, id)| Some((name.clone(), id.or_else(|| before(name))?))).collect();
    }

    fn has_every_id(&self, config: &Config) -> bool {
        config.file.destination.keys().all(|name| self.ids.contains_key(name))
    }

    /// A destination that the current config does not know has no lane. Returns once this host's
    /// config is the current one after all: somebody applied it.
    async fn lacking_lanes_can_be_had(&self) {
        // A file that can't be used is not read again and again.
        let is_stuck = self.running.inventory.get().reload_error.is_some();
        if is_stuck || self.has_every_id(&self.config) {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(OWED_WAIT).await;
            if !self.running.relay.status().config_is_superseded {
                return;
            }
        }
    }
}

impl Digests {
    fn of(config: &Config, whole: String) -> Self {
        let destinations = config.file.destination.iter();
        Self {
            routes: config.routes_digest(),
            whole,
            destinations: destinations
                .map(|(name, destination)| (name.clone(), digest::of_destination(destination)))
                .collect(),
        }
    }
}
