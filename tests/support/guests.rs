//! Where the tests' components are. `cargo xtask guests` builds them.

use std::path::PathBuf;

/// A built component by its name, such as `noop`.
pub fn guest(name: &str) -> PathBuf {
    let folder = std::env::var_os("OUTHAUL_GUESTS").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("tests/ is in the workspace")
            .join("target/guests")
    });
    let path = folder.join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is missing; build it with  cargo xtask guests", path.display());
    path
}
