//! C: `zig cc`, a clang with a C library for WebAssembly, and `wasm-tools`, both from PyPI.

use anyhow::Result;

use super::Toolchain;
use crate::setup;

const ZIG: &str = "ziglang==0.17.1";

pub fn toolchain() -> Result<Toolchain> {
    let wasm_tools = setup::python_packages("wasm-tools", &[setup::WASM_TOOLS])?;
    let zig = setup::python_packages("zig", &[ZIG])?;
    let version = format!("{ZIG} {}", setup::WASM_TOOLS);
    Ok(Toolchain { version, path: vec![wasm_tools, zig], variables: Vec::new() })
}
