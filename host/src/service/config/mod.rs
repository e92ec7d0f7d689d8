//! The config file: read with places, checked as a whole, and every problem told with its line,
//! its key and its fix. A config that is not wholly right is not used at all.

mod canary;
mod database;
#[cfg(test)]
mod database_tests;
mod destination;
pub mod digest;
mod endpoint;
pub mod file;
mod locate;
mod ranges;
mod read;
#[cfg(test)]
mod sample_tests;
mod secret;
#[cfg(test)]
mod tests;
pub mod units;
mod unknown;
mod validate;
mod wording;
#[cfg(test)]
mod wording_tests;

use std::io::Read as _;
use std::path::{Path, PathBuf};

pub use file::ConfigFile;
pub use locate::{Problem, Problems};
pub use read::json_schema;
pub use secret::{SecretRef, UrlRef, redact_url};
pub use unknown::nearest;

use crate::plugin::Reference;

/// More than any config has; what has no end must not fill the memory.
const CONFIG_BYTES_MAX: u64 = 16 << 20;

fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > CONFIG_BYTES_MAX {
        return Err(std::io::Error::other(format!("it has more than {} MiB", CONFIG_BYTES_MAX >> 20)));
    }
    Ok(text)
}

/// A config that was read and checked. Its paths are resolved against the file's folder.
#[derive(Clone, Debug)]
pub struct Config {
    pub path: PathBuf,
    pub file: ConfigFile,
}

impl Config {
    pub fn load(path: &Path) -> Result<Self, Problems> {
        let name = path.display().to_string();
        let text = read_bounded(path).map_err(|error| {
            let text = format!("the config can't be read: {error}; name the file with --config");
            Problems { file: name.clone(), problems: vec![Problem { line: 0, key: String::new(), text }] }
        })?;
        let file =
            read_text(&text, &folder_of(path)).map_err(|problems| Problems { file: name, problems })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Nothing but the `[outbox]` of a file that can't be used otherwise, to look at its database. None if
    /// that can't be read either.
    pub fn outbox_alone(path: &Path) -> Option<Self> {
        let text = read_bounded(path).ok()?;
        let mut outbox = read::outbox_alone(&text)?;
        if let UrlRef::Secret(secret) = &mut outbox.url {
            secret.resolve(&folder_of(path));
        }
        Some(Self { path: path.to_owned(), file: ConfigFile::of(outbox) })
    }

    /// No file at all: a database by its URL, whose path starts at the working directory.
    pub fn of_database(url: &str, schema: Option<String>) -> Self {
        let outbox = file::Outbox { schema, ..file::Outbox::of(UrlRef::Text(url.to_owned())) };
        Self { path: PathBuf::from("outhaul.toml"), file: ConfigFile::of(outbox) }
    }

    /// The database's URL, read from its secret if it is one, with SQLite's path resolved.
    pub fn database_url(&self) -> Result<String, String> {
        let url = self.file.outbox.url.read().map_err(|why| format!("outbox.url: {why}"))?;
        validate::check_url(&url).map_err(|why| format!("outbox.url: {why}"))?;
        Ok(resolve_sqlite(&url, &folder_of(&self.path)))
    }

    pub fn routes_digest(&self) -> String {
        digest::of_routes(&self.file)
    }
}

/// Where the relative paths of a config file start.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Reads and checks a config text whose relative paths start at `folder`.
pub fn read_text(text: &str, folder: &Path) -> Result<ConfigFile, Vec<Problem>> {
    let mut located = read::parse(text).map_err(|problem| vec![problem])?;
    let file = read::read(&mut located);
    if let Some(file) = &file {
        validate::validate(file, &mut located);
    }
    match file {
        Some(mut file) if located.problems.is_empty() => {
            resolve_paths(&mut file, folder);
            Ok(file)
        }
        _ => {
            located.problems.sort_by_key(|problem| problem.line);
            Err(located.problems)
        }
    }
}

fn resolve_paths(file: &mut ConfigFile, folder: &Path) {
    if let UrlRef::Secret(secret) = &mut file.outbox.url {
        secret.resolve(folder);
    }
    if let Some(token) = &mut file.server.token {
        token.resolve(folder);
    }
    if let Some(cache) = &mut file.runtime.cache {
        *cache = folder.join(&*cache);
    }
    for registry in file.registry.values_mut() {
        registry.username.iter_mut().chain(&mut registry.password).for_each(|secret| secret.resolve(folder));
        if let Some(roots) = &mut registry.roots {
            *roots = folder.join(&*roots);
        }
    }
    for database in file.sql.values_mut() {
        match &mut database.url {
            UrlRef::Secret(secret) => secret.resolve(folder),
            UrlRef::Text(url) => *url = resolve_sqlite(url, folder),
        }
    }
    for destination in file.destination.values_mut() {
        let granted = destination.sql.iter();
        destination.databases =
            granted.filter_map(|name| Some((name.clone(), file.sql.get(name)?.clone()))).collect();
        let canary = destination.canary.as_mut();
        let canary = canary.map(|one| (&mut one.component, &mut one.registry, &mut one.signature));
        let stable = (&mut destination.component, &mut destination.registry, &mut destination.signature);
        for (component, registry, signature) in [stable].into_iter().chain(canary) {
            match Reference::parse(component) {
                Ok(reference) => *registry = file.registry.get(&reference.host).cloned().unwrap_or_default(),
                Err(_) => *component = folder.join(&*component).display().to_string(),
            }
            if let Some(signature) = signature {
                signature.key = folder.join(&signature.key);
                signature.file = folder.join(&signature.file);
            }
        }
        destination.settings.values_mut().for_each(plain_dates);
        for origin in &mut destination.http {
            origin.headers.values_mut().for_each(|header| header.resolve(folder));
            if let Some(roots) = &mut origin.roots {
                *roots = folder.join(&*roots);
            }
            if let Some(client) = &mut origin.client_cert {
                client.cert = folder.join(&client.cert);
                client.key.resolve(folder);
            }
        }
        for endpoint in destination.net.values_mut() {
            if let Some(roots) = &mut endpoint.roots {
                *roots = folder.join(&*roots);
            }
            if let Some(client) = &mut endpoint.client_cert {
                client.cert = folder.join(&client.cert);
                client.key.resolve(folder);
            }
        }
        for secret in destination.secrets.values_mut() {
            secret.keys.iter_mut().for_each(|key| key.resolve(folder));
        }
    }
}

/// TOML has dates and JSON has not: a plugin receives them as text.
fn plain_dates(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            let date = map.get("$__toml_private_datetime").and_then(Value::as_str).map(str::to_owned);
            match date {
                Some(date) => *value = Value::String(date),
                None => map.values_mut().for_each(plain_dates),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain_dates),
        _ => {}
    }
}

fn resolve_sqlite(url: &str, folder: &Path) -> String {
    let Some(rest) = url.strip_prefix("sqlite:") else { return url.to_owned() };
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    if rest.starts_with(':') || rest.is_empty() {
        return url.to_owned();
    }
    let (path, parameters) = rest.split_once('?').map_or((rest, None), |(path, rest)| (path, Some(rest)));
    let path = folder.join(path).display().to_string();
    match parameters {
        Some(parameters) => format!("sqlite:{path}?{parameters}"),
        None => format!("sqlite:{path}"),
    }
}
