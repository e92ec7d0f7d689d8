//! A loaded plugin: its warm instances behind [`Deliver`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;

use super::bindings::types::SettingsProblem;
use super::capability::http::HttpClient;
use super::capability::log::LaneLog;
use super::capability::secrets::Secrets;
use super::capability::ungranted::Ungranted;
use super::describe::Description;
use super::engine::Inner;
use super::exports::{Contract, Exports};
use super::instance::{CallEnd, CreateError, Instance};
use super::needs::Missing;
use super::spec::{Limits, PluginSpec};
use super::stats::{Stats, StatsSnapshot};
use super::{Call, Deliver, convert, needs, text};
use crate::clock::SharedClock;
use crate::domain::{Detail, HostFailure, Outcome};

/// What all instances of one loaded plugin share.
pub struct Parts {
    pub destination: String,
    pub digest: String,
    pub settings_json: String,
    pub limits: Arc<Limits>,
    pub contract: Contract,
    pub log: Arc<LaneLog>,
    pub secrets: Arc<Secrets>,
    pub ungranted: Arc<Ungranted>,
    pub http: Arc<HttpClient>,
    pub stats: Arc<Stats>,
    pub clock: SharedClock,
}

pub struct LoadedPlugin {
    runtime: Arc<Inner>,
    pool: Arc<Pool>,
    said: Said,
    ungranted: Vec<Missing>,
}

/// What the component says of itself: nothing, something, or what is wrong with it.
pub type Said = Result<Option<Description>, String>;

/// Warm instances, each serving one call at a time. Nothing is counted but calls in flight, so
/// that no failure of an instance or of its replacement can shrink the pool.
struct Pool {
    parts: Arc<Parts>,
    /// Last in, first out: what is not needed stays cold.
    idle: Mutex<Vec<Instance>>,
    calls: Semaphore,
    /// Why `configure` refused the settings when it last ran, if it did.
    settings_problem: Mutex<Option<String>>,
}

impl LoadedPlugin {
    pub(super) fn new(
        runtime: Arc<Inner>,
        parts: Arc<Parts>,
        spec: &PluginSpec,
        first: Option<Instance>,
        said: Said,
    ) -> Self {
        let ungranted = said.iter().flatten().flat_map(|said| needs::ungranted(said, spec)).collect();
        let pool = Pool {
            parts,
            idle: Mutex::new(first.into_iter().collect()),
            calls: Semaphore::new(spec.concurrency.max(1) as usize),
            settings_problem: Mutex::default(),
        };
        Self { runtime, pool: Arc::new(pool), said, ungranted }
    }

    pub fn stats(&self) -> StatsSnapshot {
        self.pool.parts.stats.snapshot()
    }

    /// The optional exports it has.
    pub fn exports(&self) -> Exports {
        self.pool.parts.contract.exports()
    }

    /// What it says of itself, by `describe` or in a `plugin.toml`; none if it says nothing, and a
    /// sentence if what it says can't be used, which keeps no plugin from delivering.
    pub fn description(&self) -> Result<Option<&Description>, &str> {
        self.said.as_ref().map(Option::as_ref).map_err(String::as_str)
    }

    /// What it says it needs and the config does not grant.
    pub fn ungranted(&self) -> &[Missing] {
        &self.ungranted
    }

