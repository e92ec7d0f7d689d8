//! Loading every destination's plugin, where one that fails keeps no other from running.

use std::sync::Arc;

use futures_util::future::join_all;

use super::canary;
use super::config::file::{ConfigFile, Destination};
pub use super::inventory::Target;
use super::mapping::plugin_spec;
use super::reload::fingerprint_of;
use crate::clock::SharedClock;
use crate::plugin::offline::Offline;
use crate::plugin::{Deliver, Runtime, RuntimeSettings, Unloaded};

pub fn runtime(file: &ConfigFile, clock: SharedClock) -> anyhow::Result<Runtime> {
    Runtime::new(runtime_settings(file, clock))
}

pub fn runtime_settings(file: &ConfigFile, clock: SharedClock) -> RuntimeSettings {
    let mut settings = RuntimeSettings::new(clock);
    settings.cache_dir = file.runtime.cache.clone().or_else(default_cache);
    if file.runtime.threads > 0 {
        settings.guest_threads = file.runtime.threads as usize;
    }
    settings
}

/// A runtime for tools that look at one component, without a config.
pub fn tool_runtime(clock: SharedClock) -> anyhow::Result<Runtime> {
    Runtime::new(tool_settings(clock))
}

/// The same, where nothing outside may be asked.
pub fn offline_tool_runtime(clock: SharedClock) -> anyhow::Result<Runtime> {
    Runtime::new(offline(tool_settings(clock)))
}

pub fn offline(settings: RuntimeSettings) -> RuntimeSettings {
    let alone = Offline::alone(settings.clock.wall());
    RuntimeSettings { offline: Some(alone), ..settings }
}

fn tool_settings(clock: SharedClock) -> RuntimeSettings {
    let mut settings = RuntimeSettings::new(clock);
    settings.cache_dir = default_cache();
    settings
}

fn default_cache() -> Option<std::path::PathBuf> {
    let of_user = std::env::var_os("XDG_CACHE_HOME").map(std::path::PathBuf::from);
    let of_home = || std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join(".cache"));
    of_user.filter(|path| path.is_absolute()).or_else(of_home).map(|cache| cache.join("outhaul"))
}

/// Loads all of them side by side, in the order of their names.
pub async fn load_all(runtime: &Runtime, file: &ConfigFile) -> Vec<Target> {
    join_all(file.destination.iter().map(|(name, destination)| load(runtime, name, destination))).await
}

async fn load(runtime: &Runtime, name: &str, destination: &Destination) -> Target {
    let (name, required) = (name.to_owned(), destination.required);
    // Before the files are read to be loaded: what changes in between is loaded again.
    let fingerprint = fingerprint_of(&name, destination).await;
    match runtime.load(plugin_spec(&name, destination)).await {
        Ok(loaded) => {
            tracing::info!(destination = name, digest = loaded.component_digest(), "the plugin is loaded");
            let second = canary::beside(runtime, &name, destination, &loaded, None).await;
            let plugin = canary::in_front(&loaded, second.as_ref());
            Target {
                name,
                required,
                plugin,
                loaded: Some(loaded),
                second,
                generation: 1,
                fingerprint,
                may_load_later: false,
                reload_error: None,
            }
        }
        Err(error) => {
            tracing::error!(destination = name, error = %error, "the plugin can't run on this host");
            let plugin = Arc::new(Unloaded::new(&error));
            Target {
                name,
                required,
                plugin,
                loaded: None,
                second: None,
                generation: 0,
                fingerprint,
                may_load_later: error.problem.is_passing(),
                reload_error: None,
            }
        }
    }
}
