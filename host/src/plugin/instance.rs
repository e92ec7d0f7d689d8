//! One instance: a component in a store of its own, configured once, called one event at a time.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Store, Trap, WasmBacktrace};

use super::bindings::types::{ConfigureError, Event, Failure, Receipt, SettingsProblem};
use super::exports::Guest;
use super::loaded::Parts;
use super::state::{self, GuestState};
use super::{text, tick};
use crate::domain::HostFailure;

pub struct Instance {
    store: Store<GuestState>,
    guest: Guest,
    parts: Arc<Parts>,
    calls: u64,
    /// Growth past this is taken for a leak.
    memory_mark_bytes: usize,
    /// When it wants its next tick, in time since boot.
    tick_at: Duration,
}

/// Why there is no instance.
#[derive(Debug)]
pub enum CreateError {
    /// It could not be instantiated, or `configure` trapped, with the reason.
    Failed(HostFailure, String),
    /// The types of what it exports are not the contract's, with the first that differs.
    Contract(String),
    /// `configure` found the settings wrong.
    Settings(Vec<SettingsProblem>),
    /// `configure` says that something needed can't be reached now.
    Unavailable(String),
}

/// What came of a call.
pub enum CallEnd<T> {
    Answered(T),
    Broke(HostFailure, String),
}

impl Instance {
    /// Instantiates and configures, by `deadline` (since boot).
    pub async fn create(parts: Arc<Parts>, deadline: Duration) -> Result<Self, CreateError> {
        let created = Self::try_create(parts.clone(), deadline).await;
        match &created {
            Ok(_) => parts.stats.instances_created.add_one(),
            Err(_) => parts.stats.instances_failed.add_one(),
        }
        created
    }

    async fn try_create(parts: Arc<Parts>, deadline: Duration) -> Result<Self, CreateError> {
        let mut store = state::store(parts.contract.engine(), &parts, deadline);
        let guest = match parts.contract.instantiate(&mut store).await {
            Ok(guest) => guest,
            Err(error) => return Err(instantiate_failed(&mut store, &error)),
        };
        state::arm(&mut store, deadline);
        match guest.deliver.call_configure(&mut store, &parts.settings_json).await {
            Ok(Ok(())) => {}
            Ok(Err(ConfigureError::Settings(problems))) => return Err(CreateError::Settings(problems)),
            Ok(Err(ConfigureError::Unavailable(why))) => return Err(CreateError::Unavailable(why)),
            Err(error) => return Err(create_failed(&mut store, &error)),
        }
        store.data_mut().transactions.end();
        store.data().log.end();
        let memory_mark_bytes = memory_mark(&store, parts.limits.memory_bytes);
        let tick_at = parts.clock.since_boot() + tick::MIN;
        Ok(Self { store, guest, parts, calls: 0, memory_mark_bytes, tick_at })
    }

    /// Delivers one event, by `deadline` (since boot). An instance whose call broke, or was dropped,
    /// can't be entered again; so with every call below.
    pub async fn deliver(&mut self, event: Event, deadline: Duration) -> CallEnd<Result<Receipt, Failure>> {
        self.calls += 1;
        self.begin(&event.id, deadline);
        let result = self.guest.deliver.call_deliver(&mut self.store, &event).await;
        self.ended(result)
    }

    /// Delivers events together. The answers may be more or fewer than the events.
    pub async fn deliver_batch(
        &mut self,
        events: Vec<Event>,
        deadline: Duration,
    ) -> CallEnd<Vec<Result<Receipt, Failure>>> {
        self.calls += 1;
        // What is logged meanwhile is of no one event.
        self.begin("", deadline);
        let batch = self.guest.batch.as_ref().expect("batches go only to a plugin that exports batch");
        let result = batch.call_deliver_batch(&mut self.store, &events).await;
        self.ended(result)
    }

    /// Whether the destination can be reached. None if the plugin exports no `check`.
    pub async fn check(&mut self, deadline: Duration) -> Option<CallEnd<Result<(), Failure>>> {
        self.begin("", deadline);
        let result = self.guest.check.as_ref()?.call_check(&mut self.store).await;
        Some(self.ended(result))
    }

    /// Answers in how long it wants the next one.
    pub async fn tick(&mut self, deadline: Duration) -> CallEnd<Duration> {
        self.begin("", deadline);
        let tick = self.guest.tick.as_ref().expect("only a plugin that exports tick is ticked");
        let result = tick.call_tick(&mut self.store).await.map(Duration::from_millis);
        self.ended(result)
    }

    pub fn tick_at(&self) -> Duration {
        self.tick_at
    }

    pub fn tick_again_at(&mut self, at: Duration) {
        self.tick_at = at;
    }

