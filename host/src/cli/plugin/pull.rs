//! `outhaul plugin pull`: a component from a registry, and the config lines that pin it.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use crate::cli::context::load_config;
use crate::cli::{Common, Exit, Misuse, show};
use crate::clock::SystemClock;
use crate::plugin::spec::RegistryAccess;
use crate::plugin::{Reference, Runtime};
use crate::service::mapping::registry_access;
use crate::service::plugins::{runtime, tool_runtime};

/// Fetches a component from a registry into the cache, where a host finds it, and prints the config
/// lines that pin it.
#[derive(Args, Clone, Debug)]
pub struct PullArgs {
    /// oci://HOST/REPOSITORY, with :TAG or @sha256:DIGEST
    #[arg(value_name = "REF")]
    reference: String,
    /// Write the component to this file, too
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

pub async fn run(common: &Common, args: &PullArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let reference = Reference::parse(&args.reference).map_err(Misuse)?;
    let (runtime, access) = registry(common, &reference)?;
    let pulled = runtime.pull(&reference, &access).await.with_context(|| reference.to_string())?;
    if let Some(output) = &args.output {
        write(&pulled.path, output).with_context(|| format!("{} can't be written", output.display()))?;
    }
    if args.json {
        let component = pulled.reference.to_string();
        let found = json!({ "component": component, "sha256": pulled.sha256, "bytes": pulled.bytes });
        show::json(out, &found)?;
    } else {
        writeln!(out, "component = \"{}\"", pulled.reference)?;
        writeln!(out, "sha256 = \"{}\"", pulled.sha256)?;
    }
    Ok(Exit::Fine)
}

/// With the config's cache and what it says of the registry. A config that is not there says nothing.
fn registry(common: &Common, reference: &Reference) -> anyhow::Result<(Runtime, RegistryAccess)> {
    let clock = Arc::new(SystemClock);
    if common.config.is_none() && !common.config_path().exists() {
        return Ok((tool_runtime(clock)?, RegistryAccess::default()));
    }
    let file = load_config(common)?.file;
    let access = file.registry.get(&reference.host).map(registry_access).unwrap_or_default();
    Ok((runtime(&file, clock)?, access))
}

/// Whole or not at all: a host may be watching the file.
fn write(from: &Path, to: &Path) -> std::io::Result<()> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Less the umask, as every file a tool writes.
    let everybody = std::fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(everybody).tempfile_in(folder)?;
    std::io::copy(&mut std::fs::File::open(from)?, &mut file)?;
    file.persist(to).map(drop).map_err(|error| error.error)
}
