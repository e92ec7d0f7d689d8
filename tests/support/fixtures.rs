//! The fixtures of the contract's released versions: plugins of the past, in `tests/fixtures/contract/VERSION`.

use std::path::{Path, PathBuf};

use crate::guests::guest;

pub struct Fixture {
    /// As the folder is called.
    pub version: String,
    pub component: PathBuf,
}

/// Those in this language, of every version there is.
pub fn of_language(language: &str) -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/contract");
    let versions = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found: Vec<_> = versions
        .map(|version| version.expect("an entry can be read"))
        .filter_map(|version| {
            let name = version.file_name().into_string().expect("a version is ASCII");
            let compiled = version.path().join(format!("{language}.wasm"));
            let component = match compiled.is_file() {
                true => compiled,
                false if !version.path().join(language).is_dir() => return None,
                false => guest(&format!("contract-{name}-{language}")),
            };
            Some(Fixture { version: name, component })
        })
        .collect();
    found.sort_by(|one, other| one.version.cmp(&other.version));
    assert!(!found.is_empty(), "there is no fixture in {language}");
    found
}

/// The version of the contract that this host has, as `wit/` says it.
pub fn current_version() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/delivery/delivery.wit");
    let text = std::fs::read_to_string(file).expect("the contract can be read");
    let line =
        text.lines().find_map(|line| line.strip_prefix("package outhaul:delivery@")?.strip_suffix(';'));
    line.expect("the package has a version").to_owned()
}

/// Versions of one line are compatible: the same major number, below 1.0 the same minor one too.
pub fn line(version: &str) -> &str {
    let parts = if version.starts_with("0.") { 2 } else { 1 };
    let end = version.match_indices('.').nth(parts - 1).map_or(version.len(), |(at, _)| at);
    &version[..end]
}
