//! What a component is, imports, exports and needs, and the config lines to begin with.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use super::{producers, schema};
use crate::plugin::{Capability, Description, Inspection, LoadProblem, Need, Runtime};

#[derive(Clone, Debug, Serialize)]
pub struct Look {
    pub component: String,
    pub sha256: String,
    pub bytes: u64,
    /// The world it is built for, with its version.
    pub world: String,
    /// The author's language, if the component tells.
    pub language: Option<String>,
    pub producers: BTreeMap<String, BTreeSet<String>>,
    pub imports: Vec<Name>,
    pub exports: Vec<Name>,
    /// What it says of itself.
    pub description: Option<Description>,
    /// Why what it says can't be used.
    pub description_problem: Option<String>,
    /// A section to paste into the config.
    pub config: String,
}

/// An interface, and what it means that it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Name {
    pub name: String,
    pub meaning: &'static str,
}

/// Looks at a component. Fails, in a sentence with the fix, where it can be loaded for no destination.
pub async fn look(runtime: &Runtime, component: &Path) -> Result<Look, LoadProblem> {
    let found = runtime.inspect(component).await?;
    let bytes = std::fs::read(component).unwrap_or_default();
    let producers = producers::read(&bytes);
    let (description, description_problem) = match found.description.clone() {
        Ok(description) => (description, None),
        Err(problem) => (None, Some(problem)),
    };
    Ok(Look {
        component: component.display().to_string(),
        config: config(component, &found, description.as_ref()),
        world: world(&found.exports),
        language: producers::language(&producers),
        producers,
        imports: found.imports.iter().map(|name| named(name, IMPORTS)).collect(),
        exports: found.exports.iter().map(|name| named(name, EXPORTS)).collect(),
        sha256: found.digest,
        bytes: found.bytes,
        description,
        description_problem,
    })
}

fn world(exports: &[String]) -> String {
    let deliver = exports.iter().find_map(|name| name.strip_prefix("outhaul:delivery/deliver"));
    format!("outhaul:delivery/destination{}", deliver.unwrap_or_default())
}

/// By the longest beginning that fits.
const IMPORTS: &[(&str, &str)] = &[
    ("outhaul:delivery/types", "the contract's types"),
    ("outhaul:log/", "writes to the host's log; always there"),
    (
        "outhaul:secrets/",
        "signs with, or reads, secrets: each denied unless [destination.NAME.secrets.SECRET] grants it",
    ),
    ("outhaul:net/", "connects to endpoints of [destination.NAME.net.ENDPOINT], with TLS by the host"),
    ("outhaul:sql/", "uses databases that config names"),
    ("wasi:http/outgoing-handler", "sends HTTP requests, only to origins of [[destination.NAME.http]]"),
    ("wasi:http/", "HTTP's types"),
    ("wasi:cli/environment", "arguments and variables: there are none"),
    ("wasi:cli/exit", "ends the instance, as a trap"),
    ("wasi:cli/stdin", "standard input: empty"),
    ("wasi:cli/stdout", "standard output: becomes log records"),
    ("wasi:cli/stderr", "standard error: becomes log records, and a trap's last words"),
    ("wasi:cli/terminal", "a terminal: there is none"),
    ("wasi:clocks/", "the time"),
    ("wasi:filesystem/", "files: there are none"),
    ("wasi:io/", "streams and waiting"),
    ("wasi:random/", "random numbers"),
    ("wasi:sockets/", "sockets and names: denied unless the destination's  allow  grants them"),
];

const EXPORTS: &[(&str, &str)] = &[
    ("outhaul:delivery/deliver", "delivers events"),
    ("outhaul:delivery/batch", "takes several events in one call"),
    ("outhaul:delivery/describe", "says what it is and needs"),
    ("outhaul:delivery/check", "says whether its destination can be reached"),
    ("outhaul:delivery/tick", "keeps idle connections alive"),
    ("outhaul:delivery/close", "has a last word before an instance is dropped"),
];

