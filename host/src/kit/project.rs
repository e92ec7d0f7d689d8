//! A new project from an embedded template. `host/docs/plugins/templates.md` has the rules.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use include_dir::{Dir, DirEntry, File, include_dir};

use super::words;

/// One folder a language.
static TEMPLATES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../plugins/templates");
static WIT: Dir = include_dir!("$CARGO_MANIFEST_DIR/../wit");
static RUST_SDK: Dir = include_dir!("$CARGO_MANIFEST_DIR/../plugins/sdk");

/// What the templates call themselves.
const NAME: &str = "my-plugin";
const SNAKE_NAME: &str = "my_plugin";

/// Where the Go template's `build.sh` expects the adapter from WASI 0.1 to 0.2.
const ADAPTER: &str = "bindings/wasi_snapshot_preview1.reactor.wasm";

const RUST_SDK_FOLDER: &str = "outhaul-plugin";

#[derive(Debug, thiserror::Error)]
pub enum NewError {
    #[error("{0:?} can't be a plugin's name: {1}")]
    Name(String, &'static str),
    #[error("there is no template for the language {language:?}; there are {known}")]
    Language { language: String, known: String },
    #[error("{} exists and is not an empty folder; name another with  --dir", .0.display())]
    Occupied(PathBuf),
    #[error("{} can't be written: {}", .0.display(), .1)]
    Unwritable(PathBuf, io::Error),
}

/// The languages there are templates for, in the order of their names.
pub fn languages() -> Vec<&'static str> {
    let mut names: Vec<_> = TEMPLATES.dirs().filter_map(|dir| dir.path().to_str()).collect();
    names.sort_unstable();
    names
}

/// Writes a project to `folder` and returns the files it consists of, as paths inside it.
pub fn create(language: &str, name: &str, folder: &Path) -> Result<Vec<PathBuf>, NewError> {
    words::check_name(name).map_err(|why| NewError::Name(name.to_owned(), why))?;
    let template = TEMPLATES.dirs().find(|dir| dir.path() == Path::new(language));
    let template = template
        .ok_or_else(|| NewError::Language { language: language.to_owned(), known: languages().join(", ") })?;
    if !is_free(folder) {
        return Err(NewError::Occupied(folder.to_owned()));
    }
    let mut written = Vec::new();
    let mut put = |path: PathBuf, contents: &[u8]| {
        let whole = folder.join(&path);
        write(&whole, contents).map_err(|error| NewError::Unwritable(whole, error))?;
        written.push(path);
        Ok(())
    };
    for file in files(template) {
        let path = file.path().strip_prefix(language).expect("the template's folder has its name");
        put(renamed(path, name), &filled(file.contents(), name))?;
    }
    if language == "go" {
        let adapter = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
        put(ADAPTER.into(), adapter)?;
    }
    for (path, file) in contract(language) {
        put(path, file.contents())?;
    }
    written.sort_unstable();
    Ok(written)
}

fn is_free(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn files(dir: &'static Dir) -> Vec<&'static File<'static>> {
    let of_entry = |entry: &'static DirEntry| match entry {
        DirEntry::Dir(dir) => files(dir),
        DirEntry::File(file) => vec![file],
    };
    dir.entries().iter().flat_map(of_entry).collect()
}

/// A file called `.gitignore` in a template would hold for this repository too.
fn renamed(path: &Path, name: &str) -> PathBuf {
    let path = path.to_str().expect("templates have plain names");
    let path = PathBuf::from(replaced(path, name));
    if path.file_name().is_some_and(|file| file == "gitignore") {
        return path.with_file_name(".gitignore");
    }
    path
}

/// What is not text is copied as it is.
fn filled<'a>(contents: &'a [u8], name: &str) -> Cow<'a, [u8]> {
    match std::str::from_utf8(contents) {
        Ok(text) => Cow::Owned(replaced(text, name).into_bytes()),
        Err(_) => Cow::Borrowed(contents),
    }
}

fn replaced(text: &str, name: &str) -> String {
    text.replace(NAME, name).replace(SNAKE_NAME, &name.replace('-', "_"))
}

