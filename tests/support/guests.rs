//! Where the tests' components are. `cargo xtask guests` builds them.

use std::path::PathBuf;

pub fn folder() -> PathBuf {
    std::env::var_os("OUTHAUL_GUESTS").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("tests/ is in the workspace")
            .join("target/guests")
    })
}

/// A built component by its name, such as `noop`.
pub fn guest(name: &str) -> PathBuf {
    let path = folder().join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is missing; build it with  cargo xtask guests", path.display());
    path
}

/// Where what the runtime compiled is kept between runs: a component of Python takes half a minute.
pub fn compiled() -> PathBuf {
    folder().with_file_name("guests-compiled")
}
