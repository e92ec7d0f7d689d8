//! Warm instances, each serving one call at a time. Nothing is counted but calls in flight, so that
//! no failure of an instance or of its replacement can shrink the pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::instance::{CallEnd, CreateError, Instance};
use super::loaded::{Parts, settings_message};
use super::stats::Stats;
use super::{Call, convert, text};
use crate::domain::{Detail, HostFailure, Outcome};

/// The most a last word or a tick may take, and the part of `limits.call` if that is shorter: a call
/// that waits for the instance's place must still have most of its own budget.
const ASIDE_BUDGET: Duration = Duration::from_secs(1);
const ASIDE_PART: u32 = 4;

pub struct Pool {
    pub parts: Arc<Parts>,
    /// Last in, first out: what is not needed stays cold. None once the pool is retired.
    idle: Mutex<Option<Vec<Instance>>>,
    /// One permit for each instance in use, by a call or aside of one.
    places: Arc<Semaphore>,
    places_in_all: u32,
    in_progress: TaskTracker,
    /// Why `configure` refused the settings when it last ran, if it did.
    settings_problem: Mutex<Option<String>>,
}

impl Pool {
    pub fn new(parts: Arc<Parts>, concurrency: u32, first: Option<Instance>) -> Self {
        Self {
            parts,
            idle: Mutex::new(Some(first.into_iter().collect())),
            places: Arc::new(Semaphore::new(concurrency.max(1) as usize)),
            places_in_all: concurrency.max(1),
            in_progress: TaskTracker::new(),
            settings_problem: Mutex::default(),
        }
    }

