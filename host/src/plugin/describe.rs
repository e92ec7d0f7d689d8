//! What a plugin says of itself: by its export `describe`, or in a file beside the component.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bindings::describe as wit;
use super::engine::Inner;
use super::instance::classify;
use super::loaded::{Parts, Said, run_on};
use super::{state, text};
use crate::domain::HostFailure;

/// A plugin that needs longer to say its name is broken; a large runtime starts in less.
const BUDGET: Duration = Duration::from_secs(5);

const NAME_BYTES_MAX: usize = 128;
const NEED_NAME_BYTES_MAX: usize = 255;
const PURPOSE_BYTES_MAX: usize = 1 << 10;
const NEEDS_MAX: usize = 64;
const USES_MAX: usize = 16;
const ATTRIBUTES_MAX: usize = 64;
const SCHEMA_BYTES_MAX: usize = 256 << 10;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a plugin says of itself. In `plugin.toml` the fields have the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Description {
    pub name: String,
    pub version: String,
    /// A JSON Schema (2020-12) of `settings`; empty if it says none.
    #[serde(default)]
    pub settings_schema: String,
    #[serde(default)]
    pub needs: Vec<Need>,
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

/// A capability a plugin needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Need {
    /// `http`, `secret`, `net` or `sql`.
    pub capability: String,
    /// Which one; empty where the settings say.
    #[serde(default)]
    pub name: String,
    /// What the config must allow it for: of a secret, the algorithms it signs by, or `reveal`.
    #[serde(default)]
    pub uses: Vec<String>,
    /// The plugin works without it.
    #[serde(default)]
    pub optional: bool,
    /// One sentence: what for.
    #[serde(default)]
    pub purpose: String,
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

/// Asks the component on an instance of its own, which has no grants and is not configured. Where it
/// exports no `describe`, the file beside it speaks.
pub async fn describe(runtime: &Inner, bare: Arc<Parts>, component: &Path) -> Said {
    if !bare.contract.exports().describe {
        let component = component.to_owned();
        let read = runtime.guests.handle().spawn_blocking(move || read_file(&component)).await;
        return read.unwrap_or_else(|error| Err(format!("plugin.toml: {error}")));
    }
    let budget = BUDGET.min(bare.limits.call);
    let deadline = runtime.clock.since_boot() + budget;
    let asked = tokio::time::timeout(budget, ask(bare, deadline));
    let said = match run_on(runtime.guests.handle(), asked).await {
        Ok(Ok(Ok(said))) => said,
        Ok(Ok(Err((HostFailure::Deadline, _))) | Err(_)) => {
            return Err(format!("describe took longer than {} ms", budget.as_millis()));
        }
        Ok(Ok(Err((_, message)))) => return Err(format!("describe: {message}")),
        Err(error) => return Err(format!("describe: the host failed while it ran: {error}")),
    };
    let needs = said.needs.into_iter().map(|need| Need {
        capability: need.capability,
        name: need.name,
        uses: need.uses,
        optional: need.optional,
        purpose: need.purpose,
        attributes: need.attributes.into_iter().collect(),
    });
    let description = Description {
        name: said.name,
        version: said.version,
        settings_schema: said.settings_schema,
        needs: needs.collect(),
        attributes: said.attributes.into_iter().collect(),
    };
    bounded(description).map(Some).map_err(|problem| format!("describe: {problem}"))
}

async fn ask(bare: Arc<Parts>, deadline: Duration) -> Result<wit::Description, (HostFailure, String)> {
    let mut store = state::store(bare.contract.engine(), &bare, deadline);
    let said = match bare.contract.instantiate(&mut store).await {
        Ok(guest) => {
            state::arm(&mut store, deadline);
            let describe = guest.describe.expect("it exports describe");
            describe.call_describe(&mut store).await
        }
        Err(error) => Err(error),
    };
    said.map_err(|error| classify(&mut store, &error))
}

/// `NAME.plugin.toml` beside `NAME.wasm`, for a folder of several, or else `plugin.toml`.
pub fn description_files(component: &Path) -> [PathBuf; 2] {
    [component.with_extension("plugin.toml"), component.with_file_name("plugin.toml")]
}

fn read_file(component: &Path) -> Said {
    let Some(path) = description_files(component).into_iter().find(|path| path.is_file()) else {
        return Ok(None);
    };
    let wrong = |why: String| format!("{}: {why}", path.display());
    let bytes = path.metadata().map_err(|error| wrong(format!("it can't be read: {error}")))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(format!("it has {bytes} bytes, and a description at most {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(format!("it can't be read: {error}")))?;
    // The error of the parser shows the line, over several.
    let description =
        toml::from_str(&text).map_err(|error| wrong(text::word(error.to_string().trim(), 1 << 10)))?;
    bounded(description).map(Some).map_err(wrong)
}

/// Texts are cut to what people read; what programs read must fit whole.
fn bounded(said: Description) -> Result<Description, String> {
    let whole = |what: &str, given: String, bytes_max: usize| {
        let is_good = !given.is_empty() && given.len() <= bytes_max && !given.chars().any(char::is_control);
        let problem = || format!("{what} must have 1 to {bytes_max} bytes and no control characters");
        is_good.then_some(given).ok_or_else(problem)
    };
    let most = |what: &str, found: usize, max: usize| match found <= max {
        true => Ok(()),
        false => Err(format!("it has {found} {what}, and at most {max} are read")),
    };
    most("bytes of settings-schema", said.settings_schema.len(), SCHEMA_BYTES_MAX)?;
    most("needs", said.needs.len(), NEEDS_MAX)?;
    most("attributes", said.attributes.len(), ATTRIBUTES_MAX)?;
    let schema = &said.settings_schema;
    if !schema.is_empty()
        && !serde_json::from_str(schema).is_ok_and(|json: serde_json::Value| json.is_object())
    {
        return Err("settings-schema is not a JSON object; give a JSON Schema, or an empty text".to_owned());
    }
    let needs = said.needs.into_iter().map(|need| {
        let name = match need.name.is_empty() {
            true => need.name,
            false => whole("the name of a need", need.name, NEED_NAME_BYTES_MAX)?,
        };
        most("uses of a need", need.uses.len(), USES_MAX)?;
        most("attributes of a need", need.attributes.len(), ATTRIBUTES_MAX)?;
        let uses = need.uses.into_iter().map(|one| whole("a use of a need", one, NAME_BYTES_MAX));
        Ok(Need {
            capability: whole("the capability of a need", need.capability, NAME_BYTES_MAX)?,
            name,
            uses: uses.collect::<Result<_, String>>()?,
            optional: need.optional,
            purpose: text::word(&need.purpose, PURPOSE_BYTES_MAX),
            attributes: words(need.attributes),
        })
    });
    Ok(Description {
        name: whole("name", said.name, NAME_BYTES_MAX)?,
        version: whole("version", said.version, NAME_BYTES_MAX)?,
        needs: needs.collect::<Result<_, String>>()?,
        attributes: words(said.attributes),
        settings_schema: said.settings_schema,
    })
}

fn words(attributes: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let word = |(name, value): (String, String)| {
        (text::word(&name, NAME_BYTES_MAX), text::word(&value, PURPOSE_BYTES_MAX))
    };
    attributes.into_iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Said {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
        read_file(&folder.path().join("stock.wasm"))
    }

    #[test]
    fn a_plugin_toml_beside_the_component_has_the_same_fields() {
        let text = "name = \"stock\"\nversion = \"1.2.3\"\nsettings-schema = '{\"type\":\"object\"}'\n\
                    [[needs]]\ncapability = \"sql\"\nname = \"stock\"\noptional = true\npurpose = \"the ledger\"\n\
                    [attributes]\nlanguage = \"c\"";
        let said = read("plugin.toml", text).unwrap().unwrap();
        let need = Need {
            capability: "sql".into(),
            name: "stock".into(),
            optional: true,
            purpose: "the ledger".into(),
            ..Need::default()
        };
        assert_eq!((said.name.as_str(), said.version.as_str()), ("stock", "1.2.3"));
        assert_eq!((said.needs, said.attributes["language"].as_str()), (vec![need], "c"));
        assert_eq!(read("stock.plugin.toml", text).unwrap().unwrap().name, "stock");
        assert_eq!(read("other.plugin.toml", text), Ok(None));
    }

    #[test]
    fn a_description_that_cannot_be_used_is_refused_with_the_file_and_the_reason() {
        for (text, word) in [
            ("name = \"a\"\nversion = \"1\"\nnedes = []", "nedes"),
            ("name = \"a\"", "version"),
            ("name = \"\"\nversion = \"1\"", "1 to 128 bytes"),
            ("name = \"a\\nb\"\nversion = \"1\"", "no control characters"),
            ("name = \"a\"\nversion = \"1\"\nsettings-schema = \"[]\"", "not a JSON object"),
            ("name = \"a\"\nversion = \"1\"\n[[needs]]\ncapability = \"\"", "capability"),
        ] {
            let error = read("plugin.toml", text).unwrap_err();
            assert!(error.contains("plugin.toml: ") && error.contains(word), "{error}");
        }
        let schema = format!("{{\"x\":\"{}\"}}", "x".repeat(SCHEMA_BYTES_MAX));
        let error = bounded(Description { settings_schema: schema, ..Description::default() }).unwrap_err();
        assert!(error.contains("at most 262144"), "{error}");
    }
}
