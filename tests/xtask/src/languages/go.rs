//! Go: the stock compiler, and `wasm-tools` from PyPI, which makes a component of its output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Toolchain;
use crate::{setup, target_dir};

/// The generator of the bindings. Its crate holds the Go module that generated code uses.
const GENERATOR: (&str, &str) = ("wit-bindgen-go", "0.63.0");

/// What the template's go.mod asks for: Go 1.this.
const OLDEST_MINOR: u32 = 24;

pub fn toolchain() -> Result<Toolchain> {
    setup::ensure("the Go compiler", &["golang"], || setup::which("go"))?;
    let wasm_tools = setup::python_packages("wasm-tools", &[setup::WASM_TOOLS])?;
    let go = Command::new("go").args(["env", "GOVERSION"]).output()?;
    let go = String::from_utf8_lossy(&go.stdout).trim().to_owned();
    anyhow::ensure!(
        is_new_enough(&go),
        "the Go template needs Go 1.{OLDEST_MINOR} or newer, and this machine's is {go}; install it from \
         https://go.dev/dl and put it first in PATH, then run this command again"
    );
    let version = format!("{go} {}", setup::WASM_TOOLS);
    Ok(Toolchain { version, path: vec![wasm_tools], variables: Vec::new() })
}

/// `version` as `go env GOVERSION` writes it, such as `go1.26.8`. Debian 12's own is older.
fn is_new_enough(version: &str) -> bool {
    let minor = version.strip_prefix("go1.").and_then(|rest| rest.split('.').next());
    minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor >= OLDEST_MINOR)
}

/// What a project holds besides its template: the adapter, as `outhaul plugin new` writes it, and a
/// workspace.
pub fn additions() -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let adapter = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
    Ok(vec![
        ("bindings/wasi_snapshot_preview1.reactor.wasm".into(), adapter.to_vec()),
        ("go.work".into(), workspace()?.into_bytes()),
    ])
}

/// A `go.work` that takes the Go module of the bindings from the generator's crate, where no proxy of Go
/// modules serves it.
pub fn workspace() -> Result<String> {
    let module = bindings_module()?;
    let replace = format!("replace go.bytecodealliance.org/pkg v0.4.0 => {}", module.display());
    Ok(format!("go 1.24\n\nuse .\n\n{replace}\n"))
}

/// Where cargo unpacked the generator's crate. Nothing of it is built.
fn bindings_module() -> Result<PathBuf> {
    let (name, version) = GENERATOR;
    let folder = target_dir().join("tools").join(name);
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"holder\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{name} = \"={version}\"\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    let mut metadata = crate::cargo();
    let output = metadata.args(["metadata", "--format-version", "1"]).current_dir(&folder).output()?;
    anyhow::ensure!(output.status.success(), "{metadata:?}: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let crate_manifest = packages
        .filter(|package| package["name"] == name)
        .find_map(|package| package["manifest_path"].as_str())
        .with_context(|| format!("cargo metadata does not list {name}"))?;
    let source = Path::new(crate_manifest).with_file_name("src").join("pkg/wit");
    // Its own go.mod asks for a newer compiler than its code needs.
    let module = folder.join("module");
    let mut files = BTreeMap::new();
    super::read_all(&source, Path::new("wit"), &mut files)?;
    files.insert("go.mod".into(), b"module go.bytecodealliance.org/pkg\n\ngo 1.24\n".to_vec());
    for (path, content) in files {
        let path = module.join(path);
        fs::create_dir_all(path.parent().context("a file has no folder")?)?;
        fs::write(path, content)?;
    }
    Ok(module)
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn a_go_that_is_too_old_for_the_template_is_told_from_one_that_is_not() {
        let (new, old) = (["go1.24", "go1.24.1", "go1.26.8"], ["go1.19.8", "go1.9", "", "devel"]);
        assert!(new.into_iter().all(is_new_enough));
        assert!(!old.into_iter().any(is_new_enough));
    }
}
