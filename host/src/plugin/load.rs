//! Loading a plugin: read, pin, compile or take from the cache, check what it asks for, grant what
//! config allows, and run `configure` once, so that what is wrong is said now and not at an event.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

use super::capability::denials::Denials;
use super::capability::http::HttpClient;
use super::capability::log::LaneLog;
use super::capability::net::Endpoints;
use super::capability::secrets::Secrets;
use super::capability::sockets::Sockets;
use super::capability::sql::Databases;
use super::engine::{Inner, Runtime};
use super::exports::Contract;
use super::instance::{CreateError, Instance};
use super::loaded::{LoadedPlugin, Parts, run_on, settings_message};
use super::needs::Capability;
use super::spec::PluginSpec;
use super::stats::Stats;
use super::{asks, describe, registry, signature, text};
use crate::domain::HostFailure;

/// Why a destination's plugin can't be used on this host: one sentence with the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("destination \"{destination}\": {problem}")]
pub struct LoadError {
    pub destination: String,
    pub problem: LoadProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadProblem {
    #[error("the component {path} can't be read: {why}; check  component  in the config")]
    Unreadable { path: String, why: String },
    #[error(
        "the component {path} has sha256 {found}, and the config pins {pinned}; \
         if the new file is meant, pin it"
    )]
    Pin { path: String, found: String, pinned: String },
    /// The signature the config asks for is missing, damaged, by another key or of another component.
    #[error("{0}")]
    Signature(String),
    /// It could not be fetched; passing if that may be otherwise later.
    #[error("{why}")]
    Pull { why: String, is_passing: bool },
    #[error("{path} {what}")]
    NotAComponent { path: String, what: String },
    #[error("the component {path} does not compile: {why}")]
    Compile { path: String, why: String },
    /// What it imports or exports does not fit.
    #[error("{0}")]
    Contract(String),
    /// A grant of the config can't be used: a secret, an origin, a root, a certificate.
    #[error("{0}")]
    Grant(String),
    /// It traps or runs too long before its first event.
    #[error("the component does not start: {0}")]
    Start(String),
    #[error("{0}")]
    Settings(String),
    /// It is in order as far as can be seen, but its destination is not.
    #[error("its destination can't be used, and that of what runs can: {0}; it is tried again by itself")]
    Unreachable(String),
}

impl LoadProblem {
    /// The same may load later, without a change of anything it is made of.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Pull { is_passing: true, .. } | Self::Unreachable(_))
    }
}

impl Runtime {
    /// Loads one destination's plugin. A plugin whose `configure` says "unavailable" is loaded: it
    /// is asked again at each delivery.
    pub async fn load(&self, spec: PluginSpec) -> Result<Arc<LoadedPlugin>, LoadError> {
        self.load_after(spec, None).await
    }

    /// The same for a candidate that is to take the place of `running`, whose counters it goes on
    /// counting with.
    pub async fn load_after(
        &self,
        spec: PluginSpec,
        running: Option<&LoadedPlugin>,
    ) -> Result<Arc<LoadedPlugin>, LoadError> {
        let destination = spec.destination.clone();
        let stats = running.map(LoadedPlugin::counters).unwrap_or_default();
        load(self.inner.clone(), spec, stats).await.map_err(|problem| LoadError { destination, problem })
    }
}

/// A component whose names fit, and not yet what it is granted.
pub struct Prepared {
    pub contract: Contract,
    pub digest: String,
    /// The names of what it exports and imports.
    pub exports: Vec<String>,
    pub imports: Vec<String>,
    gated: Vec<Capability>,
}

async fn load(
    runtime: Arc<Inner>,
    spec: PluginSpec,
    stats: Arc<Stats>,
) -> Result<Arc<LoadedPlugin>, LoadProblem> {
    let spec = Arc::new(registry::fetched(&runtime, spec).await?);
    let prepared = prepared(&runtime, &spec).await?;
    let bare = granted(&runtime, &prepared, Arc::new(spec.without_grants()), Arc::default()).await?;
    let said = describe::describe(&runtime, Arc::new(bare), &spec.component).await;
    if let Err(problem) = &said {
        tracing::warn!(
            destination = spec.destination,
            problem,
            "what the plugin says of itself can't be used"
        );
    }
    asks::check_gated(&prepared.gated, &said, &spec).map_err(LoadProblem::Contract)?;
    let parts = Arc::new(granted(&runtime, &prepared, spec.clone(), stats).await?);
    let first = first_instance(&runtime, parts.clone()).await?;
    Ok(Arc::new(LoadedPlugin::new(runtime, parts, &spec, first, said)))
}

pub async fn prepared(runtime: &Arc<Inner>, spec: &Arc<PluginSpec>) -> Result<Prepared, LoadProblem> {
    let (inner, spec) = (runtime.clone(), spec.clone());
    blocking(runtime, move || prepare(&inner, &spec)).await
}

/// What the instances of a prepared component share, with what `spec` grants.
pub async fn granted(
    runtime: &Arc<Inner>,
    prepared: &Prepared,
    spec: Arc<PluginSpec>,
    stats: Arc<Stats>,
) -> Result<Parts, LoadProblem> {
    let (inner, contract, digest) = (runtime.clone(), prepared.contract.clone(), prepared.digest.clone());
    blocking(runtime, move || grant(&inner, contract, digest, &spec, stats)).await
}

/// Compiling takes seconds for large components, and files may be slow: not on a thread that others
/// wait for.
async fn blocking<T: Send + 'static>(
    runtime: &Inner,
    work: impl FnOnce() -> Result<T, LoadProblem> + Send + 'static,
) -> Result<T, LoadProblem> {
    let done = runtime.guests.handle().spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(LoadProblem::Start(error.to_string())))
}

