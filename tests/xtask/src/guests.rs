//! Builds the plugins and the tests' guests as WASI 0.2 components.

mod debian;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::setup::which;
use crate::{languages, target_dir, workspace_root};

const TARGET: &str = "wasm32-wasip2";
const RUSTUP_PATIENCE: Duration = Duration::from_secs(180);

/// The workspaces that hold guests.
const WORKSPACES: [&str; 2] = ["plugins", "tests/guests"];

/// The one crate that may use an unstable feature: the hostile guest grows a table, for which Rust
/// has no stable word. Set for every guest, since a changed value makes cargo build all anew.
const BOOTSTRAP: (&str, &str) = ("RUSTC_BOOTSTRAP", "hostile");

/// Where a compiler that knows the target comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Source {
    /// This machine's own Rust, with the target added by rustup.
    Rustup,
    /// Debian's compiler with std built from its source, unpacked under the user's cache folder.
    Debian,
}

/// Where the built components are: `NAME.wasm` each.
pub fn folder() -> PathBuf {
    target_dir().join("guests")
}

/// Builds what is not up to date and returns [`folder`].
pub fn build_all() -> Result<PathBuf> {
    build_with(source())
}

fn source() -> Source {
    if has_target() || add_target() { Source::Rustup } else { Source::Debian }
}

/// Builds an author's project in Rust to `NAME.wasm` in it: by its `build.sh`, or where Debian's compiler
/// takes the place of rustup's, by the words that it needs. A fresh one begins with nothing built.
pub fn build_project(project: &Path, name: &str, is_fresh: bool) -> Result<()> {
    let target = if is_fresh { project.join("target") } else { build_folder() };
    if source() == Source::Rustup {
        let mut script = Command::new("sh");
        surrounded(script.arg("build.sh"), project);
        return succeeded(script.env("CARGO_TARGET_DIR", target));
    }
    succeeded(cargo_build(project, Some(&debian::rustc()?)).env("CARGO_TARGET_DIR", &target))?;
    let built = target.join(TARGET).join("release").join(format!("{}.wasm", name.replace('-', "_")));
    std::fs::copy(&built, project.join(format!("{name}.wasm")))
        .with_context(|| format!("copying {}", built.display()))?;
    Ok(())
}

/// A release build for guests in this folder.
fn cargo_build(folder: &Path, rustc: Option<&Path>) -> Command {
    let mut build = cargo(folder);
    build.args(["build", "--release", "--target", TARGET]);
    if let Some(rustc) = rustc {
        build.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1").arg("-Zbuild-std=std,panic_abort");
    }
    build
}

pub fn build_with(source: Source) -> Result<PathBuf> {
    let rustc = match source {
        Source::Rustup => None,
        Source::Debian => Some(debian::rustc()?),
    };
    std::fs::create_dir_all(folder())?;
    for workspace in WORKSPACES {
        let workspace = workspace_root().join(workspace);
        succeeded(&mut cargo_build(&workspace, rustc.as_deref()))?;
        for name in guests_of(&workspace)? {
            publish(&name)?;
        }
    }
    rust_template(rustc.as_deref())?;
    for (component, project) in languages::rust_fixtures()? {
        succeeded(&mut cargo_build(&project, rustc.as_deref()))?;
        publish_file(&build_folder().join(TARGET).join("release/fixture.wasm"), &component)?;
    }
    Ok(folder())
}

/// The template of the plugins' own language, as its author would build it: a project beside its SDK.
/// Rustup's users run `build.sh`; with Debian's compiler cargo needs words that are not in there.
fn rust_template(rustc: Option<&Path>) -> Result<()> {
    let project = languages::rust_project()?;
    let mut build = match rustc {
        None => {
            let mut script = Command::new("bash");
            script.arg("build.sh");
            script
        }
        Some(rustc) => cargo_build(&project, Some(rustc)),
    };
    if rustc.is_none() {
        surrounded(&mut build, &project);
    }
    succeeded(&mut build)?;
    publish_file(&build_folder().join(TARGET).join("release/my_plugin.wasm"), "template-rust")
}

/// Runs the unit tests of the plugins' pure parts on this machine.
pub fn test_natively() -> Result<()> {
    succeeded(cargo(&workspace_root().join("plugins")).arg("test"))
}

/// Cargo for a guest workspace. It has a target folder of its own, and knows nothing of what the
/// host is built with: flags for this machine's processor would not fit the guest's.
fn cargo(workspace: &Path) -> Command {
    let mut command = crate::cargo();
    surrounded(&mut command, workspace);
    command
}

fn surrounded(command: &mut Command, workspace: &Path) {
    command.current_dir(workspace).env("CARGO_TARGET_DIR", build_folder());
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC"] {
        command.env_remove(variable);
    }
    command.env(BOOTSTRAP.0, BOOTSTRAP.1);
}

fn build_folder() -> PathBuf {
    target_dir().join("guests-build")
}

/// The names of a workspace's components: the packages that make a dynamic library.
fn guests_of(workspace: &Path) -> Result<Vec<String>> {
    let mut metadata = cargo(workspace);
    let output = metadata.args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    if !output.status.success() {
        bail!("{metadata:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    let is_component = |target: &&Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"))
    };
    targets
        .filter(is_component)
        .map(|target| Ok(target["name"].as_str().context("a target has no name")?.to_owned()))
        .collect()
}

/// Copies cargo's component to where tests and configs look for it.
fn publish(name: &str) -> Result<()> {
    // Cargo builds `stock_ledger.wasm`; people write `stock-ledger.wasm`.
    let built = build_folder().join(TARGET).join("release").join(format!("{}.wasm", name.replace('-', "_")));
    publish_file(&built, &name.replace('_', "-"))
}

/// Copies a component to `NAME.wasm` in [`folder`]. One that did not change is left alone, so that a
/// running host does not reload it; a changed one appears whole.
pub fn publish_file(built: &Path, name: &str) -> Result<()> {
    let component = std::fs::read(built).with_context(|| format!("reading {}", built.display()))?;
    let path = folder().join(format!("{name}.wasm"));
    if std::fs::read(&path).is_ok_and(|published| published == component) {
        return Ok(());
    }
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    let mut file = tempfile::Builder::new().permissions(readable).tempfile_in(folder())?;
    std::io::Write::write_all(&mut file, &component)?;
    file.persist(&path).with_context(|| format!("writing {}", path.display()))?;
    println!("guests: built {} ({} KiB)", path.display(), component.len().div_ceil(1024));
    Ok(())
}

fn has_target() -> bool {
    let arguments = ["--print", "target-libdir", "--target", TARGET];
    let Ok(output) = Command::new("rustc").args(arguments).output() else {
        return false;
    };
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}

/// Whether rustup could add the target. Where its server can't be reached it may wait for minutes,
/// so its time is bounded.
fn add_target() -> bool {
    if !which("rustup") {
        return false;
    }
    println!("setup: adding the Rust target {TARGET} with rustup");
    let child = Command::new("rustup").args(["target", "add", TARGET]).stdin(Stdio::null()).spawn();
    let Ok(mut child) = child else {
        return false;
    };
    let patience = Instant::now() + RUSTUP_PATIENCE;
    while Instant::now() < patience {
        match child.try_wait() {
            Ok(Some(status)) => return status.success() && has_target(),
            Ok(None) => std::thread::sleep(Duration::from_millis(100)),
            Err(_) => break,
        }
    }
    println!("setup: rustup did not answer within {} s", RUSTUP_PATIENCE.as_secs());
    child.kill().ok();
    child.wait().ok();
    false
}

fn succeeded(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed with {status}");
    }
    Ok(())
}
