//! The fixtures of the contract's released versions, from `tests/fixtures/contract/VERSION`: the sources of a
//! language with the WIT of that version beside them. Those that are committed as compiled are left alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Language, Project, builds, go, read_all, sorted_entries};
use crate::{target_dir, workspace_root};

struct Source {
    version: String,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// What is to be built in this language, one a version.
pub(super) fn projects(language: Language, template: &Project) -> Result<Vec<Project>> {
    let mut projects = Vec::new();
    for Source { version, mut files } in sources(language.name())? {
        if language == Language::Go {
            files.extend(go::additions()?);
        }
        // Tools of another version than the template's have a folder of their own.
        let is_pinned_alike = language
            .pins()
            .is_none_or(|pins| files.get(Path::new(pins)) == template.files.get(Path::new(pins)));
        let tools =
            if is_pinned_alike { template.tools.clone() } else { format!("{}-{version}", template.tools) };
        projects.push(Project {
            component: format!("contract-{version}-{}", language.name()),
            folder: builds(language).join(format!("contract-{}", version.replace('.', "-"))),
            tools,
            files,
        });
    }
    Ok(projects)
}

/// Writes the fixtures in Rust that are to be built, and returns the name and the folder of each.
pub fn rust() -> Result<Vec<(String, PathBuf)>> {
    let mut written = Vec::new();
    for Source { version, files } in sources("rust")? {
        let folder =
            target_dir().join("templates/rust").join(format!("contract-{}", version.replace('.', "-")));
        for (path, content) in &files {
            // Beside the crate, as in the repository.
            let path =
                if path.starts_with("wit") { folder.join(path) } else { folder.join("rust").join(path) };
            super::write_changed(&path, content)?;
        }
        written.push((format!("contract-{version}-rust"), folder.join("rust")));
    }
    Ok(written)
}

fn sources(language: &str) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for folder in sorted_entries(&workspace_root().join("tests/fixtures/contract"))? {
        let source = folder.join(language);
        if !source.is_dir() || fs::exists(folder.join(format!("{language}.wasm")))? {
            continue;
        }
        let mut files = BTreeMap::new();
        read_all(&folder.join("wit"), Path::new("wit"), &mut files)?;
        read_all(&source, Path::new(""), &mut files)?;
        let version = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        sources.push(Source { version, files });
    }
    Ok(sources)
}
