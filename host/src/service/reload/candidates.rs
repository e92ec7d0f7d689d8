//! Candidates: of each destination that changed, the plugin it would have. Built off the hot path;
//! nothing that runs knows of them yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;

use super::{Fingerprint, Reloader, Why, fingerprint_of};
use crate::plugin::{LoadError, LoadProblem, LoadedPlugin, Unloaded};
use crate::service::canary::{self, Second};
use crate::service::config::Config;
use crate::service::config::file::Destination;
use crate::service::inventory::{Inventory, Target};
use crate::service::mapping::plugin_spec;

/// A candidate that can't be used, by what it was made of.
pub(super) struct Refused {
    pub fingerprint: Fingerprint,
    pub why: String,
    /// It may be used later, though made of the same.
    pub is_passing: bool,
}

impl Refused {
    /// Whether it is tried again though made of the same.
    fn is_tried(&self, why: Why) -> bool {
        why == Why::Hangup || why == Why::Again && self.is_passing
    }

    fn is(&self, error: &LoadError) -> bool {
        self.why == error.problem.to_string()
    }
}

pub(super) struct Candidate {
    name: String,
    /// What runs under this name, or under the one it is renamed from.
    previous: Option<Target>,
    fingerprint: Fingerprint,
    verdict: Verdict,
}

enum Verdict {
    /// What runs is made of the same.
    Unchanged,
    Good(Arc<LoadedPlugin>, Option<Second>),
    Bad(LoadError),
    /// Made of the same as the one that was refused before.
    StillBad(String),
}

/// What is to run, destination by destination.
pub(super) struct Next {
    pub config: Config,
    pub targets: Vec<Target>,
    /// Of the routes on disk. Those of `config` are others where a refused destination keeps its own.
    pub whole: String,
    /// Refused candidates are others than before.
    pub refused_anew: bool,
    /// Old and new name of destinations whose new name is not taken up, with the reason.
    pub refused_renames: Vec<(String, String, String)>,
}

/// What failed to load at the start is not tried again until it changes.
pub(super) fn refused_at_start(inventory: &Inventory) -> BTreeMap<String, Refused> {
    let refused = |target: &Target| {
        let why = target.plugin.unready()?;
        let (fingerprint, is_passing) = (target.fingerprint, target.may_load_later);
        Some((target.name.clone(), Refused { fingerprint, why, is_passing }))
    };
    inventory.targets.iter().filter(|target| target.loaded.is_none()).filter_map(refused).collect()
}

impl Reloader {
    /// All side by side, in the order of their names.
    pub(super) async fn candidates(&self, config: &Config, why: Why) -> Vec<Candidate> {
        let inventory = self.running.inventory.get();
        let destinations = config.file.destination.iter();
        join_all(destinations.map(|(name, destination)| self.candidate(&inventory, name, destination, why)))
            .await
    }

    async fn candidate(
        &self,
        inventory: &Inventory,
        name: &str,
        destination: &Destination,
        why: Why,
    ) -> Candidate {
        let renamed = || inventory.target(destination.renamed_from.as_ref()?);
        let previous = inventory.target(name).or_else(renamed).cloned();
        // Before the files are read to be loaded: what changes in between is loaded again.
        let fingerprint = fingerprint_of(name, destination).await;
        let verdict = match (&previous, self.refused.get(name)) {
            (Some(previous), _) if runs(previous, fingerprint, why) => {
                if why == Why::Again && previous.awaits_canary() {
                    self.canary_later(name, destination, previous).await
                } else {
                    Verdict::Unchanged
                }
            }
            (_, Some(refused)) if refused.fingerprint == fingerprint && !refused.is_tried(why) => {
                Verdict::StillBad(refused.why.clone())
            }
            (previous, refused) => match self.load(name, destination, previous.as_ref()).await {
                // Told before; trying again is no news.
                Verdict::Bad(error) if why == Why::Again && refused.is_some_and(|it| it.is(&error)) => {
                    Verdict::StillBad(error.problem.to_string())
                }
                verdict => verdict,
            },
        };
        Candidate { name: name.to_owned(), previous, fingerprint, verdict }
    }

    async fn load(&self, name: &str, destination: &Destination, previous: Option<&Target>) -> Verdict {
        // A renamed destination counts under its new name.
        let running = previous.filter(|previous| previous.name == name);
        let before = running.and_then(|running| running.second.as_ref());
        let running = running.and_then(|running| running.loaded.as_deref());
        let loaded = match self.runtime.load_after(plugin_spec(name, destination), running).await {
            Ok(loaded) => loaded,
            Err(error) => return Verdict::Bad(error),
        };
        if let Some(why) = is_worse(&loaded, previous.and_then(|previous| previous.loaded.as_deref())).await {
            let (destination, problem) = (name.to_owned(), LoadProblem::Unreachable(why));
            return Verdict::Bad(LoadError { destination, problem });
        }
        let second = canary::beside(&self.runtime, name, destination, &loaded, before).await;
        Verdict::Good(loaded, second)
    }

