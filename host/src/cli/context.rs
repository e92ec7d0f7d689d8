//! What every command that talks to the database has at hand.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;

use super::Common;
use crate::clock::{SharedClock, SystemClock};
use crate::service::config::Config;
use crate::service::identity;
use crate::service::stores::{Stores, open_or_create};

pub struct Context {
    pub stores: Stores,
    pub who: String,
    pub clock: SharedClock,
}

impl Context {
    /// The database of the config, whose schema must be one this program knows.
    pub async fn open(common: &Common) -> anyhow::Result<Self> {
        Self::open_of(&load_config(common)?, common).await
    }

    pub async fn open_of(config: &Config, common: &Common) -> anyhow::Result<Self> {
        let context = Self::open_any_schema(config, common, false).await?;
        let schema = context.stores.schema.status().await?;
        match schema.installed {
            None => bail!("the database has no outbox tables yet; run  outhaul migrate"),
            Some(installed) if !schema.pending.is_empty() => bail!(
                "the database has schema version {installed}, and this outhaul needs version {}; run  outhaul migrate",
                schema.newest_known
            ),
            Some(_) => Ok(context),
        }
    }

    /// `create`: an SQLite file that is missing is made.
    pub async fn open_any_schema(config: &Config, common: &Common, create: bool) -> anyhow::Result<Self> {
        let clock: SharedClock = Arc::new(SystemClock);
        let stores = open_or_create(config, create).await?;
        Ok(Self { stores, who: common.who(), clock })
    }
}

impl Common {
    pub fn who(&self) -> String {
        self.who.clone().unwrap_or_else(identity::operator)
    }

    pub fn config_path(&self) -> PathBuf {
        let from_environment = || std::env::var_os("OUTHAUL_CONFIG").map(PathBuf::from);
        self.config.clone().or_else(from_environment).unwrap_or_else(|| "outhaul.toml".into())
    }
}

pub fn load_config(common: &Common) -> anyhow::Result<Config> {
    let path = common.config_path();
    Config::load(&path).map_err(|problems| anyhow::anyhow!("the config can't be used:\n{problems}"))
}
