//! A loaded plugin: its warm instances behind [`Deliver`].

use std::sync::Arc;

use async_trait::async_trait;

use super::bindings::types::SettingsProblem;
use super::capability::denials::Denials;
use super::capability::http::HttpClient;
use super::capability::log::LaneLog;
use super::capability::net::Endpoints;
use super::capability::secrets::Secrets;
use super::capability::sockets::Sockets;
use super::capability::sql::Databases;
use super::describe::Description;
use super::engine::Inner;
use super::exports::{Contract, Exports};
use super::instance::{CallEnd, Instance};
use super::needs::Missing;
use super::offline::Offline;
use super::pool::{Pool, host, not_created};
use super::spec::{Limits, PluginSpec};
use super::stats::{Stats, StatsSnapshot};
use super::{BatchLimits, Call, Deliver, convert, needs, text, tick};
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
    pub http: Arc<HttpClient>,
    pub endpoints: Arc<Endpoints>,
    pub sockets: Arc<Sockets>,
    pub databases: Arc<Databases>,
    pub denials: Arc<Denials>,
    pub stats: Arc<Stats>,
    pub clock: SharedClock,
    pub offline: Option<Offline>,
}

pub struct LoadedPlugin {
    runtime: Arc<Inner>,
    pool: Arc<Pool>,
    said: Said,
    ungranted: Vec<Missing>,
    was_configured: bool,
}

/// What the component says of itself: nothing, something, or what is wrong with it.
pub type Said = Result<Option<Description>, String>;

impl LoadedPlugin {
    pub(super) fn new(
        runtime: Arc<Inner>,
        parts: Arc<Parts>,
        spec: &PluginSpec,
        first: Option<Instance>,
        said: Said,
    ) -> Self {
        let ungranted = said.iter().flatten().flat_map(|said| needs::ungranted(said, spec)).collect();
        let was_configured = first.is_some();
        let pool = Arc::new(Pool::new(parts, spec.concurrency, first));
        // A tick is for connections, which nothing has offline.
        if pool.parts.contract.exports().tick && pool.parts.offline.is_none() {
            runtime.guests.handle().spawn(tick::run(Arc::downgrade(&pool)));
        }
        Self { runtime, pool, said, ungranted, was_configured }
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

    /// Asks the plugin whether its destination can be reached, on an instance of its own, within
    /// `limits.call`. None if it can't say.
    pub async fn check(&self) -> Option<Result<(), Outcome>> {
        if !self.exports().check {
            return None;
        }
        Some(self.reach().await)
    }

    /// The same of any plugin: without a `check` of its own, being configured is what it can show.
    pub async fn reach(&self) -> Result<(), Outcome> {
        let checked = run_on(self.runtime.guests.handle(), check(self.pool.clone())).await;
        checked.unwrap_or_else(|error| {
            Err(host(HostFailure::Trap, format!("the host failed while it checked: {error}")))
        })
    }

    /// Drops its instances in good order: what is warm at once, what is busy when its call ends, each
    /// with its last word. Returns when none is left, which is within `limits.call` and a second.
    pub async fn retire(&self) {
        let pool = self.pool.clone();
        let retired = run_on(self.runtime.guests.handle(), async move {
            pool.retire();
            pool.retired().await;
        });
        // The host is stopping otherwise, and the instances with it.
        let _ = retired.await;
    }

    /// Waits until no instance is busy, with a call or with its last word.
    pub async fn at_rest(&self) {
        self.pool.at_rest().await;
    }

    /// How often each capability was asked for and denied, by the capability's name.
    pub fn denied(&self) -> Vec<(&'static str, u64)> {
        self.pool.parts.denials.counts()
    }

    /// The counters, for the generation that takes this one's place.
    pub(super) fn counters(&self) -> Arc<Stats> {
        self.pool.parts.stats.clone()
    }

    /// It took its settings when it was loaded. If not, its destination was unavailable, and it is asked
    /// again at each call.
    pub fn was_configured(&self) -> bool {
        self.was_configured
    }

    /// Instances waiting for a call.
    pub fn idle_instances(&self) -> usize {
        self.pool.idle().as_ref().map_or(0, Vec::len)
    }
}

#[async_trait]
impl Deliver for LoadedPlugin {
    async fn deliver(&self, call: Call) -> Outcome {
        let mut outcomes = self.deliver_batch(vec![call]).await;
        outcomes.pop().expect("one call has one outcome")
    }

