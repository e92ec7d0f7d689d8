//! A host put together as `outhaul run` does it, on a database of its own.

use std::sync::Arc;

use anyhow::{Context, Result};
use outhaul::clock::{SharedClock, SystemClock};
use outhaul::plugin::{Deliver, Runtime};
use outhaul::relay::{Lane, Relay, RelayHandle};
use outhaul::service::config::Config;
use outhaul::service::stores::{Stores, open_stores};
use outhaul::service::{mapping, plugins};
use outhaul::store::{NewEvent, Takeover};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::Common;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    Sqlite,
    Postgres,
}

/// A config with one destination, named `bench`.
pub struct Rig {
    pub config: Config,
    pub stores: Stores,
    pub clock: SharedClock,
    pub runtime: Runtime,
    /// Removed with the rig.
    _folder: tempfile::TempDir,
}

impl Rig {
    /// `destination` is TOML below `[destination.bench]`, without topics and concurrency.
    pub async fn new(
        common: &Common,
        database: Database,
        wake: &str,
        concurrency: u32,
        destination: &str,
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let url = match database {
            Database::Sqlite => "sqlite:bench.db".to_owned(),
            Database::Postgres => fresh_postgres(&common.postgres).await?,
        };
        let cache = folder.path().join("cache").display().to_string();
        let text = format!(
            "version = 1\n[outbox]\nurl = \"{url}\"\nwake = \"{wake}\"\n[runtime]\ncache = \"{cache}\"\n\
             [destination.bench]\ntopics = [\"*\"]\nconcurrency = {concurrency}\n{destination}\n"
        );
        let path = folder.path().join("outhaul.toml");
        std::fs::write(&path, text)?;
        let config = Config::load(&path).map_err(|problems| anyhow::anyhow!("{problems}"))?;
        let clock: SharedClock = Arc::new(SystemClock);
        let stores = open_stores(&config).await?;
        stores.schema.migrate().await?;
        let runtime = plugins::runtime(&config.file, clock.clone())?;
        let rig = Self { config, stores, clock, runtime, _folder: folder };
        rig.register().await?;
        Ok(rig)
    }

    async fn register(&self) -> Result<outhaul::store::Registered> {
        let registration = mapping::registration(&self.config, "bench", Takeover::IfNeverSeen);
        Ok(self.stores.store.register(&registration).await?)
    }

    /// The destination's own component.
    pub async fn component(&self) -> Result<Arc<dyn Deliver>> {
        let mut targets = plugins::load_all(&self.runtime, &self.config.file).await;
        let target = targets.pop().context("the config has one destination")?;
        if let Some(problem) = target.plugin.unready() {
            anyhow::bail!("the plugin can't run: {problem}");
        }
        Ok(target.plugin)
    }

    pub async fn start(&self, plugin: Arc<dyn Deliver>) -> Result<RelayHandle> {
        let registered = self.register().await?;
        let (name, id) =
            registered.destinations.into_iter().next().context("the config has one destination")?;
        let destination =
            self.config.file.destination.get(&name).context("it was registered by this name")?;
        let settings = mapping::lane_settings(&self.config.file, &name, destination);
        let lane = Lane { id: id.context("its config is current")?, settings, plugin };
        let relay = mapping::relay_settings(&self.config.file, "bench");
        Ok(Relay::start(self.stores.store.clone(), self.clock.clone(), relay, vec![lane]))
    }

    pub async fn emit(&self, events: usize) -> Result<()> {
        let event = |number| NewEvent {
            id: uuid::Uuid::new_v4().to_string(),
            topic: "order.created".to_owned(),
            payload: payload(number),
            ..NewEvent::default()
        };
        for first in (0..events).step_by(1_000) {
            let some: Vec<NewEvent> = (first..events.min(first + 1_000)).map(event).collect();
            self.stores.operate.emit(&some).await?;
        }
        Ok(())
    }
}

fn payload(number: usize) -> Vec<u8> {
    let (sku, pad) = (sku(number), "x".repeat(118));
    format!(r#"{{"kind":"order.created","sku":"{sku}","quantity":1,"pad":"{pad}"}}"#).into_bytes()
}

/// What an event moves. Each moves another, so that no transaction of a ledger waits for another's row.
pub fn sku(number: usize) -> String {
    format!("sku-{number:06}")
}

pub async fn fresh_postgres(server: &str) -> Result<String> {
    let name = format!("outhaul_bench_{}", uuid::Uuid::new_v4().simple());
    let mut connection =
        PgConnection::connect(server).await.context("connecting to the PostgreSQL of the benchmark")?;
    connection.execute(AssertSqlSafe(format!("create database {name}"))).await?;
    let (base, _) = server.rsplit_once('/').context("the server's URL names a database")?;
    Ok(format!("{base}/{name}"))
}