fn prepare(runtime: &Inner, spec: &PluginSpec) -> Result<Prepared, LoadProblem> {
    let (component, digest) = compile(runtime, spec)?;
    let (exports, imports) = asks::names(&component, &runtime.engine);
    let optional = asks::check_exports(&exports).map_err(LoadProblem::Contract)?;
    let gated = asks::check_imports(&imports).map_err(LoadProblem::Contract)?;
    let contract = runtime
        .linker
        .instantiate_pre(&component)
        .and_then(|pre| Contract::find(pre, optional))
        .map_err(|error| LoadProblem::Contract(asks::mismatch(&format!("{error:#}"))))?;
    Ok(Prepared { contract, digest, exports, imports, gated })
}

fn grant(
    runtime: &Inner,
    contract: Contract,
    digest: String,
    spec: &PluginSpec,
    stats: Arc<Stats>,
) -> Result<Parts, LoadProblem> {
    let denials = Arc::new(Denials::new(spec.destination.clone()));
    let (outside, clock) = (&runtime.outside, &runtime.clock);
    let secrets = Secrets::read(&spec.secrets, denials.clone()).map_err(LoadProblem::Grant)?;
    let http = HttpClient::new(spec, stats.clone(), denials.clone(), outside.clone(), clock.clone())
        .map_err(LoadProblem::Grant)?;
    let endpoints = Endpoints::new(spec, stats.clone(), denials.clone(), outside.clone(), clock.clone())
        .map_err(LoadProblem::Grant)?;
    let sockets = Sockets::new(spec, denials.clone(), outside.clone()).map_err(LoadProblem::Grant)?;
    let offline = outside.offline.clone();
    let databases =
        Databases::new(spec, &runtime.pools, offline, stats.clone(), denials.clone(), clock.clone())
            .map_err(LoadProblem::Grant)?;
    let log = LaneLog::new(
        spec.destination.clone(),
        spec.limits.log_line_bytes,
        spec.limits.log_lines_per_second,
        runtime.clock.clone(),
        stats.clone(),
    );
    Ok(Parts {
        destination: spec.destination.clone(),
        digest,
        settings_json: spec.settings_json.clone(),
        limits: Arc::new(spec.limits.clone()),
        contract,
        log: Arc::new(log),
        secrets: Arc::new(secrets),
        http: Arc::new(http),
        endpoints: Arc::new(endpoints),
        sockets: Arc::new(sockets),
        databases: Arc::new(databases),
        denials,
        stats,
        clock: runtime.clock.clone(),
        offline: outside.offline.clone(),
    })
}

fn compile(runtime: &Inner, spec: &PluginSpec) -> Result<(Component, String), LoadProblem> {
    let file: &Path = &spec.component;
    let path = file.display().to_string();
    let unreadable = |why: String| LoadProblem::Unreadable { path: path.clone(), why };
    // A device or a pipe could be read for ever.
    let is_file = file.metadata().map_err(|error| unreadable(error.to_string()))?.is_file();
    if !is_file {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let bytes = std::fs::read(file).map_err(|error| unreadable(error.to_string()))?;
    let digest = hex(&Sha256::digest(&bytes));
    if let Some(pinned) = &spec.sha256
        && !pinned.eq_ignore_ascii_case(&digest)
    {
        return Err(LoadProblem::Pin { path, found: digest, pinned: pinned.clone() });
    }
    // Before anything else looks at the bytes.
    if let Some(check) = &spec.signature {
        signature::verify(check, &bytes, &path).map_err(LoadProblem::Signature)?;
    }
    if let Some(what) = asks::not_a_component(&bytes) {
        return Err(LoadProblem::NotAComponent { path, what });
    }
    let cached = || runtime.cache.as_ref().and_then(|cache| cache.load(&runtime.engine, &digest));
    if let Some(component) = cached() {
        return Ok((component, digest));
    }
    // One at a time: the compiler uses every core by itself, and the second destination of a component
    // that takes half a minute finds it in the cache.
    let _turn = runtime.compiling.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(component) = cached() {
        return Ok((component, digest));
    }
    let component = Component::from_binary(&runtime.engine, &bytes)
        .map_err(|error| LoadProblem::Compile { path, why: text::prose(&format!("{error:#}"), 2 << 10) })?;
    if let Some(cache) = &runtime.cache {
        cache.store(&digest, &component);
    }
    Ok((component, digest))
}

async fn first_instance(runtime: &Inner, parts: Arc<Parts>) -> Result<Option<Instance>, LoadProblem> {
    let budget = parts.limits.call;
    let deadline = runtime.clock.since_boot() + budget;
    let create = Instance::create(parts.clone(), deadline);
    let created = run_on(runtime.guests.handle(), tokio::time::timeout(budget, create)).await;
    let too_slow = || {
        let ms = budget.as_millis();
        LoadProblem::Start(format!(
            "it was not configured within limits.call ({ms} ms); raise it if it should take so long"
        ))
    };
    match created {
        Ok(Ok(Ok(instance))) => Ok(Some(instance)),
        Ok(Ok(Err(CreateError::Unavailable(_)))) => Ok(None),
        Ok(Ok(Err(CreateError::Settings(problems)))) => {
            Err(LoadProblem::Settings(settings_message(&problems, parts.limits.text_bytes)))
        }
        Ok(Ok(Err(CreateError::Failed(HostFailure::Deadline, _)))) | Ok(Err(_)) => Err(too_slow()),
        Ok(Ok(Err(CreateError::Contract(difference)))) => {
            Err(LoadProblem::Contract(asks::mismatch(&difference)))
        }
        Ok(Ok(Err(CreateError::Failed(_, message)))) => Err(LoadProblem::Start(message)),
        Err(fault) => Err(LoadProblem::Start(format!("the host failed while it started: {fault}"))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
