//! `outhaul config`: the config's schema, and taking a config as the next generation.

use std::io::Write;

use clap::Subcommand;
use serde_json::json;

use super::context::load_config;
use super::{Common, Context, Exit, show};
use crate::service::{config, mapping};
use crate::store::{ConfigStanding, Takeover};

/// Prints the config's JSON Schema, or applies a config.
#[derive(Subcommand, Clone, Debug)]
pub enum ConfigCommand {
    /// The JSON Schema of the config file
    Schema,
    /// Makes this config's destinations and routes the current ones, for every host
    Apply {
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(
    common: &Common,
    command: &ConfigCommand,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let ConfigCommand::Apply { json } = command else {
        show::json(out, &config::json_schema())?;
        return Ok(Exit::Fine);
    };
    let config = load_config(common)?;
    let context = Context::open(common).await?;
    let host = format!("config apply by {}", context.who);
    let registration = mapping::registration(&config, &host, Takeover::UnlessCurrent);
    let registered = context.stores.store.register(&registration).await?;
    let is_current = registered.standing == ConfigStanding::Current;
    if *json {
        let current = json!({ "generation": registered.generation, "current": is_current });
        show::json(out, &current)?;
    } else {
        writeln!(out, "this config is generation {}", registered.generation)?;
    }
    Ok(if is_current { Exit::Fine } else { Exit::Problem })
}
