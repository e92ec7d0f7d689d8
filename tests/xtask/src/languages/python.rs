//! Python: `componentize-py` from PyPI, in the version the project names.

use anyhow::Result;

use super::Toolchain;
use crate::setup;

pub const PINS: &str = "requirements-build.txt";

pub fn toolchain(folder: &str, requirements: &str) -> Result<Toolchain> {
    let packages: Vec<&str> = requirements.lines().collect();
    let componentize = setup::python_packages(folder, &packages)?;
    Ok(Toolchain { version: requirements.to_owned(), path: vec![componentize], variables: Vec::new() })
}
