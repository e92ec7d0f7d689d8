//! The generated bindings that templates bring along, so that their authors need no generator. They
//! are kept in step with `wit/`: a template whose bindings are older does not build.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::{Language, Project, Toolchain};
use crate::{setup, target_dir, workspace_root};

const GENERATOR: &str = "wit-bindgen-cli@0.63.0";

/// Holds the digest of the files the bindings were made from. Only templates with bindings have it.
const STAMP: &str = "bindings/made-from";

/// Refuses bindings that were made from another contract: some of its changes would still build, and
/// the plugin would read one field for another.
pub(super) fn check(project: &Project) -> Result<()> {
    let Some(made_from) = project.files.get(Path::new(STAMP)) else {
        return Ok(());
    };
    if *made_from != digest(&project.files).into_bytes() {
        bail!("{} has bindings of another contract than wit/; run  cargo xtask bindings", project.component);
    }
    Ok(())
}

/// Generates the bindings of every template that has some, from `wit/` and the template's own world.
pub fn generate() -> Result<()> {
    let generator = install()?;
    for language in Language::ALL {
        let project = super::template(language)?;
        if !project.files.contains_key(Path::new(STAMP)) {
            continue;
        }
        let mut toolchain = language.toolchain(&project)?;
        toolchain.path.push(generator.clone());
        generate_one(language, &project, &toolchain)?;
    }
    Ok(())
}

fn generate_one(language: Language, project: &Project, toolchain: &Toolchain) -> Result<()> {
    project.write()?;
    project.run_build(toolchain, &["bindings"])?;
    let mut made = BTreeMap::new();
    super::read_all(&project.folder.join("bindings"), Path::new("bindings"), &mut made)?;
    // The adapter beside Go's bindings is an addition of the build, not a file of the template.
    made.retain(|path, _| path.extension().is_none_or(|extension| extension != "wasm"));
    made.insert(PathBuf::from(STAMP), digest(&project.files).into_bytes());
    let template = workspace_root().join("plugins/templates").join(language.name());
    fs::remove_dir_all(template.join("bindings"))?;
    for (path, content) in made {
        let path = template.join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder of the template"))?;
        fs::write(path, content)?;
    }
    println!("bindings: {}", template.join("bindings").display());
    Ok(())
}

/// Builds the generator, which takes minutes: only who changes the contract needs it.
fn install() -> Result<PathBuf> {
    let folder = target_dir().join("tools/wit-bindgen");
    println!("setup: building {GENERATOR} into {}", folder.display());
    let mut install = crate::cargo();
    install.args(["install", GENERATOR, "--no-default-features", "--features", "c,go", "--root"]);
    install.arg(&folder).env("CARGO_TARGET_DIR", target_dir().join("tools/wit-bindgen-build"));
    setup::run(&mut install)?;
    Ok(folder.join("bin"))
}

/// FNV-1a over the WIT's paths and lines, without comments. It is committed, so it can't be the standard
/// library's hash, which may change with the compiler.
fn digest(files: &BTreeMap<PathBuf, Vec<u8>>) -> String {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for &byte in text.as_bytes().iter().chain(&[0]) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for (path, content) in files.iter().filter(|(path, _)| path.starts_with("wit")) {
        add(&path.to_string_lossy());
        let text = String::from_utf8_lossy(content);
        let lines = text.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with("//")).for_each(&mut add);
    }
    format!("{digest:016x}\n")
}
