//! The database of a config, as the three traits see it.

use std::path::PathBuf;
use std::sync::Arc;

use super::config::file::Wake;
use super::config::{Config, redact_url};
use crate::store::postgres::{PostgresOptions, PostgresStore};
use crate::store::sqlite::{self, SqliteOptions, SqliteStore};
use crate::store::{Operate, Schema, SchemaStatus, Store, StoreError, StoreResult};

/// One database behind the three traits.
#[derive(Clone)]
pub struct Stores {
    pub store: Arc<dyn Store>,
    pub operate: Arc<dyn Operate>,
    pub schema: Arc<dyn Schema>,
}

impl Stores {
    pub fn of<S: Store + Operate + Schema>(store: Arc<S>) -> Self {
        Self { store: store.clone(), operate: store.clone(), schema: store }
    }
}

/// Opens the database of the config as a host does. `StoreError::Unavailable` inside the error means that
/// later may succeed.
pub async fn open_stores(config: &Config) -> anyhow::Result<Stores> {
    open_as(config, config.file.outbox.migrate, true).await
}

/// The same for who wants to look, or to act on what there is: makes no file, and opens one that can
/// only be read.
pub async fn open_existing(config: &Config) -> anyhow::Result<Stores> {
    open_or_create(config, false).await
}

/// `create`: an SQLite file that is missing is made.
pub async fn open_or_create(config: &Config, create: bool) -> anyhow::Result<Stores> {
    open_as(config, create, create).await
}

async fn open_as(config: &Config, create: bool, write: bool) -> anyhow::Result<Stores> {
    let url = config.database_url().map_err(StoreError::Refused)?;
    let shown = redact_url(&url);
    open(config, url, create, write).await.map_err(|error| match error {
        // The driver says what failed, but not where.
        StoreError::Unavailable(_) => anyhow::Error::from(error)
            .context(format!("outbox.url {shown} can't be reached; is it right, and does the database run?")),
        _ => error.into(),
    })
}

/// The config's SQLite file, if it is not there yet.
pub fn missing_file(config: &Config) -> Option<PathBuf> {
    sqlite::missing_file(&config.database_url().ok()?)
}

/// What a schema that is not there yet lacks.
pub fn status_of_nothing() -> SchemaStatus {
    sqlite::status_of_nothing()
}

async fn open(config: &Config, url: String, create: bool, write: bool) -> StoreResult<Stores> {
    let outbox = &config.file.outbox;
    if url.starts_with("sqlite:") {
        // One connection writes; the others of the pool read.
        let readers = outbox.pool.saturating_sub(1).max(1);
        let options =
            SqliteOptions { timeout: outbox.timeout.0, readers, create, write, ..SqliteOptions::new(&url) };
        return Ok(Stores::of(Arc::new(SqliteStore::connect(&options).await?)));
    }
    let options = PostgresOptions {
        schema: outbox.schema.clone(),
        pool: outbox.pool,
        timeout: outbox.timeout.0,
        wake: outbox.wake == Wake::Notify,
        pooler: outbox.pooler,
        ..PostgresOptions::new(url)
    };
    Ok(Stores::of(Arc::new(PostgresStore::connect(&options).await?)))
}