    fn batch_limits(&self) -> Option<BatchLimits> {
        let limits = &self.pool.parts.limits;
        let is_batched = self.exports().batch && limits.batch_events > 1;
        is_batched.then_some(BatchLimits { events: limits.batch_events as usize, bytes: limits.batch_bytes })
    }

    async fn deliver_batch(&self, calls: Vec<Call>) -> Vec<Outcome> {
        let Parts { limits, stats, .. } = &*self.pool.parts;
        let too_large = |call: &Call| call.payload.len() as u64 > limits.payload_bytes;
        let mut outcomes: Vec<_> = calls
            .iter()
            .map(|call| {
                too_large(call).then(|| {
                    stats.payloads_too_large.add_one();
                    payload_too_large(call.payload.len(), limits.payload_bytes)
                })
            })
            .collect();
        let calls: Vec<_> = calls.into_iter().filter(|call| !too_large(call)).collect();
        let mut delivered = self.run(calls).await.into_iter();
        outcomes.iter_mut().filter(|outcome| outcome.is_none()).for_each(|open| *open = delivered.next());
        outcomes.into_iter().flatten().collect()
    }

    fn component_digest(&self) -> &str {
        &self.pool.parts.digest
    }

    fn unready(&self) -> Option<String> {
        self.pool.settings_problem().clone()
    }

    fn try_anew(&self) {
        // The next call that finds no warm instance configures one, and that decides.
        *self.pool.settings_problem() = None;
    }
}

impl LoadedPlugin {
    /// One outcome for each call.
    async fn run(&self, calls: Vec<Call>) -> Vec<Outcome> {
        let count = calls.len();
        if count == 0 {
            return Vec::new();
        }
        let ended = run_on(self.runtime.guests.handle(), self.pool.clone().deliver(calls)).await;
        ended.unwrap_or_else(|error| {
            // The guest's task panicked, which is a fault of the host, or the host is stopping.
            tracing::error!(destination = self.pool.parts.destination, %error, "a call ended without an outcome");
            let message = "the host failed while the plugin ran; see its log";
            vec![Outcome::Host(HostFailure::Trap, Detail::new("host-fault", message)); count]
        })
    }
}

impl Drop for LoadedPlugin {
    fn drop(&mut self) {
        let _on_the_guests_threads = self.runtime.guests.handle().enter();
        self.pool.retire();
    }
}

/// Runs a task on the guests' threads; dropping the returned future ends the task.
pub(super) async fn run_on<T: Send + 'static>(
    threads: &tokio::runtime::Handle,
    task: impl Future<Output = T> + Send + 'static,
) -> Result<T, tokio::task::JoinError> {
    tokio_util::task::AbortOnDropHandle::new(threads.spawn(task)).await
}

async fn check(pool: Arc<Pool>) -> Result<(), Outcome> {
    let Parts { clock, limits, stats, .. } = &*pool.parts;
    stats.checks.add_one();
    let deadline = clock.since_boot() + limits.call;
    let checked = tokio::time::timeout(limits.call, async {
        let created = Instance::create(pool.parts.clone(), deadline).await;
        let mut instance = created.map_err(|error| not_created(error, limits.text_bytes))?;
        match instance.check(deadline).await {
            Some(CallEnd::Broke(failure, message)) => return Err(host(failure, message)),
            Some(CallEnd::Answered(Err(failure))) => {
                pool.close(instance, None);
                return Err(convert::failure(failure, limits));
            }
            Some(CallEnd::Answered(Ok(()))) | None => pool.close(instance, None),
        }
        Ok(())
    });
    let too_slow = || {
        let ms = limits.call.as_millis();
        host(HostFailure::Deadline, format!("it took longer than limits.call ({ms} ms)"))
    };
    let checked = checked.await.unwrap_or_else(|_| Err(too_slow()));
    if checked.is_err() {
        stats.checks_failed.add_one();
    }
    checked
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

fn payload_too_large(bytes: usize, bytes_max: u64) -> Outcome {
    let message =
        format!("the payload has {bytes} bytes, and limits.payload of this destination allows {bytes_max}");
    host(HostFailure::PayloadTooLarge, message)
}
