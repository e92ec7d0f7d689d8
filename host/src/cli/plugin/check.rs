//! `outhaul plugin check`: a component loaded and configured as the host would, with the grants of a
//! destination or with none.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value};

use super::settings;
use crate::cli::check::print;
use crate::cli::context::load_config;
use crate::cli::{Common, Exit, Misuse};
use crate::clock::SystemClock;
use crate::service::check::plugin_alone;
use crate::service::mapping::{bare_spec, plugin_spec};
use crate::service::plugins::tool_runtime;

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
    /// Do not ask the plugin whether its destination can be reached
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
            let Some(destination) = config.file.destination.get(name) else {
                let known: Vec<_> = config.file.destination.keys().map(String::as_str).collect();
                let path = config.path.display();
                return Err(Misuse(format!(
                    "{path} has no destination {name:?}; it has {}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
                ))
                .into());
            };
            // Another file of the same plugin: pin and signature are of the one in the config.
            let is_same = args.component.canonicalize().ok()
                == PathBuf::from(&destination.component).canonicalize().ok();
            let mut spec = plugin_spec(name, destination);
            spec.component = args.component.clone();
            spec.pull = None;
            spec.sha256 = spec.sha256.filter(|_| is_same);
            spec.signature = spec.signature.filter(|_| is_same);
            spec
        }
    };
    let runtime = tool_runtime(Arc::new(SystemClock))?;
    let findings = plugin_alone(&runtime, spec, args.offline).await;
    print(&findings, args.json, out)
}
