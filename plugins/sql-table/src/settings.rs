//! The destination's `settings` table. `settings.schema.json` says the same to people and tools.

use std::collections::BTreeMap;

use outhaul_ledger::{Ledger, Name};
use serde::Deserialize;

pub const SCHEMA: &str = include_str!("../settings.schema.json");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A database the destination is granted, by its name.
    pub database: String,
    /// The plugin creates the ledger where it does not exist. Tables of the rules are never its own.
    #[serde(default)]
    pub create_tables: bool,
    #[serde(default)]
    pub ledger: Ledger,
    /// The first that names the topic is followed.
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// As routes name them.
    pub topics: Vec<String>,
    pub action: Action,
    pub table: Name,
    /// The columns that find the row: all actions but `insert` need some.
    #[serde(default)]
    pub key: Vec<Name>,
    /// Each column with where its value comes from.
    pub columns: BTreeMap<Name, Source>,
    /// An update or delete that finds no row.
    #[serde(default)]
    pub no_row: NoRow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Insert,
    Update,
    /// Inserts, or updates the row that has the key.
    Upsert,
    Delete,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoRow {
    #[default]
    Reject,
    Ignore,
}

/// Where a column's value comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "write a JSON Pointer, or a table with pointer, event or value")]
pub enum Source {
    /// A JSON Pointer into the payload, with the type JSON has.
    Pointer(String),
    Given(Given),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Given {
    /// A JSON Pointer into the payload.
    pub pointer: Option<String>,
    /// A field of the event.
    pub event: Option<Field>,
    #[serde(rename = "type")]
    pub kind: Kind,
    /// What is not in the payload is null, and not a rejection.
    pub optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    Id,
    DedupId,
    Topic,
    Key,
    Tenant,
    ContentType,
    CreatedAt,
    Sequence,
    Fence,
    Attempt,
    Payload,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What it is in JSON: text, integer, float, boolean, null; json of objects and arrays.
    #[default]
    Auto,
    Text,
    Integer,
    Float,
    Decimal,
    Boolean,
    /// RFC 3339, or microseconds since 1970.
    Timestamp,
    Json,
    Uuid,
    /// Base64.
    Bytes,
}

impl Settings {
    pub fn rule(&self, topic: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.topics.iter().any(|pattern| matches(pattern, topic)))
    }

    /// What is wrong though each part has the right type: pointers and messages.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let mut wrong =
                |place: &str, why: String| problems.push((format!("/rules/{index}/{place}"), why));
            if rule.action != Action::Insert && rule.key.is_empty() {
                wrong("key", "name the columns that find the row, as in  key = [\"id\"]".to_owned());
            }
            for name in rule.key.iter().filter(|name| !rule.columns.contains_key(name)) {
                wrong("key", format!("there is no {:?} in columns, so it has no value", name.as_str()));
            }
            if rule.action != Action::Delete && rule.columns.keys().all(|name| rule.key.contains(name)) {
                wrong("columns", "there is no column that gets a value, besides those of the key".to_owned());
            }
            for (name, source) in &rule.columns {
                if let Err(why) = source.check() {
                    wrong(&format!("columns/{}", name.as_str()), why);
                }
            }
        }
        if self.rules.is_empty() {
            problems
                .push(("/rules".to_owned(), "there is no rule, so every event would be rejected".to_owned()));
        }
        problems
    }
}

impl Source {
    fn check(&self) -> Result<(), String> {
        let pointer = match self {
            Self::Pointer(pointer) => pointer,
            Self::Given(Given { pointer: Some(pointer), event: None, .. }) => pointer,
            Self::Given(Given { pointer: None, event: Some(_), kind: Kind::Auto, .. }) => return Ok(()),
            Self::Given(Given { pointer: None, event: Some(_), .. }) => {
                return Err("a field of the event has its own type; remove  type".to_owned());
            }
            Self::Given(_) => return Err("name one of  pointer  and  event".to_owned()),
        };
        match pointer.is_empty() || pointer.starts_with('/') {
            true => Ok(()),
            false => Err(format!("{pointer:?} is no JSON Pointer; write \"/{pointer}\"")),
        }
    }
}

fn matches(pattern: &str, topic: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) if beginning.is_empty() || beginning.ends_with('.') => topic.starts_with(beginning),
        _ => pattern == topic,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn settings(rules: serde_json::Value) -> Settings {
        serde_json::from_value(serde_json::json!({ "database": "d", "rules": rules })).unwrap()
    }

    #[test]
    fn the_first_rule_that_names_the_topic_is_followed() {
        let rule = |topic: &str, table: &str| serde_json::json!({ "topics": [topic], "action": "insert", "table": table, "columns": { "a": "/a" } });
        let settings = settings(serde_json::json!([rule("a.b", "one"), rule("a.*", "two")]));
        let table = |topic: &str| settings.rule(topic).map(|rule| rule.table.as_str().to_owned());
        assert_eq!(table("a.b").as_deref(), Some("one"));
        assert_eq!(table("a.b.c").as_deref(), Some("two"));
        assert_eq!((table("ab"), table("b")), (None, None));
        assert!(settings.problems().is_empty());
    }

    #[test]
    fn a_rule_that_can_not_work_is_told_with_its_place() {
        let rule = |action: &str, key: serde_json::Value, columns: serde_json::Value| {
            settings(serde_json::json!([
                { "topics": ["*"], "action": action, "table": "t", "key": key, "columns": columns }
            ]))
        };
        use serde_json::json;
        for (settings, place, word) in [
            (rule("update", json!([]), json!({ "a": "/a" })), "/rules/0/key", "find the row"),
            (rule("update", json!(["id"]), json!({ "a": "/a" })), "/rules/0/key", "\"id\""),
            (rule("update", json!(["a"]), json!({ "a": "/a" })), "/rules/0/columns", "besides"),
            (rule("insert", json!([]), json!({ "a": "a" })), "/rules/0/columns/a", "write \"/a\""),
            (rule("insert", json!([]), json!({ "a": {} })), "/rules/0/columns/a", "one of"),
            (
                rule("insert", json!([]), json!({ "a": { "event": "id", "type": "text" } })),
                "/rules/0/columns/a",
                "type",
            ),
            (settings(json!([])), "/rules", "no rule"),
        ] {
            let problems = settings.problems();
            assert!(
                problems.iter().any(|(at, why)| at == place && why.contains(word)),
                "{place}: {problems:?}"
            );
        }
    }
}
