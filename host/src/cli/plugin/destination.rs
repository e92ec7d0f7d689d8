//! A component in the place of the one a destination names.

use std::path::{Path, PathBuf};

use crate::cli::Misuse;
use crate::plugin::spec::PluginSpec;
use crate::service::config::Config;
use crate::service::config::file::Destination;
use crate::service::mapping::plugin_spec;

pub fn find<'c>(config: &'c Config, name: &str) -> Result<&'c Destination, Misuse> {
    config.file.destination.get(name).ok_or_else(|| {
        let known: Vec<_> = config.file.destination.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Misuse(format!("{} has no destination {name:?}; it has {known}", config.path.display()))
    })
}

/// Another file with the destination's settings, grants and limits: pin and signature are of the one
/// in the config.
pub fn with_component(name: &str, destination: &Destination, component: &Path) -> PluginSpec {
    let is_same = component.canonicalize().ok() == PathBuf::from(&destination.component).canonicalize().ok();
    let spec = plugin_spec(name, destination);
    PluginSpec {
        component: component.to_owned(),
        pull: None,
        sha256: spec.sha256.filter(|_| is_same),
        signature: spec.signature.filter(|_| is_same),
        ..spec
    }
}
