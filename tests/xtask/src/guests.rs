//! Builds the plugins and the tests' guests as WASI 0.2 components.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::target_dir;

/// Where the built components are: `NAME.wasm` each.
pub fn folder() -> PathBuf {
    target_dir().join("guests")
}

/// Builds what is not up to date and returns [`folder`].
pub fn build_all() -> Result<PathBuf> {
    bail!("the guest toolchain is not here yet")
}

/// Runs the unit tests of the plugins' pure parts on this machine.
pub fn test_natively() -> Result<()> {
    bail!("there are no plugins yet")
}
