//! Builds the plugin templates of each language, and the tests' guests in it, as their authors would:
//! a copy of the template, the WIT beside it, and `build.sh`.

pub mod bindings;
mod c;
mod fixtures;
mod go;
mod js;
mod python;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{guests, setup, target_dir, workspace_root};

/// A language other than Rust, whose projects have a compiler of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    Go,
    C,
    Python,
    Js,
}

/// What a build finds besides this machine's own programs.
#[derive(Hash)]
pub struct Toolchain {
    /// What it consists of; a change of it builds all anew.
    pub version: String,
    /// Folders in front of `PATH`.
    pub path: Vec<PathBuf>,
    pub variables: Vec<(&'static str, OsString)>,
}

impl Language {
    pub const ALL: [Self; 4] = [Self::Go, Self::C, Self::Python, Self::Js];

    /// Its folder below `plugins/templates` and `tests/guests`.
    fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::C => "c",
            Self::Python => "python",
            Self::Js => "js",
        }
    }

    /// Installs what is missing, in the versions that the project pins, below `target/tools`.
    fn toolchain(self, project: &Project) -> Result<Toolchain> {
        match self {
            Self::Go => go::toolchain(),
            Self::C => c::toolchain(),
            Self::Python => python::toolchain(&project.tools, project.text(python::PINS)?),
            Self::Js => js::toolchain(&project.tools, project.text(js::PINS)?),
        }
    }

    /// The file of a project that pins its tools, if they are not this machine's own.
    fn pins(self) -> Option<&'static str> {
        match self {
            Self::Go | Self::C => None,
            Self::Python => Some(python::PINS),
            Self::Js => Some(js::PINS),
        }
    }
}

/// Builds what is not up to date: the template as `template-LANG.wasm`, each folder `NAME` of
/// `tests/guests/LANG` as `NAME-LANG.wasm`, and the fixtures of the contract that are not committed as
/// `contract-VERSION-LANG.wasm`.
pub fn build(languages: &[Language]) -> Result<PathBuf> {
    fs::create_dir_all(guests::folder())?;
    for &language in languages {
        for project in projects(language)? {
            let toolchain = language.toolchain(&project)?;
            project.build(&toolchain).with_context(|| format!("building {}", project.component))?;
        }
    }
    Ok(guests::folder())
}

/// The tools that the template of a language is built with.
pub fn template_toolchain(language: Language) -> Result<Toolchain> {
    language.toolchain(&template(language)?)
}

pub use fixtures::rust as rust_fixtures;
pub use go::workspace as go_workspace;

/// One component: a template, and for a guest the files that take the place of the template's.
struct Project {
    component: String,
    folder: PathBuf,
    /// Where its tools are, below `target/tools`.
    tools: String,
    /// By the path inside the project.
    files: BTreeMap<PathBuf, Vec<u8>>,
}

fn projects(language: Language) -> Result<Vec<Project>> {
    let template = template(language)?;
    let mut projects = Vec::new();
    let guests = workspace_root().join("tests/guests").join(language.name());
    for guest in sorted_entries(&guests)? {
        let guest_name = guest.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut files = template.files.clone();
        read_all(&guest, Path::new(""), &mut files)?;
        projects.push(Project {
            component: format!("{guest_name}-{}", language.name()),
            folder: builds(language).join(guest_name),
            tools: template.tools.clone(),
            files,
        });
    }
    projects.extend(fixtures::projects(language, &template)?);
    projects.insert(0, template);
    Ok(projects)
}

fn template(language: Language) -> Result<Project> {
    let name = language.name();
    let mut files = wit()?;
    read_all(&workspace_root().join("plugins/templates").join(name), Path::new(""), &mut files)?;
    if language == Language::Go {
        files.extend(go::additions()?);
    }
    let component = format!("template-{name}");
    Ok(Project { component, folder: builds(language).join("my-plugin"), tools: name.to_owned(), files })
}

