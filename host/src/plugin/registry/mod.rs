//! Components from a registry: pulled by digest, checked, and kept, so that a host that starts again
//! needs no registry.

mod challenge;
mod client;
mod manifest;
mod reference;

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use self::client::Client;
use self::manifest::{Layer, MANIFEST};
pub use self::reference::{Reference, is_host};
use super::capability::denials::Denials;
use super::capability::dial::{Dialer, Outside};
use super::engine::{Inner, Runtime};
use super::load::LoadProblem;
use super::spec::{PluginSpec, RegistryAccess};

/// A larger component is refused.
const COMPONENT_BYTES_MAX: u64 = 256 << 20;
const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Of one pull, from the first byte asked for to the last one kept. A host's start waits so long at most.
const PULL_BUDGET: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_secs(5);

/// Why a component could not be had.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct PullError {
    why: String,
    /// Later it may be otherwise.
    is_passing: bool,
}

impl PullError {
    /// The same pull may succeed later.
    pub fn is_passing(&self) -> bool {
        self.is_passing
    }

    fn passing(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_passing: true }
    }

    fn lasting(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_passing: false }
    }
}

/// A component that was pulled, or was here before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// By its digest, without a tag: what a config may name.
    pub reference: Reference,
    pub path: PathBuf,
    /// Hex SHA-256 of the component.
    pub sha256: String,
    pub bytes: u64,
}

impl Runtime {
    /// Fetches a component, unless it is here already; by tag it always asks the registry.
    pub async fn pull(&self, reference: &Reference, access: &RegistryAccess) -> Result<Pulled, PullError> {
        pull(&self.inner, reference, access).await
    }
}

/// The spec with a file as its component, which is fetched first where it is in a registry.
pub async fn fetched(runtime: &Arc<Inner>, mut spec: PluginSpec) -> Result<PluginSpec, LoadProblem> {
    let Some(source) = &spec.pull else { return Ok(spec) };
    let pulled = match Reference::parse(&source.reference) {
        Ok(reference) => pull(runtime, &reference, &source.access).await,
        Err(why) => Err(PullError::lasting(why)),
    };
    let pulled = pulled.map_err(|error| {
        let why = format!("the component {} can't be had: {error}", source.reference);
        LoadProblem::Pull { why, is_passing: error.is_passing }
    })?;
    spec.component = pulled.path;
    // The bytes that are compiled are checked once more; a pin of the config's own stays.
    spec.sha256.get_or_insert(pulled.sha256);
    Ok(spec)
}

async fn pull(
    runtime: &Arc<Inner>,
    reference: &Reference,
    access: &RegistryAccess,
) -> Result<Pulled, PullError> {
    let kept = Arc::new(Kept::open(runtime)?);
    if let Some(digest) = reference.digest.clone() {
        let (kept, reference) = (kept.clone(), reference.clone());
        if let Some(found) = blocking(move || kept.find(&reference.pinned(&digest), &digest)).await {
            return Ok(found);
        }
    }
    if runtime.outside.offline.as_ref().is_some_and(|offline| !offline.may_pull) {
        return Err(PullError::lasting(
            "it is not kept on this machine, and nothing is pulled offline".to_owned(),
        ));
    }
    let ends_at = runtime.clock.since_boot() + PULL_BUDGET;
    let dialer = Dialer {
        // A component is fetched by the host: whether its plugin may reach anything is another matter.
        outside: Outside { resolver: runtime.outside.resolver.clone(), offline: None },
        connect_timeout: STEP,
        tls_timeout: STEP,
        clock: runtime.clock.clone(),
        denials: Arc::new(Denials::new("registry".to_owned())),
    };
    let mut client = Client::new(&reference.host, access, dialer, ends_at)?;
    let repository = &reference.repository;
    let path = format!("{repository}/manifests/{}", reference.wanted());
    let manifest = client.get(&path, MANIFEST, MANIFEST_BYTES_MAX).await?;
    let digest = sha256(&manifest);
    check_digest("manifest", reference.digest.as_deref().unwrap_or(&digest), &digest)?;
    let layer = manifest::component(&manifest).map_err(PullError::lasting)?;
    if layer.bytes > COMPONENT_BYTES_MAX {
        return Err(PullError::lasting(format!(
            "it has {} bytes, and a component at most {COMPONENT_BYTES_MAX}",
            layer.bytes
        )));
    }
    let path = format!("{repository}/blobs/sha256:{}", layer.digest);
    let component = client.get(&path, "*/*", layer.bytes).await?;
    let pinned = reference.pinned(&digest);
    blocking(move || {
        check_digest("component", &layer.digest, &sha256(&component))?;
        kept.keep(&digest, &manifest, &layer, &component)?;
        Ok(kept.pulled(pinned, &layer))
    })
    .await
}

fn check_digest(what: &str, wanted: &str, found: &str) -> Result<(), PullError> {
    match wanted == found {
        true => Ok(()),
        false => Err(PullError::passing(format!(
            "the registry sent a {what} with sha256 {found} for the one with {wanted}; it, or something between, \
             changed it, so nothing of it is used"
        ))),
    }
}

/// Hashing and files: not on a thread that others wait for.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("reading and writing files does not panic")
}

/// What was pulled before: manifests by their digest, components by theirs.
struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// Beside the compiled code, in a folder only this user can write.
    fn open(runtime: &Inner) -> Result<Self, PullError> {
        let cache = runtime.cache.as_ref().ok_or_else(|| {
            PullError::lasting(
                "there is no folder to keep it in; set  cache  in [runtime] to one of the host's own",
            )
        })?;
        let folder = cache.dir().join("components");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| {
            PullError::passing(format!("the folder {} can't be created: {error}", folder.display()))
        })?;
        Ok(Self { folder })
    }

    /// Whole and unchanged, or not at all.
    fn find(&self, reference: &Reference, digest: &str) -> Option<Pulled> {
        let manifest = std::fs::read(self.manifest(digest)).ok()?;
        if sha256(&manifest) != digest {
            tracing::warn!(component = %reference, "a kept manifest is damaged; pulling it again");
            return None;
        }
        let layer = manifest::component(&manifest).ok()?;
        let pulled = self.pulled(reference.clone(), &layer);
        let component = std::fs::read(&pulled.path).ok()?;
        if sha256(&component) != layer.digest {
            tracing::warn!(component = %reference, "a kept component is damaged; pulling it again");
            return None;
        }
        Some(pulled)
    }

    /// The component first: a manifest means that both are here.
    fn keep(&self, digest: &str, manifest: &[u8], layer: &Layer, component: &[u8]) -> Result<(), PullError> {
        let component = self.write(&self.component(&layer.digest), component);
        component.and_then(|()| self.write(&self.manifest(digest), manifest)).map_err(|error| {
            PullError::passing(format!("it can't be kept in {}: {error}", self.folder.display()))
        })
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        // Two hosts may write the same file at once: each writes its own and renames it whole.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(bytes)?;
        file.persist(path)?;
        Ok(())
    }

    fn pulled(&self, reference: Reference, layer: &Layer) -> Pulled {
        let (path, sha256) = (self.component(&layer.digest), layer.digest.clone());
        Pulled { reference, path, sha256, bytes: layer.bytes }
    }

    fn component(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.wasm"))
    }

    fn manifest(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.json"))
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