fn named(name: &str, meanings: &[(&str, &'static str)]) -> Name {
    let fitting = meanings.iter().filter(|(beginning, _)| name.starts_with(beginning));
    let meaning = fitting.max_by_key(|(beginning, _)| beginning.len());
    Name { name: name.to_owned(), meaning: meaning.map_or("not used by this host", |(_, meaning)| *meaning) }
}

fn config(component: &Path, found: &Inspection, description: Option<&Description>) -> String {
    let stem = component.file_stem().unwrap_or_default().to_string_lossy();
    let name = destination_name(description.map_or(&stem, |said| &said.name));
    let mut text = format!("[destination.{name}]\n");
    let _ = writeln!(text, "component = {}", quoted(&component.display().to_string()));
    let _ = writeln!(text, "sha256 = \"{}\"", found.digest);
    text.push_str("topics = [\"*\"]\n");
    let databases = description.map(databases).unwrap_or_default();
    if !databases.is_empty() {
        let _ = writeln!(text, "sql = [{}]", databases.join(", "));
    }
    let settings = description.map(|said| schema::example(&said.settings_schema)).unwrap_or_default();
    if !settings.is_empty() {
        let _ = writeln!(text, "\n[destination.{name}.settings]");
        for (key, value) in &settings {
            let value = toml::Value::try_from(value).unwrap_or_else(|_| toml::Value::String(String::new()));
            let _ = writeln!(text, "{} = {value}", quoted_key(key));
        }
    }
    for need in description.map(|said| said.needs.as_slice()).unwrap_or_default() {
        text.push_str(&granting(&name, need));
    }
    text
}

/// The names of the databases it can't do without.
fn databases(description: &Description) -> Vec<String> {
    let is_sql = |need: &&Need| need.capability == Capability::Sql.as_str() && !need.optional;
    let needs = description.needs.iter().filter(is_sql);
    needs.map(|need| quoted(if need.name.is_empty() { "DATABASE" } else { &need.name })).collect()
}

/// The section that grants a need. One that is optional, or not to be had yet, is a comment.
fn granting(destination: &str, need: &Need) -> String {
    let name = |placeholder: &str| match need.name.as_str() {
        "" => placeholder.to_owned(),
        name => quoted_key(name),
    };
    let lines = match Capability::parse(&need.capability) {
        Some(Capability::Http) => {
            let origin = if need.name.is_empty() { "https://example.com" } else { &need.name };
            format!("[[destination.{destination}.http]]\norigin = {}", quoted(origin))
        }
        Some(Capability::Secret) => {
            let uses = match need.uses.as_slice() {
                [] => quoted("hmac-sha256"),
                uses => uses.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", "),
            };
            format!(
                "[destination.{destination}.secrets.{}]\nkeys = [{{ env = \"SECRET\" }}]\nuse = [{uses}]",
                name("SECRET")
            )
        }
        Some(Capability::Net) => {
            format!("[destination.{destination}.net.{}]\naddress = \"host:port\"", name("ENDPOINT"))
        }
        Some(Capability::Sql) => {
            let name = name("DATABASE");
            format!("[sql.{name}]\nurl = {{ env = \"DATABASE_URL\" }}")
        }
        None => format!("needs {} {}, which this host does not know", need.capability, need.name),
    };
    let is_comment = need.optional || !lines.starts_with('[');
    let purpose = one_line(&need.purpose);
    let purpose = if purpose.is_empty() { need.capability.clone() } else { purpose };
    let mut text = format!("\n# {}{purpose}\n", if need.optional { "optional: " } else { "" });
    for line in lines.lines() {
        let _ = writeln!(text, "{}{line}", if is_comment { "# " } else { "" });
    }
    text
}

/// What a destination may be called, made of what the plugin calls itself.
fn destination_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let name: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    if name.is_empty() { "plugin".to_owned() } else { name }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn quoted_key(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if is_bare { key.to_owned() } else { quoted(key) }
}

/// A comment ends at a line's end, and the plugin chose the text.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control()).collect::<Vec<_>>().join(" ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_of(description: &Description) -> String {
        let found = Inspection {
            digest: "0".repeat(64),
            bytes: 1,
            exports: vec!["outhaul:delivery/deliver@1.0.0".into()],
            imports: Vec::new(),
            optional: Default::default(),
            description: Ok(None),
        };
        config(Path::new("dir/it \"is\".wasm"), &found, Some(description))
    }

    #[test]
    fn the_config_block_is_toml_whatever_the_plugin_calls_things() {
        let need = |capability: &str, name: &str, optional| Need {
            capability: capability.into(),
            name: name.into(),
            optional,
            uses: vec!["reveal".into(), "a\"b".into()],
            purpose: "evil\n[server]\nlisten = \"0.0.0.0:1\"".into(),
            ..Need::default()
        };
        let description = Description {
            name: "my \"plugin\"".into(),
            settings_schema: r#"{"required":["a.b"],"properties":{"a.b":{"default":"x\"y"}}}"#.into(),
            needs: vec![
                need("http", "", false),
                need("secret", "a b", false),
                need("sql", "s", false),
                need("odd", "", true),
            ],
            ..Description::default()
        };
        let text = config_of(&description);
        let parsed: toml::Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(!parsed.contains_key("server"), "{text}");
        let destination = &parsed["destination"]["my--plugin-"];
        assert_eq!(destination["settings"]["a.b"].as_str(), Some("x\"y"));
        assert_eq!(destination["component"].as_str(), Some("dir/it \"is\".wasm"));
        assert_eq!(destination["sql"].as_array().map(Vec::len), Some(1));
        assert!(parsed["sql"]["s"].get("url").is_some(), "{text}");
        assert!(destination["secrets"].get("a b").is_some() && destination["http"].is_array(), "{text}");
    }

    #[test]
    fn an_interface_has_the_meaning_of_its_longest_known_beginning() {
        assert!(named("wasi:http/outgoing-handler@0.2.12", IMPORTS).meaning.contains("origins"));
        assert_eq!(named("wasi:http/types@0.2.12", IMPORTS).meaning, "HTTP's types");
        assert!(named("me:own/thing", EXPORTS).meaning.contains("not used"));
    }
}