/// The contract as the language's tools want it. Rust's comes as a crate, which holds the WIT.
fn contract(language: &str) -> Vec<(PathBuf, &'static File<'static>)> {
    let wit = files(&WIT).into_iter();
    if language != "rust" {
        return wit.filter_map(|file| Some((wit_path(file.path())?, file))).collect();
    }
    let sdk = Path::new(RUST_SDK_FOLDER);
    let wit = wit.map(|file| (sdk.join("wit").join(file.path()), file));
    let code = files(&RUST_SDK).into_iter().filter(|file| !file.path().starts_with("wit"));
    wit.chain(code.map(|file| (sdk.join(file.path()), file))).collect()
}

/// Where a file of the repository's `wit/` belongs in a project: below `wit/deps`, a folder for each
/// package, as bindings generators expect it. The project's own world stays beside `deps`.
fn wit_path(path: &Path) -> Option<PathBuf> {
    let package = match path.parent()?.to_str()? {
        "" => return None,
        "deps" => path.file_stem()?.to_str()?,
        package => package,
    };
    Some(Path::new("wit/deps").join(package).join(path.file_name()?))
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let is_script = path.extension().is_some_and(|extension| extension == "sh");
    let mode = if is_script { 0o755 } else { 0o644 };
    fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(contents)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn create_all(name: &str) -> Vec<(&'static str, tempfile::TempDir)> {
        let project = |language| {
            let folder = tempfile::tempdir().unwrap();
            create(language, name, folder.path()).unwrap_or_else(|error| panic!("{language}: {error}"));
            (language, folder)
        };
        languages().into_iter().map(project).collect()
    }

    #[test]
    fn every_template_has_what_an_author_needs_under_the_plugins_own_name() {
        assert!(languages().contains(&"rust"), "{:?}", languages());
        for (language, folder) in create_all("order-sink") {
            let has = |path: &str| folder.path().join(path).exists();
            for path in ["build.sh", "settings.schema.json", "README.md", ".gitignore", "cases"] {
                assert!(has(path), "{language} lacks {path}");
            }
            let mode = fs::metadata(folder.path().join("build.sh")).unwrap().permissions().mode();
            assert_eq!(mode & 0o111, 0o111, "{language}: build.sh can be run");
            let cases = fs::read_dir(folder.path().join("cases")).unwrap();
            assert!(cases.flatten().any(|case| case.path().extension().is_some_and(|it| it == "toml")));
            let build = fs::read_to_string(folder.path().join("build.sh")).unwrap();
            assert!(build.contains("order-sink.wasm"), "{language}: build.sh makes NAME.wasm");
        }
    }

    #[test]
    fn nothing_of_the_templates_own_name_is_left() {
        for (language, folder) in create_all("order-sink") {
            for path in all_files(folder.path()) {
                let text = fs::read_to_string(&path).unwrap_or_default() + path.to_str().unwrap();
                let is_left = text.contains(NAME) || text.contains(SNAKE_NAME);
                assert!(!is_left, "{language}: {}", path.display());
            }
        }
    }

    #[test]
    fn the_contract_lies_where_bindings_generators_look_for_it() {
        for (language, folder) in create_all("order-sink") {
            if language == "rust" {
                continue;
            }
            for package in ["delivery", "log", "secrets", "net", "sql", "http", "io", "clocks"] {
                let path = format!("wit/deps/{package}/{package}.wit");
                assert!(folder.path().join(&path).is_file(), "{language} lacks {path}");
            }
            assert!(folder.path().join("wit/world.wit").is_file(), "{language} has a world of its own");
        }
    }

    #[test]
    fn a_rust_project_has_the_sdk_and_the_contract_in_it_once() {
        let folder = tempfile::tempdir().unwrap();
        let written = create("rust", "order-sink", folder.path()).unwrap();
        for path in ["Cargo.toml", "src/lib.rs", "wit/delivery/delivery.wit", "wit/deps/http.wit"] {
            assert!(written.contains(&Path::new(RUST_SDK_FOLDER).join(path)), "{path}: {written:?}");
        }
        let once = written.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(once, written.len());
    }

    #[test]
    fn a_folder_with_something_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine.txt"), "kept").unwrap();
        let error = create("rust", "order-sink", folder.path()).unwrap_err();
        assert!(matches!(error, NewError::Occupied(_)), "{error}");
        assert_eq!(all_files(folder.path()).len(), 1);
    }

    #[test]
    fn an_unknown_language_is_told_the_known_ones() {
        let error = create("cobol", "order-sink", Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().contains("rust"), "{error}");
    }

    fn all_files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        entries.flat_map(|path| if path.is_dir() { all_files(&path) } else { vec![path] }).collect()
    }
}
