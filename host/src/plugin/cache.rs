//! Compiled code kept between runs, by component digest and engine fingerprint. Native code is
//! only ever loaded from a directory of the host's own; anything odd about a file is a miss.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

const CHECKSUM_BYTES: usize = 32;

pub struct CompileCache {
    dir: PathBuf,
    engine_fingerprint: u64,
}

impl CompileCache {
    /// Opens or creates the directory. None, with a warning, if it can't be trusted: the host
    /// works without a cache, only slower at start.
    pub fn open(dir: PathBuf, engine: &Engine) -> Option<Self> {
        if let Err(problem) = prepare(&dir) {
            tracing::warn!(dir = %dir.display(), %problem, "compiled code is not cached");
            return None;
        }
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Some(Self { dir, engine_fingerprint: hasher.finish() })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn load(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let file = fs::read(self.path(digest)).ok()?;
        let (checksum, code) = file.split_at_checked(CHECKSUM_BYTES)?;
        if Sha256::digest(code).as_slice() != checksum {
            tracing::warn!(digest, "a file of compiled code is damaged; compiling again");
            return None;
        }
        // SAFETY: the file is in a directory only this user can write (checked at opening), was
        // written by `store` from `Component::serialize`, and is whole by its checksum.
        unsafe { Component::deserialize(engine, code) }.ok()
    }

    /// Best effort: a full disk costs a compilation at the next start.
    pub fn store(&self, digest: &str, component: &Component) {
        let written = component
            .serialize()
            .map_err(|error| error.to_string())
            .and_then(|code| self.write(digest, &code).map_err(|error| error.to_string()));
        if let Err(problem) = written {
            tracing::warn!(digest, problem, "compiled code could not be kept");
        }
    }

    fn write(&self, digest: &str, code: &[u8]) -> std::io::Result<()> {
        // Two hosts may write the same file at once: each writes its own and renames it whole.
        let mut file = tempfile::NamedTempFile::new_in(&self.dir)?;
        file.write_all(&Sha256::digest(code))?;
        file.write_all(code)?;
        file.persist(self.path(digest))?;
        Ok(())
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{:016x}.code", self.engine_fingerprint))
    }
}

fn prepare(dir: &Path) -> Result<(), String> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| format!("it can't be created: {error}"))?;
    let found = fs::metadata(dir).map_err(|error| error.to_string())?;
    // SAFETY: geteuid has no preconditions and can't fail.
    let own_user = unsafe { libc::geteuid() };
    if found.uid() != own_user {
        return Err(format!("it belongs to user {}; give the host a directory of its own", found.uid()));
    }
    if found.permissions().mode() & 0o022 != 0 {
        return Err("others can write to it; run chmod 700 on it".to_owned());
    }
    Ok(())
}
