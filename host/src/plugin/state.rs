//! What an instance's store holds: everything a guest can reach, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::bindings::{self, DestinationFull};
use super::capability::denials::Denials;
use super::capability::http::{self, HttpHooks};
use super::capability::log::{GuestLog, StdStream};
use super::capability::net::{Endpoints, OpenConnections};
use super::capability::nothing;
use super::capability::secrets::Secrets;
use super::capability::sockets::{self, Sockets};
use super::capability::sql::{Databases, OpenTransactions};
use super::limits::Limiter;
use super::loaded::Parts;
use super::spec::Limits;
use crate::clock::SharedClock;

/// The most a guest hands the host in one call; more traps. Room for a failure's text many times
/// its limit, so that a verbose plugin is cut rather than stopped.
const HOSTCALL_BYTES_MAX: usize = 32 << 20;

/// The most random bytes a guest gets in one call; asking for more traps.
const RANDOM_BYTES_MAX: u64 = 1 << 20;

pub struct GuestState {
    wasi: WasiCtx,
    http_ctx: WasiHttpCtx,
    http_hooks: HttpHooks,
    table: ResourceTable,
    pub limiter: Limiter,
    pub limits: Arc<Limits>,
    pub log: Arc<GuestLog>,
    pub secrets: Arc<Secrets>,
    pub endpoints: Arc<Endpoints>,
    pub connections: OpenConnections,
    pub sockets_grant: Arc<Sockets>,
    pub databases: Arc<Databases>,
    pub transactions: OpenTransactions,
    pub denials: Arc<Denials>,
    clock: SharedClock,
    /// In time since boot; past it the guest is interrupted at the next tick.
    deadline: Duration,
}

impl GuestState {
    /// When the call ends (since boot).
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    pub fn table(&mut self) -> &mut ResourceTable {
        &mut self.table
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.http_hooks, table: &mut self.table, ctx: &mut self.http_ctx }
    }
}

/// Everything a plugin can import. All of WASI links, because components of some languages import
/// all of it whatever they do; an empty context denies at the call.
pub fn linker(engine: &Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    linker.allow_shadowing(true);
    nothing::add_to_linker(&mut linker)?;
    sockets::add_to_linker(&mut linker)?;
    linker.allow_shadowing(false);
    http::add_to_linker(&mut linker)?;
    bindings::sql::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut GuestState| state)?;
    bindings::net::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut GuestState| state)?;
    DestinationFull::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut GuestState| state)?;
    Ok(linker)
}

/// A store for one instance, whose guest may run until `deadline`.
pub fn store(engine: &Engine, parts: &Parts, deadline: Duration) -> Store<GuestState> {
    let limits = &parts.limits;
    let log = Arc::new(GuestLog::new(parts.log.clone()));
    let mut wasi = WasiCtx::builder();
    wasi.stdout(log.stream(StdStream::Out)).stderr(log.stream(StdStream::Err));
    wasi.max_random_size(RANDOM_BYTES_MAX);
    parts.sockets.configure(&mut wasi);
    if let Some(offline) = &parts.offline {
        offline.configure(&mut wasi);
    }
    let mut table = ResourceTable::new();
    table.set_max_capacity(limits.handles as usize);
    let mut http_ctx = WasiHttpCtx::new();
    http_ctx.set_field_size_limit(limits.http.header_bytes);

    let state = GuestState {
        wasi: wasi.build(),
        http_ctx,
        http_hooks: HttpHooks::new(parts.http.clone()),
        table,
        limits: limits.clone(),
        limiter: Limiter::new(limits.memory_bytes, limits.table_elements),
        log,
        secrets: parts.secrets.clone(),
        endpoints: parts.endpoints.clone(),
        connections: OpenConnections::default(),
        sockets_grant: parts.sockets.clone(),
        databases: parts.databases.clone(),
        transactions: OpenTransactions::default(),
        denials: parts.denials.clone(),
        clock: parts.clock.clone(),
        deadline,
    };
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(HOSTCALL_BYTES_MAX);
    store.set_max_component_handles(limits.handles as usize);
    store.epoch_deadline_callback(|store| {
        let state = store.data();
        if state.clock.since_boot() >= state.deadline {
            return Ok(UpdateDeadline::Interrupt);
        }
        // tokio's own yield goes to the back of the queue; wasmtime's would be polled next again.
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    });
    arm(&mut store, deadline);
    store
}

/// Sets the deadline of the call that comes next. Done before each: a deadline armed once would
/// not stop the second call.
pub fn arm(store: &mut Store<GuestState>, deadline: Duration) {
    let state = store.data_mut();
    state.deadline = deadline;
    state.http_hooks.call_ends_at = deadline;
    store.set_epoch_deadline(1);
}
