//! Go: the stock compiler, and `wasm-tools` from PyPI, which makes a component of its output.

use std::process::Command;

use anyhow::Result;

use super::Toolchain;
use crate::setup;

pub fn toolchain() -> Result<Toolchain> {
    setup::ensure("the Go compiler", &["golang"], || setup::which("go"))?;
    let wasm_tools = setup::python_packages("wasm-tools", &[setup::WASM_TOOLS])?;
    let go = Command::new("go").args(["env", "GOVERSION"]).output()?;
    let version = format!("{} {}", String::from_utf8_lossy(&go.stdout).trim(), setup::WASM_TOOLS);
    Ok(Toolchain { version, path: vec![wasm_tools], variables: Vec::new() })
}