fn builds(language: Language) -> PathBuf {
    target_dir().join("templates").join(language.name())
}

impl Project {
    fn text(&self, path: &str) -> Result<&str> {
        let found = self.files.get(Path::new(path));
        let found = found.with_context(|| format!("{} has no {path}", self.component))?;
        Ok(std::str::from_utf8(found)?)
    }

    fn build(&self, toolchain: &Toolchain) -> Result<()> {
        let stamp = self.folder.with_extension("stamp");
        let digest = self.digest(toolchain);
        let published = guests::folder().join(format!("{}.wasm", self.component));
        if published.is_file() && fs::read_to_string(&stamp).is_ok_and(|last| last == digest) {
            return Ok(());
        }
        bindings::check(self)?;
        println!("templates: building {}", self.component);
        self.write()?;
        self.run_build(toolchain, &[])?;
        guests::publish_file(&self.folder.join("my-plugin.wasm"), &self.component)?;
        Ok(fs::write(&stamp, digest)?)
    }

    fn run_build(&self, toolchain: &Toolchain, arguments: &[&str]) -> Result<()> {
        let mut build = Command::new("bash");
        build
            .arg("build.sh")
            .args(arguments)
            .current_dir(&self.folder)
            .env("PATH", setup::path_with(&toolchain.path)?);
        build.envs(toolchain.variables.iter().map(|(name, value)| (name, value)));
        let status = build.status().context("starting bash")?;
        if !status.success() {
            bail!("{} failed with {status}", self.folder.join("build.sh").display());
        }
        Ok(())
    }

    /// A folder of its own, without what an earlier version of the sources left in it.
    fn write(&self) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        for (path, content) in &self.files {
            let path = self.folder.join(path);
            fs::create_dir_all(path.parent().context("a file has no folder")?)?;
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    fn digest(&self, toolchain: &Toolchain) -> String {
        let mut hasher = DefaultHasher::new();
        self.files.hash(&mut hasher);
        toolchain.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// Writes the Rust template's project and returns its folder. It holds the SDK, as `outhaul plugin new`
/// lays it out, and begins with the versions that the plugins are locked to. What did not change is left
/// alone, so that cargo builds nothing again.
pub fn rust_project() -> Result<PathBuf> {
    let plugins = workspace_root().join("plugins");
    let mut files = BTreeMap::new();
    read_all(&plugins.join("templates/rust"), Path::new(""), &mut files)?;
    read_all(&plugins.join("sdk"), Path::new("outhaul-plugin"), &mut files)?;
    let project = target_dir().join("templates/rust/my-plugin");
    let lock = project.join("Cargo.lock");
    if !lock.exists() {
        files.insert("Cargo.lock".into(), fs::read(plugins.join("Cargo.lock"))?);
    }
    for (path, content) in &files {
        write_changed(&project.join(path), content)?;
    }
    Ok(project)
}

fn write_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == *content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file has no folder")?)?;
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// The contract, laid out as `outhaul plugin new` does: each package in a folder of `wit/deps`.
fn wit() -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let source = workspace_root().join("wit");
    let mut files = BTreeMap::new();
    for path in sorted_entries(&source)?.into_iter().filter(|path| path.is_dir()) {
        let name = path.file_name().unwrap_or_default();
        if name != "deps" {
            read_all(&path, &Path::new("wit/deps").join(name), &mut files)?;
            continue;
        }
        for package in sorted_entries(&path)? {
            let folder = Path::new("wit/deps").join(package.file_stem().unwrap_or_default());
            files.insert(folder.join(package.file_name().unwrap_or_default()), fs::read(&package)?);
        }
    }
    Ok(files)
}

fn read_all(folder: &Path, inside: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for path in sorted_entries(folder)? {
        let inside = inside.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            read_all(&path, &inside, files)?;
        } else {
            let content = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            files.insert(inside, content);
        }
    }
    Ok(())
}

fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
