//! The house rules that a compiler does not know: who may import whom, where a clock or chance may
//! be read, how long a file may grow, and what may stand at the top.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of `host/src`, and the other modules each may name.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("clock", &["domain"]),
    ("store", &["domain", "clock"]),
    ("plugin", &["domain", "clock"]),
    ("relay", &["domain", "clock", "store", "plugin"]),
    ("kit", &["domain", "clock", "plugin"]),
    ("service", &["domain", "clock", "store", "plugin", "kit", "relay"]),
    ("cli", &["domain", "clock", "store", "plugin", "kit", "relay", "service"]),
];

/// Crates that only one part of the host may know.
const OWNED_CRATES: &[(&str, &[&str])] = &[
    ("sqlx", &["store"]),
    ("libsqlite3_sys", &[]),
    ("wasmtime", &["plugin"]),
    ("wasmtime_wasi", &["plugin"]),
    ("wasmtime_wasi_http", &["plugin"]),
    ("hyper", &["plugin"]),
    ("axum", &["service"]),
    ("clap", &["cli"]),
    ("rand", &["clock"]),
];

/// What only `clock.rs` may say: time and chance are arguments everywhere else.
const CLOCK_ONLY: &[&str] =
    &["SystemTime::now", "Instant::now", "OffsetDateTime::now", "rand::", "Uuid::new_v4", "CLOCK_BOOTTIME,"];

const LINES_MAX: usize = 450;

const TOP_LEVEL: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "host",
    "migrations",
    "plugins",
    "tests",
    "wit",
];

struct Source {
    path: PathBuf,
    /// The first folder or file stem below `host/src`.
    module: String,
    /// Without comments and without the inline tests at the end of a file.
    code: String,
    lines: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_owned()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the repository can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn host_sources() -> Vec<Source> {
    let base = root().join("host/src");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file can be read");
        let relative = path.strip_prefix(&base).expect("it was found below the base");
        let first = relative.components().next().expect("it has a name").as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        let before_tests = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code = before_tests.lines().map(|line| line.split("//").next().unwrap_or_default());
        Source { module, code: code.collect::<Vec<_>>().join("\n"), lines: text.lines().count(), path }
    };
    let sources: Vec<Source> = rust_files(&base).into_iter().map(read).collect();
    assert!(sources.len() > 20, "the sources were not found below {}", base.display());
    sources
}

/// Whether `code` holds `name` as a path's first word: `name::`, `use name;`, not `my_name::`.
fn names(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|char| char.is_alphanumeric() || char == '_' || char == ':')
    })
}

#[test]
fn modules_import_only_what_the_architecture_allows() {
    let mut faults = Vec::new();
    for source in host_sources() {
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(module, _)| *module == source.module) else {
            continue;
        };
        for (other, _) in MAY_IMPORT {
            let is_named = source.code.contains(&format!("crate::{other}::"))
                || source.code.contains(&format!("crate::{other};"));
            if is_named && *other != source.module && !allowed.contains(other) {
                faults.push(format!("{}: {} may not know {other}", source.path.display(), source.module));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn each_foreign_crate_stays_with_its_owner() {
    let mut faults = Vec::new();
    for source in host_sources() {
        for (name, owners) in OWNED_CRATES {
            let is_sql_capability = ["sqlx", "libsqlite3_sys"].contains(name)
                && source.path.starts_with(root().join("host/src/plugin/capability/sql"));
            if names(&source.code, name) && !owners.contains(&source.module.as_str()) && !is_sql_capability {
                faults.push(format!("{}: only {owners:?} may name {name}", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn only_the_clock_module_reads_a_clock_or_draws_a_number() {
    let mut faults = Vec::new();
    for source in host_sources().iter().filter(|source| source.module != "clock") {
        for word in CLOCK_ONLY {
            if source.code.contains(word) {
                faults.push(format!("{}: `{word}` belongs in clock.rs", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_domain_knows_only_the_standard_library() {
    let mut faults = Vec::new();
    for source in host_sources().iter().filter(|source| source.module == "domain") {
        for line in source.code.lines().filter(|line| line.trim_start().starts_with("use ")) {
            let first = line.trim_start().trim_start_matches("use ").split("::").next().unwrap_or_default();
            if !["std", "super", "crate", "self"].contains(&first) {
                faults.push(format!("{}: {}", source.path.display(), line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn files_stay_short_enough_to_keep_in_the_head() {
    let long: Vec<String> = host_sources()
        .iter()
        .filter(|source| source.lines > LINES_MAX)
        .map(|source| format!("{}: {} lines, at most {LINES_MAX}", source.path.display(), source.lines))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn the_top_level_holds_only_what_the_house_names() {
    // What git tracks: a developer's own config or database beside it is their business.
    let listed = std::process::Command::new("git").args(["ls-files"]).current_dir(root()).output();
    let listed = String::from_utf8(listed.expect("git runs").stdout).expect("file names are UTF-8");
    let names: std::collections::BTreeSet<&str> =
        listed.lines().filter_map(|path| path.split('/').next()).collect();
    assert!(names.contains("Cargo.toml"), "git listed {names:?}");
    let strangers: Vec<&&str> =
        names.iter().filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(name)).collect();
    assert!(strangers.is_empty(), "at the top level: {strangers:?}");
}