    /// Tries the canary that could not be had before, beside the plugin that runs.
    async fn canary_later(&self, name: &str, destination: &Destination, running: &Target) -> Verdict {
        let (Some(loaded), before) = (&running.loaded, running.second.as_ref()) else {
            return Verdict::Unchanged;
        };
        match canary::beside(&self.runtime, name, destination, loaded, before).await {
            Some(second) if second.loaded.is_some() => Verdict::Good(loaded.clone(), Some(second)),
            _ => Verdict::Unchanged,
        }
    }

    /// Puts what is to run together. Where a candidate is refused, everything of that destination
    /// stays as it is, its routes too: a plugin must not get events that were meant for another.
    pub(super) fn assemble(&mut self, mut config: Config, candidates: Vec<Candidate>) -> Next {
        let whole = config.routes_digest();
        let (mut targets, mut refused, mut newly_refused) = (Vec::new(), BTreeMap::new(), false);
        let mut refused_renames = Vec::new();
        for candidate in candidates {
            let Candidate { name, previous, fingerprint, verdict } = candidate;
            let required = config.file.destination[&name].required;
            let is_passing = match &verdict {
                Verdict::Bad(error) => error.problem.is_passing(),
                _ => self.refused.get(&name).is_some_and(|refused| refused.is_passing),
            };
            let generation = previous.as_ref().map_or(0, |previous| previous.generation) + 1;
            let (why, unloaded) = match verdict {
                Verdict::Unchanged => {
                    let target = previous.expect("only what runs is unchanged");
                    targets.push(Target { required, reload_error: None, ..target });
                    continue;
                }
                Verdict::Good(loaded, second) => {
                    let plugin = canary::in_front(&loaded, second.as_ref());
                    let (loaded, reload_error) = (Some(loaded), None);
                    targets.push(Target {
                        name,
                        required,
                        plugin,
                        loaded,
                        second,
                        generation,
                        fingerprint,
                        may_load_later: false,
                        reload_error,
                    });
                    continue;
                }
                Verdict::Bad(error) => {
                    self.tell_refused(&name, &error, previous.as_ref());
                    newly_refused = true;
                    (error.problem.to_string(), Some(Unloaded::new(&error)))
                }
                Verdict::StillBad(why) => (why, None),
            };
            refused.insert(name.clone(), Refused { fingerprint, why: why.clone(), is_passing });
            match (previous, unloaded) {
                (Some(previous), _) if previous.loaded.is_some() => {
                    if previous.name != name {
                        refused_renames.push((previous.name.clone(), name.clone(), why.clone()));
                    }
                    config.file.destination.remove(&name);
                    let running = self.config.file.destination[&previous.name].clone();
                    config.file.destination.insert(previous.name.clone(), running);
                    targets.push(Target { reload_error: Some(why), ..previous });
                }
                (Some(previous), None) if previous.fingerprint == fingerprint => {
                    targets.push(Target { name, required, ..previous });
                }
                (_, unloaded) => targets.push(Target {
                    name,
                    required,
                    plugin: Arc::new(unloaded.unwrap_or_else(|| Unloaded::because(why))),
                    loaded: None,
                    second: None,
                    generation: 0,
                    fingerprint,
                    may_load_later: is_passing,
                    reload_error: None,
                }),
            }
        }
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        let refused_anew = newly_refused || refused.len() != self.refused.len();
        // Also if the database can't be told now: what was refused is refused.
        self.refused = refused;
        Next { config, targets, whole, refused_anew, refused_renames }
    }

    fn tell_refused(&self, name: &str, error: &LoadError, previous: Option<&Target>) {
        let error = error.problem.to_string();
        self.running.reloads.failed(name);
        match previous.filter(|previous| previous.loaded.is_some()) {
            Some(previous) => tracing::error!(
                destination = name,
                error,
                generation = previous.generation,
                "the candidate is refused; the running generation stays"
            ),
            None => tracing::error!(destination = name, error, "the plugin can't run on this host"),
        }
    }
}

/// Why the candidate's destination can't be used, if that of what runs can: a good plugin is not given
/// away for one that nobody has seen working. Where neither can be used, the candidate may be the cure.
async fn is_worse(candidate: &LoadedPlugin, running: Option<&LoadedPlugin>) -> Option<String> {
    let running = running?;
    let problem = candidate.reach().await.err()?;
    running.reach().await.ok()?;
    let text = problem.detail().map_or("", |detail| detail.message.as_str());
    Some(format!("{}: {text}", problem.kind()))
}

fn runs(target: &Target, fingerprint: Fingerprint, why: Why) -> bool {
    // An operator who asks for a reload wants what does not run to be tried.
    let is_off = || target.second.as_ref().is_some_and(|second| second.canary.off().is_some());
    let is_worth_a_try = why == Why::Hangup && (target.plugin.unready().is_some() || is_off());
    target.loaded.is_some() && target.fingerprint == fingerprint && !is_worth_a_try
}