    pub fn has_last_word(&self) -> bool {
        self.guest.close.is_some()
    }

    /// The last word before it is dropped. What comes of it changes nothing.
    pub async fn close(mut self, budget: Duration) {
        self.begin("", self.parts.clock.since_boot() + budget);
        let Some(close) = &self.guest.close else { return };
        self.parts.stats.closes.add_one();
        let result = tokio::time::timeout(budget, close.call_close(&mut self.store)).await;
        let problem = match result {
            Ok(Ok(())) => return self.store.data().log.end(),
            Ok(Err(error)) => classify(&mut self.store, &error).1,
            Err(_) => format!("it took longer than {} ms", budget.as_millis()),
        };
        self.parts.stats.closes_failed.add_one();
        tracing::warn!(destination = self.parts.destination, problem, "an instance could not close in order");
    }

    fn begin(&mut self, event_id: &str, deadline: Duration) {
        self.store.data().log.begin(event_id);
        self.store.data_mut().limiter.take_memory_refused();
        state::arm(&mut self.store, deadline);
    }

    fn ended<T>(&mut self, result: wasmtime::Result<T>) -> CallEnd<T> {
        self.store.data_mut().transactions.end();
        match result {
            Ok(answer) => {
                self.store.data().log.end();
                CallEnd::Answered(answer)
            }
            Err(error) => {
                let (failure, message) = classify(&mut self.store, &error);
                CallEnd::Broke(failure, message)
            }
        }
    }

    /// Whether it may serve another call.
    pub fn may_stay(&self) -> bool {
        self.calls < self.parts.limits.calls_per_instance
            && self.store.data().limiter.memory_bytes() <= self.memory_mark_bytes
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.parts.stats.instances_dropped.add_one();
    }
}

/// Three quarters of the room between what an instance holds once configured and its limit: a
/// large runtime is not taken for a leak, and a leak ends before it is an outcome.
fn memory_mark(store: &Store<GuestState>, memory_bytes_max: u64) -> usize {
    let configured = store.data().limiter.memory_bytes();
    let limit = usize::try_from(memory_bytes_max).unwrap_or(usize::MAX);
    configured + limit.saturating_sub(configured) / 4 * 3
}

/// What is neither a trap nor the machine's refusal is a type: exports are compared when they are
/// first looked up.
fn instantiate_failed(store: &mut Store<GuestState>, error: &wasmtime::Error) -> CreateError {
    match create_failed(store, error) {
        CreateError::Failed(HostFailure::BadOutput, _) if !error.root_cause().is::<std::io::Error>() => {
            CreateError::Contract(format!("{error:#}"))
        }
        other => other,
    }
}

fn create_failed(store: &mut Store<GuestState>, error: &wasmtime::Error) -> CreateError {
    let (failure, message) = classify(store, error);
    CreateError::Failed(failure, message)
}

/// Tells apart why wasm did not return: the guest's budget, its memory, a trap, or a result that
/// could not be read.
pub fn classify(store: &mut Store<GuestState>, error: &wasmtime::Error) -> (HostFailure, String) {
    let limits = &store.data().limits;
    let text_bytes_max = limits.text_bytes;
    let memory_bytes_max = limits.memory_bytes;
    let was_refused_memory = store.data_mut().limiter.take_memory_refused();
    let trap = error.downcast_ref::<Trap>();
    let is_inside_guest = error.is::<WasmBacktrace>();
    let (failure, mut message) = if trap == Some(&Trap::Interrupt) {
        (HostFailure::Deadline, "the plugin was still running when its budget ended".to_owned())
    } else if was_refused_memory {
        let limit = memory_bytes_max;
        let message =
            format!("the plugin needs more than {limit} bytes of memory; raise limits.memory if it should");
        (HostFailure::OutOfMemory, message)
    } else if trap.is_some() || is_inside_guest {
        (HostFailure::Trap, format!("the plugin trapped: {}", reason(error)))
    } else {
        (HostFailure::BadOutput, format!("the plugin's result can't be read: {}", reason(error)))
    };
    if let Some(words) = store.data().log.take_last_words() {
        message = format!("{message}; it last printed: {words}");
    }
    // One line: it is logged as a part of the host's own sentences.
    (failure, text::word(&message, text_bytes_max))
}

/// The innermost cause, and the function it happened in.
fn reason(error: &wasmtime::Error) -> String {
    let cause = error.root_cause().to_string();
    let function = error
        .downcast_ref::<WasmBacktrace>()
        .and_then(|trace| trace.frames().iter().find_map(|frame| frame.func_name()));
    match function {
        Some(function) => format!("{cause}, in {function}"),
        None => cause,
    }
}
