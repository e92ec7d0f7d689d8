//! A component looked at by itself: no destination, no settings, no grants.

use std::path::Path;
use std::sync::Arc;

use super::describe::{self, Description};
use super::engine::Runtime;
use super::exports::Exports;
use super::load::{self, LoadProblem};
use super::spec::PluginSpec;

/// What a component is and says.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Hex SHA-256 of the file.
    pub digest: String,
    /// Of the file.
    pub bytes: u64,
    /// Names with versions, as the component has them.
    pub exports: Vec<String>,
    pub imports: Vec<String>,
    /// The optional exports of the contract it has.
    pub optional: Exports,
    /// What it says of itself, by `describe` or in a `plugin.toml`: none if it says nothing, and a
    /// sentence if that can't be used.
    pub description: Result<Option<Description>, String>,
}

impl Runtime {
    /// Compiles a component and asks it what it is, as loading would, but without a destination.
    /// Fails where it could be loaded for none.
    pub async fn inspect(&self, component: &Path) -> Result<Inspection, LoadProblem> {
        let spec = Arc::new(PluginSpec::bare("inspect", component));
        let prepared = load::prepared(&self.inner, &spec).await?;
        let bytes = std::fs::metadata(component).map_or(0, |found| found.len());
        let (exports, imports) = (prepared.exports.clone(), prepared.imports.clone());
        let (digest, optional) = (prepared.digest.clone(), prepared.contract.exports());
        let bare = load::granted(&self.inner, &prepared, spec, Arc::default()).await?;
        let description = describe::describe(&self.inner, Arc::new(bare), component).await;
        Ok(Inspection { digest, bytes, exports, imports, optional, description })
    }
}
