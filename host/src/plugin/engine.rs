//! One engine for the process: its settings, its ticker, and the runtime guests run on.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use wasmtime::component::Linker;
use wasmtime::{Config, Engine, EngineWeak};

use super::cache::CompileCache;
use super::capability::dial::{Outside, SharedResolver, SystemResolver};
use super::capability::sql::Pools;
use super::offline::Offline;
use super::state::{self, GuestState};
use crate::clock::SharedClock;

/// Deep enough for ordinary recursion, and small enough for many guests at once.
const GUEST_STACK_BYTES: usize = 1 << 20;

#[derive(Clone)]
pub struct RuntimeSettings {
    /// Where compiled code is kept between runs; none keeps nothing.
    pub cache_dir: Option<PathBuf>,
    /// How often a running guest yields, and so the most it can run past its budget.
    pub tick: Duration,
    /// Threads guests run on, apart from those of renewals, acknowledgements and health.
    pub guest_threads: usize,
    pub clock: SharedClock,
    /// Names to addresses, for everything plugins connect to.
    pub resolver: SharedResolver,
    /// Set, no plugin reaches anything: this stands in for all of it.
    pub offline: Option<Offline>,
}

impl RuntimeSettings {
    pub fn new(clock: SharedClock) -> Self {
        let guest_threads = std::thread::available_parallelism().map_or(2, |n| n.get());
        let (tick, resolver) = (Duration::from_millis(10), Arc::new(SystemResolver));
        Self { cache_dir: None, tick, guest_threads, clock, resolver, offline: None }
    }
}

/// Loads plugins and runs them. Cheap to clone; guests stop when the last clone and the last
/// loaded plugin are gone.
#[derive(Clone)]
pub struct Runtime {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub engine: Engine,
    pub linker: Linker<GuestState>,
    pub cache: Option<CompileCache>,
    /// Held by the one that compiles.
    pub compiling: Mutex<()>,
    pub clock: SharedClock,
    pub outside: Outside,
    /// Of the databases that config grants.
    pub pools: Pools,
    pub guests: GuestThreads,
    ticker_stops: Arc<AtomicBool>,
}

impl Runtime {
    pub fn new(settings: RuntimeSettings) -> Result<Self> {
        let engine = Engine::new(&config()).map_err(|error| anyhow!("the engine can't start: {error:#}"))?;
        let linker = state::linker(&engine)
            .map_err(|error| anyhow!("the host's imports can't be linked: {error:#}"))?;
        let guests = GuestThreads::start(settings.guest_threads)?;
        let ticker_stops = Arc::new(AtomicBool::new(false));
        start_ticker(engine.weak(), settings.tick, ticker_stops.clone())?;
        let cache = settings.cache_dir.and_then(|dir| CompileCache::open(dir, &engine));
        let RuntimeSettings { clock, resolver, offline, .. } = settings;
        let outside = Outside { resolver, offline };
        let compiling = Mutex::default();
        let pools = Pools::default();
        let inner = Inner { engine, linker, cache, compiling, clock, outside, pools, guests, ticker_stops };
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.ticker_stops.store(true, Ordering::Relaxed);
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.wasm_component_model(true);
    config.max_wasm_stack(GUEST_STACK_BYTES);
    config.async_stack_size(2 * GUEST_STACK_BYTES);
    config.parallel_compilation(true);
    // The reason of a trap is told in one line; sources of the guest would not fit.
    config.wasm_backtrace_details(wasmtime::WasmBacktraceDetails::Disable);
    config
}

/// An OS thread, because guests that keep every core busy would hold up a task that ticks.
fn start_ticker(engine: EngineWeak, tick: Duration, stops: Arc<AtomicBool>) -> Result<()> {
    let ticker = move || {
        while !stops.load(Ordering::Relaxed) {
            std::thread::sleep(tick);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => return,
            }
        }
    };
    std::thread::Builder::new()
        .name("outhaul-ticker".into())
        .spawn(ticker)
        .context("the ticker can't start")?;
    Ok(())
}

/// The threads guests run on. A runtime of their own, so that guests spinning on all of them can't
/// stop renewals and acknowledgements.
pub(super) struct GuestThreads {
    runtime: Option<tokio::runtime::Runtime>,
}

impl GuestThreads {
    fn start(threads: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("outhaul-guest")
            // A guest holds its thread for a tick at a time; by the default, sockets and timers would
            // be looked at after 61 of them.
            .event_interval(4)
            .global_queue_interval(4)
            .enable_all()
            .build()
            .context("the guests' threads can't start")?;
        Ok(Self { runtime: Some(runtime) })
    }

    pub fn handle(&self) -> &tokio::runtime::Handle {
        self.runtime.as_ref().expect("only dropping takes it").handle()
    }
}

impl Drop for GuestThreads {
    fn drop(&mut self) {
        // Waiting for guests would block whoever drops the last handle, perhaps a task.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
