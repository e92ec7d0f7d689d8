//! From text to [`ConfigFile`], collecting as many problems at once as the text allows.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::file::{ConfigFile, Outbox};
use super::locate::{Located, Problem, column_of, line_of};
use super::unknown::take_unknown_keys;

pub const VERSION: u32 = 1;

/// The JSON Schema of the config file.
pub fn json_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(ConfigFile)).expect("a JSON Schema is JSON")
}

/// Parses the text; a syntax error is the only problem then, since nothing after it can be trusted.
pub fn parse(text: &str) -> Result<Located<'_>, Problem> {
    match DeTable::parse(text) {
        Ok(tree) => Ok(Located::new(text, tree.into_inner())),
        Err(error) => {
            let at = error.span().map(|span| span.start);
            let line = at.map_or(0, |at| line_of(text, at));
            let column = at.map(|at| format!(" (column {})", column_of(text, at))).unwrap_or_default();
            let text = format!("this is not TOML{column}: {}", error.message());
            Err(Problem { line, key: String::new(), text })
        }
    }
}

/// The section of the database, whatever is wrong with the others.
pub fn outbox_alone(text: &str) -> Option<Outbox> {
    let mut located = parse(text).ok()?;
    take_unknown_keys(&mut located.tree, &json_schema());
    required(&mut located, "outbox")
}

/// Reads each section on its own, so that one wrong value does not hide the others. None if a
/// section could not be read; the problems say which.
pub fn read(located: &mut Located<'_>) -> Option<ConfigFile> {
    check_version(located)?;
    for (at, key, text) in take_unknown_keys(&mut located.tree, &json_schema()) {
        located.refuse_at(at, key, text);
    }
    let outbox = required(located, "outbox");
    let relay = section(located, "relay");
    let server = section(located, "server");
    let runtime = section(located, "runtime");
    let intake = section(located, "intake");
    let registry = sections(located, "registry");
    let destination = sections(located, "destination");
    let sql = sections(located, "sql");
    Some(ConfigFile {
        version: VERSION,
        outbox: outbox?,
        relay: relay?,
        server: server?,
        runtime: runtime?,
        intake: intake?,
        registry: registry?,
        destination: destination?,
        sql: sql?,
    })
}

fn check_version(located: &mut Located<'_>) -> Option<()> {
    let found =
        located.tree.get("version").map(|value| value.get_ref().as_integer().map(|n| n.as_str().to_owned()));
    match found {
        Some(Some(version)) if version == VERSION.to_string() => Some(()),
        Some(Some(version)) => {
            let text = format!(
                "the config has version {version}, this outhaul reads version {VERSION}; \
                 use the outhaul the config was written for, or rewrite it for version {VERSION}"
            );
            located.refuse(&["version"], text);
            None
        }
        _ => {
            located.refuse(&["version"], format!("the config starts with  version = {VERSION}"));
            None
        }
    }
}

fn required<T: DeserializeOwned>(located: &mut Located<'_>, name: &str) -> Option<T> {
    match located.tree.get(name).cloned() {
        Some(value) => value_of(located, &[name], value),
        None => {
            located.refuse(&[name], format!("the section [{name}] is missing; add it"));
            None
        }
    }
}

fn section<T: DeserializeOwned + Default>(located: &mut Located<'_>, name: &str) -> Option<T> {
    match located.tree.get(name).cloned() {
        Some(value) => value_of(located, &[name], value),
        None => Some(T::default()),
    }
}

fn sections<T: DeserializeOwned>(located: &mut Located<'_>, name: &str) -> Option<BTreeMap<String, T>> {
    let tables = match located.tree.get(name).map(Spanned::get_ref) {
        None => return Some(BTreeMap::new()),
        Some(DeValue::Table(tables)) => tables.clone(),
        Some(_) => {
            located.refuse(&[name], format!("write a section [{name}.NAME] for each"));
            return None;
        }
    };
    let mut read = BTreeMap::new();
    let mut whole = true;
    for (key, value) in tables {
        let key = key.into_inner().into_owned();
        match value_of(located, &[name, &key], value) {
            Some(value) => drop(read.insert(key, value)),
            None => whole = false,
        }
    }
    whole.then_some(read)
}

fn value_of<T: DeserializeOwned>(
    located: &mut Located<'_>,
    path: &[&str],
    value: Spanned<DeValue<'_>>,
) -> Option<T> {
    match T::deserialize(ValueDeserializer::from(value)) {
        Ok(value) => Some(value),
        Err(error) => {
            located.refuse_value(path, &error);
            None
        }
    }
}
