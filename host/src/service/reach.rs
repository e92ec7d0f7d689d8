//! Whether required destinations can be reached, as their plugins' `check` says. Asked now and then,
//! so that a probe of readiness waits for nothing and costs a destination nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::plugins::Target;
use crate::clock::{Clock, SharedClock};
use crate::domain::Outcome;
use crate::plugin::LoadedPlugin;

/// How long a destination found well is taken for well, on average.
const WHEN_WELL: Duration = Duration::from_secs(30);
/// The same for one that was not: readiness should come back soon after the destination does.
const WHEN_NOT: Duration = Duration::from_secs(5);
/// How often the list of destinations is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Reach {
    known: Mutex<BTreeMap<String, Known>>,
}

struct Known {
    /// The generation that was asked.
    plugin: Weak<LoadedPlugin>,
    /// None: it is being asked.
    next_at: Option<Duration>,
    answer: Option<Result<(), String>>,
}

impl Reach {
    /// Asks as long as it is polled. `targets` tells the destinations of the moment.
    pub async fn watch(self: Arc<Self>, targets: impl Fn() -> Vec<Target>, clock: SharedClock) {
        loop {
            let targets = targets();
            self.lock().retain(|name, _| targets.iter().any(|target| target.name == *name));
            for target in &targets {
                if let Some(plugin) = checkable(target)
                    && self.begin(&target.name, plugin, clock.since_boot())
                {
                    let (reach, name, clock) = (self.clone(), target.name.clone(), clock.clone());
                    let plugin = plugin.clone();
                    tokio::spawn(async move { reach.ask(&name, plugin, &*clock).await });
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What keeps a required destination from being ready, if its plugin can tell.
    pub fn problem(&self, target: &Target) -> Option<String> {
        checkable(target)?;
        match self.lock().get(&target.name).and_then(|known| known.answer.as_ref()) {
            Some(answer) => answer.as_ref().err().cloned(),
            None => Some("its first check is under way".to_owned()),
        }
    }

    /// Whether it is time to ask. Nobody else asks until the answer is there.
    fn begin(&self, name: &str, plugin: &Arc<LoadedPlugin>, now: Duration) -> bool {
        let mut known = self.lock();
        match known.get_mut(name) {
            Some(known) if known.is_of(plugin) => match known.next_at {
                Some(at) if at <= now => known.next_at = None,
                _ => return false,
            },
            _ => {
                // A swap is no reason to be unready: what was found before stands until it is asked.
                let answer = known.remove(name).and_then(|before| before.answer);
                let new = Known { plugin: Arc::downgrade(plugin), next_at: None, answer };
                known.insert(name.to_owned(), new);
            }
        }
        true
    }

    async fn ask(&self, name: &str, plugin: Arc<LoadedPlugin>, clock: &dyn Clock) {
        let answer = match plugin.check().await {
            Some(Err(outcome)) => Err(unreachable_because(&outcome)),
            Some(Ok(())) | None => Ok(()),
        };
        let mut all = self.lock();
        let Some(known) = all.get_mut(name).filter(|known| known.is_of(&plugin)) else { return };
        let before = known.answer.replace(answer.clone());
        let wait = if answer.is_ok() { WHEN_WELL } else { WHEN_NOT };
        known.next_at = Some(clock.since_boot() + wait.mul_f64(0.75 + clock.jitter() / 2.0));
        drop(all);
        match (answer, before) {
            (Err(problem), None | Some(Ok(()))) => {
                tracing::warn!(destination = name, problem, "a required destination's check failed");
            }
            (Ok(()), Some(Err(_))) => {
                tracing::info!(destination = name, "the destination's check is well again")
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn is_of(&self, plugin: &Arc<LoadedPlugin>) -> bool {
        std::ptr::eq(self.plugin.as_ptr(), Arc::as_ptr(plugin))
    }
}

fn checkable(target: &Target) -> Option<&Arc<LoadedPlugin>> {
    target.loaded.as_ref().filter(|loaded| target.required && loaded.exports().check)
}

/// What a check found, in a sentence.
pub fn unreachable_because(outcome: &Outcome) -> String {
    let kind = outcome.kind();
    match outcome.detail() {
        Some(detail) if !detail.message.is_empty() => {
            format!("its check says {kind}: {}", detail.message)
        }
        Some(detail) if !detail.code.is_empty() => format!("its check says {kind}: {}", detail.code),
        _ => format!("its check says {kind}"),
    }
}
