//! Python: `componentize-py` from PyPI, in the version the template names.

use anyhow::Result;

use super::Toolchain;
use crate::{setup, workspace_root};

pub fn toolchain() -> Result<Toolchain> {
    let requirements = workspace_root().join("plugins/templates/python/requirements-build.txt");
    let requirements = std::fs::read_to_string(requirements)?;
    let packages: Vec<&str> = requirements.lines().collect();
    let componentize = setup::python_packages("python", &packages)?;
    Ok(Toolchain { version: requirements, path: vec![componentize], variables: Vec::new() })
}
