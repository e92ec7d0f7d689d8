//! `outhaul plugin check`: a component loaded and configured as the host would, with the grants of a
//! destination or with none.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value};

use super::destination::{find, with_component};
use super::settings;
use crate::cli::check::print;
use crate::cli::context::load_config;
use crate::cli::{Common, Exit};
use crate::clock::SystemClock;
use crate::service::check::plugin_alone;
use crate::service::mapping::bare_spec;
use crate::service::plugins::{offline_tool_runtime, tool_runtime};

/// Loads a component as the host would, and compares its settings and needs with what it is given.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    component: PathBuf,
    /// Use the settings, grants and limits of this destination of the config
    #[arg(long, value_name = "NAME", conflicts_with = "settings")]
    destination: Option<String>,
    /// Use these settings, a JSON object, and grant nothing
    #[arg(long, value_name = "JSON", value_parser = settings::parse)]
    settings: Option<Map<String, Value>>,
    /// Connect to nothing: the component is loaded and configured, and can reach neither its destination
    /// nor its databases
    #[arg(long)]
    offline: bool,
    #[arg(long)]
    json: bool,
}

pub async fn run(common: &Common, args: &CheckArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let spec = match &args.destination {
        None => bare_spec(args.component.clone(), args.settings.clone().unwrap_or_default()),
        Some(name) => {
            let config = load_config(common)?;
            with_component(name, find(&config, name)?, &args.component)
        }
    };
    let clock = Arc::new(SystemClock);
    let runtime = if args.offline { offline_tool_runtime(clock)? } else { tool_runtime(clock)? };
    let findings = plugin_alone(&runtime, spec, args.offline).await;
    print(&findings, args.json, out)
}
