//! What stands behind each destination on this host: which generation of its plugin, and why a
//! later one does not.

use std::sync::{Arc, PoisonError, RwLock};

use crate::plugin::{Deliver, LoadedPlugin};
use crate::service::canary::{self, Second};
use crate::service::reload::Fingerprint;
use crate::store::{HostNotes, LoadedNote};

/// A destination and what stands behind it on this host.
#[derive(Clone)]
pub struct Target {
    pub name: String,
    pub required: bool,
    pub plugin: Arc<dyn Deliver>,
    /// The plugin itself, for its counters; none if it did not load.
    pub loaded: Option<Arc<LoadedPlugin>>,
    /// The canary beside it, if the config names one; none if the plugin itself did not load.
    pub second: Option<Second>,
    /// From 1, one more with each swap; 0 while none has loaded.
    pub generation: u64,
    /// Of what the plugin was made of.
    pub fingerprint: Fingerprint,
    /// It did not load, and may do so later by itself.
    pub may_load_later: bool,
    /// Why the candidate of the last reload did not replace this generation, if so.
    pub reload_error: Option<String>,
}

/// The destinations at one moment.
#[derive(Clone, Default)]
pub struct Inventory {
    /// In the order of their names.
    pub targets: Vec<Target>,
    /// Why the config on disk is not the one that runs, if so.
    pub reload_error: Option<String>,
}

/// Replaced as a whole by each reload.
#[derive(Default)]
pub struct SharedInventory(RwLock<Arc<Inventory>>);

impl Target {
    /// The plugin and its canary, as far as they loaded.
    pub fn all_loaded(&self) -> impl Iterator<Item = &Arc<LoadedPlugin>> {
        self.loaded.iter().chain(self.second.iter().flat_map(|second| &second.loaded))
    }

    /// Its canary did not load, and may later though nothing changes.
    pub fn awaits_canary(&self) -> bool {
        self.second.as_ref().is_some_and(|second| second.may_load_later)
    }
}

impl Inventory {
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// What the database is told with each heartbeat, beside what the relay knows of its lanes.
    pub fn notes(&self) -> HostNotes {
        let loaded = self.targets.iter().map(|target| LoadedNote {
            destination: target.name.clone(),
            generation: target.generation,
            component_digest: target.plugin.component_digest().to_owned(),
            reload_error: target.reload_error.clone(),
            canary: target.second.as_ref().map(canary::note),
        });
        HostNotes {
            loaded: loaded.collect(),
            reload_error: self.reload_error.clone(),
            ..HostNotes::default()
        }
    }
}

impl SharedInventory {
    pub fn new(targets: Vec<Target>) -> Self {
        Self(RwLock::new(Arc::new(Inventory { targets, reload_error: None })))
    }

    pub fn get(&self) -> Arc<Inventory> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, inventory: Inventory) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(inventory);
    }
}
