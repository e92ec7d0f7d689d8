//! A host from start to stop: open the database, load the plugins, start the relay, serve, drain.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::join_all;
use tokio_util::task::AbortOnDropHandle;

use super::board::{Board, Running};
use super::config::Config;
use super::inventory::{SharedInventory, Target};
use super::metrics::Reloads;
use super::reload::{self, Reloader};
use super::server::{Server, Token};
use super::signals::Signals;
use super::stores::{Stores, open_stores};
use super::{canary, identity, mapping, plugins};
use crate::clock::SharedClock;
use crate::relay::{Lane, Relay, check_lease_arithmetic};
use crate::store::{ConfigStanding, Registered, StoreError, Takeover};

/// How long a stopping host waits for its plugins' last words.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs until SIGTERM or SIGINT, then drains. `ready_file` receives the bound address once the
/// relay runs, and is removed at the end.
pub async fn run(config: Config, ready_file: Option<PathBuf>, clock: SharedClock) -> anyhow::Result<()> {
    let signals = Signals::listen().context("signals can't be heard")?;
    check_leases(&config)?;
    let board = Arc::new(Board::default());
    let server = Server::start(&config.file.server, board.clone(), clock.clone()).await?;
    tracing::info!(listen = %server.address, version = env!("CARGO_PKG_VERSION"), "serving /livez, /readyz and /metrics");
    let (running, reloader) = tokio::select! {
        started = start(&config, &board, server.token.clone(), &clock) => started?,
        () = signals.stopped() => {
            server.stop().await;
            return Ok(());
        }
    };
    board.run(running.clone());
    let ready = ready_file.map(|path| ReadyFile::write(path, &server.address.to_string())).transpose()?;
    tracing::info!(listen = %server.address, destinations = running.inventory.get().targets.len(), "ready");

    let targets = {
        let board = board.clone();
        move || board.running().map_or_else(Vec::new, |running| running.inventory.get().targets.clone())
    };
    let _checking = AbortOnDropHandle::new(tokio::spawn(board.reach.clone().watch(targets, clock.clone())));
    let _comparing = AbortOnDropHandle::new(tokio::spawn(canary::tell(running.clone())));
    tokio::select! {
        biased;
        () = signals.stopped() => {}
        () = reload::run(reloader, &signals) => {}
    }
    board.drain(running.clone());
    let drained = running.relay.drain().await;
    // What is still busy has none: it ends with the process.
    let inventory = running.inventory.get();
    let loaded = inventory.targets.iter().flat_map(Target::all_loaded);
    let retired = join_all(loaded.map(|plugin| plugin.retire()));
    let _ = tokio::time::timeout(LAST_WORDS, retired).await;
    if drained.interrupted > 0 {
        tracing::warn!(
            interrupted = drained.interrupted,
            "calls outlasted relay.drain and were dropped; each used an attempt and is tried again"
        );
    }
    if drained.left_leased > 0 {
        tracing::warn!(
            left_leased = drained.left_leased,
            "the database was not told in time how deliveries ended; their leases run out by themselves"
        );
    }
    drop(ready);
    server.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Refuses leases that can't be kept, all of them at once.
pub fn check_leases(config: &Config) -> anyhow::Result<()> {
    let relay = mapping::relay_settings(&config.file, "");
    let refusals = config.file.destination.iter().filter_map(|(name, destination)| {
        let lane = mapping::lane_settings(&config.file, name, destination);
        check_lease_arithmetic(&relay, &lane, config.file.outbox.pool).err()
    });
    let refusals: Vec<String> = refusals.collect();
    anyhow::ensure!(refusals.is_empty(), "{}", refusals.join("\n"));
    Ok(())
}

async fn start(
    config: &Config,
    board: &Board,
    token: Token,
    clock: &SharedClock,
) -> anyhow::Result<(Arc<Running>, Reloader)> {
    let host_id = identity::host_id(&**clock);
    let runtime = plugins::runtime(&config.file, clock.clone())?;
    let (targets, opened) =
        tokio::join!(plugins::load_all(&runtime, &config.file), open(config, &host_id, board, clock));
    let (stores, registered) = opened?;
    if registered.standing == ConfigStanding::Superseded {
        tracing::warn!(
            generation = registered.generation,
            "another host applied a newer config: this one writes no routes and claims nothing from lanes \
             that keep another order there; \
             run  outhaul config apply  to make this config the current one"
        );
    }
    let lanes = targets.iter().filter_map(|target| {
        let (_, id) = registered.destinations.iter().find(|(name, _)| *name == target.name)?;
        let settings =
            mapping::lane_settings(&config.file, &target.name, config.file.destination.get(&target.name)?);
        Some(Lane { id: (*id)?, settings, plugin: target.plugin.clone() })
    });
    let settings = mapping::relay_settings(&config.file, &host_id);
    let relay = Relay::start(stores.store.clone(), clock.clone(), settings, lanes.collect());
    let inventory = SharedInventory::new(targets);
    relay.tell(inventory.get().notes());
    let running = Arc::new(Running { stores, relay, inventory, reloads: Reloads::default() });
    let reloader = Reloader::new(running.clone(), runtime, token, host_id, config.clone(), &registered);
    Ok((running, reloader))
}

/// Opens, migrates and registers, for as long as the database is merely unavailable: a host that
/// starts before its database is no fault.
async fn open(
    config: &Config,
    host_id: &str,
    board: &Board,
    clock: &SharedClock,
) -> anyhow::Result<(Stores, Registered)> {
    let stores = patiently(board, clock, || open_stores(config)).await?;
    tracing::info!(
        database = patiently(board, clock, || async { Ok(stores.store.server_version().await?) }).await?
    );
    let applied = patiently(board, clock, || prepare_schema(config, &stores)).await?;
    for migration in applied {
        tracing::info!(migration, "applied");
    }
    let registration = mapping::registration(config, host_id, Takeover::IfNeverSeen);
    let registered =
        patiently(board, clock, || async { Ok(stores.store.register(&registration).await?) }).await?;
    Ok((stores, registered))
}

async fn prepare_schema(config: &Config, stores: &Stores) -> anyhow::Result<Vec<String>> {
    if config.file.outbox.migrate {
        return Ok(stores.schema.migrate().await?);
    }
    let status = stores.schema.status().await?;
    anyhow::ensure!(
        status.pending.is_empty(),
        "{} migrations are pending, and outbox.migrate is false; run  outhaul migrate",
        status.pending.len()
    );
    Ok(Vec::new())
}

const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_LONGEST: Duration = Duration::from_secs(5);

async fn patiently<T, F>(board: &Board, clock: &SharedClock, ask: impl Fn() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut wait = WAIT_FIRST;
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if !matches!(error.downcast_ref(), Some(StoreError::Unavailable(_))) {
            return Err(error);
        }
        if wait == WAIT_FIRST {
            tracing::warn!(error = %format!("{error:#}"), "waiting for the database");
        }
        board.wait_for(format!("{error:#}"));
        tokio::time::sleep(wait.mul_f64(0.5 + clock.jitter() / 2.0)).await;
        wait = (wait * 2).min(WAIT_LONGEST);
    }
}

/// Says to whoever started this process where it listens.
struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Whole or not at all: a reader never sees half an address.
    fn write(path: PathBuf, address: &str) -> anyhow::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            std::io::Write::write_all(&mut file, format!("{address}\n").as_bytes())?;
            file.persist(&path).map_err(|error| error.error)
        };
        write().with_context(|| format!("the ready file {} can't be written", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}