    pub fn idle(&self) -> MutexGuard<'_, Option<Vec<Instance>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn settings_problem(&self) -> MutexGuard<'_, Option<String>> {
        self.settings_problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for an instance, if one is free.
    pub fn try_place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Held by what a retired pool waits for.
    pub fn in_progress(&self) -> TaskTrackerToken {
        self.in_progress.token()
    }

    /// Delivers events in one call. One outcome for each, in the same order.
    pub async fn deliver(self: Arc<Self>, calls: Vec<Call>) -> Vec<Outcome> {
        let _in_progress = self.in_progress();
        let count = calls.len();
        let budget = calls.iter().map(|call| call.budget).fold(self.parts.limits.call, Duration::min);
        let deadline = self.parts.clock.since_boot() + budget;
        let mut progress = Progress { stats: self.parts.stats.clone(), has_begun: false, has_ended: false };
        let attempt = self.attempt(calls, deadline, &mut progress);
        let ended = match tokio::time::timeout(budget, attempt).await {
            Ok(ended) => ended,
            // The attempt's future is gone, and its instance with it.
            Err(_) if progress.has_begun => {
                let message = format!("the call took longer than its budget of {} ms", budget.as_millis());
                Err(host(HostFailure::Deadline, message))
            }
            Err(_) => Err(not_ready(format!("no instance was ready within {} ms", budget.as_millis()))),
        };
        progress.has_ended = true;
        ended.unwrap_or_else(|failed| {
            tally(&self.parts.stats, &failed);
            vec![in_a_batch_of(count, failed); count]
        })
    }

    /// The outcome of each call, or the one of all.
    async fn attempt(
        self: &Arc<Self>,
        calls: Vec<Call>,
        deadline: Duration,
        progress: &mut Progress,
    ) -> Result<Vec<Outcome>, Outcome> {
        let place = self.places.clone().acquire_owned().await.expect("the semaphore is never closed");
        let mut instance = self.instance(deadline).await?;
        progress.has_begun = true;
        let Parts { stats, clock, destination, limits, .. } = &*self.parts;
        stats.calls.add_one();
        let count = calls.len();
        let budget_left = deadline.saturating_sub(clock.since_boot());
        let mut events: Vec<_> =
            calls.into_iter().map(|call| convert::event(destination, call, budget_left)).collect();
        let ended = match (events.pop(), events.is_empty()) {
            (Some(only), true) => match instance.deliver(only, deadline).await {
                CallEnd::Answered(result) => CallEnd::Answered(vec![result]),
                CallEnd::Broke(failure, message) => CallEnd::Broke(failure, message),
            },
            (last, _) => {
                events.extend(last);
                stats.batches.add_one();
                stats.batched_events.add(count as u64);
                instance.deliver_batch(events, deadline).await
            }
        };
        match ended {
            CallEnd::Answered(results) if results.len() == count => {
                self.give_back(instance, place);
                Ok(results.into_iter().map(|result| convert::outcome(result, limits)).collect())
            }
            // Which answer is whose can't be known, and neither what else the instance mixes up.
            CallEnd::Answered(results) => {
                let message = format!(
                    "the plugin answered {} results to a batch of {count} events; deliver-batch must give \
                     one for each, in the same order",
                    results.len()
                );
                Err(host(HostFailure::WrongBatchLength, message))
            }
            CallEnd::Broke(failure, message) => Err(host(failure, message)),
        }
    }

    async fn instance(&self, deadline: Duration) -> Result<Instance, Outcome> {
        let warm = self.idle().as_mut().and_then(Vec::pop);
        if let Some(instance) = warm {
            return Ok(instance);
        }
        let created = Instance::create(self.parts.clone(), deadline).await;
        let mut settings_problem = self.settings_problem();
        *settings_problem = None;
        created.map_err(|error| {
            let outcome = not_created(error, self.parts.limits.text_bytes);
            if let Outcome::Host(HostFailure::Configure, detail) = &outcome {
                *settings_problem = Some(detail.message.clone());
            }
            outcome
        })
    }

    /// The instance waits for its next call, or goes in good order.
    fn give_back(self: &Arc<Self>, instance: Instance, place: OwnedSemaphorePermit) {
        if let Some(instance) = self.keep(instance, Vec::push) {
            self.close(instance, Some(place));
        }
    }

    /// Keeps the instance if it may stay. Returns it otherwise.
    pub fn keep(
        &self,
        instance: Instance,
        put: impl FnOnce(&mut Vec<Instance>, Instance),
    ) -> Option<Instance> {
        match &mut *self.idle() {
            Some(idle) if instance.may_stay() => {
                put(idle, instance);
                None
            }
            _ => Some(instance),
        }
    }

    /// Lets an instance say its last word beside the calls. Its place stays taken until then, so that
    /// a plugin slow to close has no more instances than it may. Called on the guests' threads.
    pub fn close(&self, instance: Instance, place: Option<OwnedSemaphorePermit>) {
        if !instance.has_last_word() {
            return drop(instance);
        }
        let budget = self.aside_budget();
        self.in_progress.spawn(async move {
            instance.close(budget).await;
            drop(place);
        });
    }

    /// Waits until every place is free.
    pub async fn at_rest(&self) {
        let _all = self.places.acquire_many(self.places_in_all).await;
    }

    /// For what runs aside of calls.
    pub fn aside_budget(&self) -> Duration {
        ASIDE_BUDGET.min(self.parts.limits.call / ASIDE_PART)
    }

    /// What is warm goes at once, what is busy when its call ends. Called on the guests' threads.
    pub fn retire(&self) {
        self.parts.http.retire();
        let idle = self.idle().take().unwrap_or_default();
        idle.into_iter().for_each(|instance| self.close(instance, None));
        self.in_progress.close();
    }

    /// Waits until a retired pool has no instance left.
    pub async fn retired(&self) {
        self.in_progress.wait().await;
    }
}

/// What it means for a delivery that there is no instance for it.
pub fn not_created(error: CreateError, text_bytes_max: usize) -> Outcome {
    match error {
        CreateError::Settings(problems) => {
            let message = settings_message(&problems, text_bytes_max);
            Outcome::Host(HostFailure::Configure, Detail::new("settings", message))
        }
        CreateError::Unavailable(why) => {
            let message = text::prose(&why, text_bytes_max);
            Outcome::Unavailable { detail: Detail::new("configure-unavailable", message), after: None }
        }
        // The first instance was well, so this is the machine's trouble or a passing one. The
        // event was not touched: the lane pauses, and heals by itself.
        CreateError::Failed(_, message) | CreateError::Contract(message) => not_ready(message),
    }
}

pub fn host(failure: HostFailure, message: String) -> Outcome {
    Outcome::Host(failure, Detail::new(failure.as_str(), message))
}

fn not_ready(message: String) -> Outcome {
    Outcome::Unavailable { detail: Detail::new("no-instance", message), after: None }
}

/// Each member's history says that it was not alone.
fn in_a_batch_of(count: usize, failed: Outcome) -> Outcome {
    match failed {
        Outcome::Host(failure, detail) if count > 1 => {
            let message =
                format!("{}; it was one of a batch of {count}, and is retried singly", detail.message);
            Outcome::Host(failure, Detail { message, ..detail })
        }
        other => other,
    }
}

fn tally(stats: &Stats, outcome: &Outcome) {
    match outcome {
        Outcome::Host(HostFailure::Trap, _) => stats.traps.add_one(),
        Outcome::Host(HostFailure::OutOfMemory, _) => stats.out_of_memory.add_one(),
        Outcome::Host(HostFailure::Deadline, _) => stats.timeouts.add_one(),
        Outcome::Host(HostFailure::BadOutput, _) => stats.bad_outputs.add_one(),
        Outcome::Host(HostFailure::WrongBatchLength, _) => stats.wrong_batch_lengths.add_one(),
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