    /// Instances waiting for a call.
    pub fn idle_instances(&self) -> usize {
        self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[async_trait]
impl Deliver for LoadedPlugin {
    async fn deliver(&self, call: Call) -> Outcome {
        let limits = &self.pool.parts.limits;
        if call.payload.len() as u64 > limits.payload_bytes {
            self.pool.parts.stats.payloads_too_large.add_one();
            return payload_too_large(call.payload.len(), limits.payload_bytes);
        }
        let ended = run_on(self.runtime.guests.handle(), self.pool.clone().deliver(call)).await;
        ended.unwrap_or_else(|error| {
            // The guest's task panicked, which is a fault of the host, or the host is stopping.
            tracing::error!(destination = self.pool.parts.destination, %error, "a call ended without an outcome");
            let message = "the host failed while the plugin ran; see its log";
            Outcome::Host(HostFailure::Trap, Detail::new("host-fault", message))
        })
    }

    fn component_digest(&self) -> &str {
        &self.pool.parts.digest
    }

    fn unready(&self) -> Option<String> {
        self.pool.settings_problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn try_anew(&self) {
        // The next call that finds no warm instance configures one, and that decides.
        *self.pool.settings_problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Runs a task on the guests' threads; dropping the returned future ends the task.
pub(super) async fn run_on<T: Send + 'static>(
    threads: &tokio::runtime::Handle,
    task: impl Future<Output = T> + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    tokio_util::task::AbortOnDropHandle::new(threads.spawn(task)).await
}

impl Pool {
    async fn deliver(self: Arc<Self>, call: Call) -> Outcome {
        let budget = call.budget.min(self.parts.limits.call);
        let deadline = self.parts.clock.since_boot() + budget;
        let mut progress = Progress { stats: self.parts.stats.clone(), has_begun: false, has_ended: false };
        let attempt = self.attempt(call, deadline, &mut progress);
        let outcome = match tokio::time::timeout(budget, attempt).await {
            Ok(outcome) => outcome,
            // The attempt's future is gone, and its instance with it.
            Err(_) if progress.has_begun => {
                let message = format!("the call took longer than its budget of {} ms", budget.as_millis());
                host(HostFailure::Deadline, message)
            }
            Err(_) => not_ready(format!("no instance was ready within {} ms", budget.as_millis())),
        };
        progress.has_ended = true;
        count(&self.parts.stats, &outcome);
        outcome
    }

    async fn attempt(&self, call: Call, deadline: Duration, progress: &mut Progress) -> Outcome {
        let _one_of_the_calls = self.calls.acquire().await.expect("the semaphore is never closed");
        let mut instance = match self.instance(deadline).await {
            Ok(instance) => instance,
            Err(outcome) => return outcome,
        };
        progress.has_begun = true;
        self.parts.stats.calls.add_one();
        let budget_left = deadline.saturating_sub(self.parts.clock.since_boot());
        let event = convert::event(&self.parts.destination, call, budget_left);
        match instance.call(event, deadline).await {
            CallEnd::Answered(result) => {
                if instance.may_stay() {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(instance);
                }
                convert::outcome(result, &self.parts.limits)
            }
            CallEnd::Broke(failure, message) => host(failure, message),
        }
    }

    async fn instance(&self, deadline: Duration) -> Result<Instance, Outcome> {
        let warm = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(instance) = warm {
            return Ok(instance);
        }
        let created = Instance::create(self.parts.clone(), deadline).await;
        let mut settings_problem = self.settings_problem.lock().unwrap_or_else(PoisonError::into_inner);
        *settings_problem = None;
        created.map_err(|error| match error {
            CreateError::Settings(problems) => {
                let message = settings_message(&problems, self.parts.limits.text_bytes);
                *settings_problem = Some(message.clone());
                Outcome::Host(HostFailure::Configure, Detail::new("settings", message))
            }
            CreateError::Unavailable(why) => {
                let message = text::prose(&why, self.parts.limits.text_bytes);
                Outcome::Unavailable { detail: Detail::new("configure-unavailable", message), after: None }
            }
            // The first instance was well, so this is the machine's trouble or a passing one. The
            // event was not touched: the lane pauses, and heals by itself.
            CreateError::Failed(_, message) | CreateError::Contract(message) => not_ready(message),
        })
    }
}

/// What was wrong with the settings, one problem after the other, each with its pointer.
pub(super) fn settings_message(problems: &[SettingsProblem], bytes_max: usize) -> String {
    let one = |problem: &SettingsProblem| match problem.pointer.as_str() {
        "" => problem.message.clone(),
        pointer => format!("{pointer}: {}", problem.message),
    };
    let all = problems.iter().map(one).collect::<Vec<_>>().join("; ");
    let all = if all.is_empty() { "the plugin refused them without a reason".to_owned() } else { all };
    // One line: it is logged as a part of the host's own sentences.
    text::word(&format!("settings: {all}"), bytes_max)
}

fn host(failure: HostFailure, message: String) -> Outcome {
    Outcome::Host(failure, Detail::new(failure.as_str(), message))
}

fn not_ready(message: String) -> Outcome {
    Outcome::Unavailable { detail: Detail::new("no-instance", message), after: None }
}

fn payload_too_large(bytes: usize, bytes_max: u64) -> Outcome {
    let message =
        format!("the payload has {bytes} bytes, and limits.payload of this destination allows {bytes_max}");
    host(HostFailure::PayloadTooLarge, message)
}

fn count(stats: &Stats, outcome: &Outcome) {
    match outcome {
        Outcome::Host(HostFailure::Trap, _) => stats.traps.add_one(),
        Outcome::Host(HostFailure::OutOfMemory, _) => stats.out_of_memory.add_one(),
        Outcome::Host(HostFailure::Deadline, _) => stats.timeouts.add_one(),
        Outcome::Host(HostFailure::BadOutput, _) => stats.bad_outputs.add_one(),
        _ => {}
    }
}

/// How far a call came; dropped without an end, it was cancelled.
struct Progress {
    stats: Arc<Stats>,
    has_begun: bool,
    has_ended: bool,
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.has_ended {
            self.stats.cancelled.add_one();
        }
    }
}
