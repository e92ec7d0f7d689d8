//! Two components over the same events, where nothing leaves the machine: what comes of each event, and
//! what it would have sent. Each event meets a fresh instance, an unmoving clock and the same random
//! numbers, so that what differs is the components'.

mod body;
mod compare;
mod script;

use std::sync::Arc;

pub use self::compare::{Difference, differences};
use self::script::Script;
pub use self::script::{Answering, Heard, read_answer, read_answers};
pub use super::case::Step;
pub use super::rig::told;
use crate::clock::SharedClock;
use crate::domain::Outcome;
use crate::plugin::offline::Offline;
use crate::plugin::spec::PluginSpec;
use crate::plugin::{Call, Deliver, LoadError, LoadedPlugin, Runtime, RuntimeSettings};

/// One component with what it is told of the world.
pub struct Side {
    plugin: Arc<LoadedPlugin>,
    script: Arc<Script>,
    // After the plugin, whose guests run on its threads.
    _runtime: Runtime,
}

/// What one component made of one event.
#[derive(Clone, Debug)]
pub struct Made {
    pub outcome: Outcome,
    pub heard: Heard,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("{0:#}")]
    Runtime(anyhow::Error),
    #[error("{0}")]
    Load(LoadError),
}

impl Side {
    /// Loads a component with the settings, grants and limits of `spec`, cut off from everything.
    pub async fn load(
        settings: &RuntimeSettings,
        clock: &SharedClock,
        spec: PluginSpec,
        answering: &Answering,
    ) -> Result<Self, ReplayError> {
        let script = Arc::new(Script::new(answering.clone()));
        let offline = Some(Offline { answers: script.clone(), wall: answering.wall, may_pull: true });
        let runtime = Runtime::new(RuntimeSettings { clock: clock.clone(), offline, ..settings.clone() })
            .map_err(ReplayError::Runtime)?;
        let mut spec = PluginSpec { concurrency: 1, ..spec };
        spec.limits.calls_per_instance = 1;
        let plugin = runtime.load(spec).await.map_err(ReplayError::Load)?;
        Ok(Self { plugin, script, _runtime: runtime })
    }

    pub fn digest(&self) -> &str {
        self.plugin.component_digest()
    }

    /// One event. What the instance does at its end belongs to it.
    pub async fn make(&self, call: Call) -> Made {
        let outcome = self.plugin.deliver(call).await;
        self.plugin.at_rest().await;
        Made { outcome, heard: self.script.take() }
    }
}
