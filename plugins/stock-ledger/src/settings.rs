//! The destination's `settings` table. `settings.schema.json` says the same to people and tools.

use outhaul_ledger::{Ledger, Name};
use serde::Deserialize;

pub const SCHEMA: &str = include_str!("../settings.schema.json");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A database the destination is granted, by its name.
    pub database: String,
    /// The plugin creates its tables where they do not exist.
    #[serde(default)]
    pub create_tables: bool,
    /// Stock may fall below zero.
    #[serde(default)]
    pub allow_negative: bool,
    /// Topics that put stock in, as routes name them; all others take it out.
    #[serde(default)]
    pub add: Vec<String>,
    #[serde(default)]
    pub payload: Payload,
    #[serde(default)]
    pub stock: Stock,
    #[serde(default = "default_ledger")]
    pub ledger: Ledger,
}

fn default_ledger() -> Ledger {
    Ledger::named("stock_ledger")
}

/// Where an event's payload holds what is moved: JSON Pointers (RFC 6901).
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Payload {
    /// An array of items; without it, the payload is one.
    pub items: Option<String>,
    /// In an item.
    pub sku: String,
    /// In an item.
    pub quantity: String,
}

/// The table of stock, a row for each SKU.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Stock {
    pub table: Name,
    pub sku: Name,
    pub quantity: Name,
}

impl Default for Payload {
    fn default() -> Self {
        Self { items: None, sku: "/sku".to_owned(), quantity: "/quantity".to_owned() }
    }
}

impl Default for Stock {
    fn default() -> Self {
        Self { table: Name::of("stock"), sku: Name::of("sku"), quantity: Name::of("quantity") }
    }
}

impl Settings {
    pub fn adds(&self, topic: &str) -> bool {
        self.add.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) if beginning.is_empty() || beginning.ends_with('.') => {
                topic.starts_with(beginning)
            }
            _ => pattern == topic,
        })
    }

    /// What is wrong though each part has the right type: pointers and messages.
    pub fn problems(&self) -> Vec<(String, String)> {
        let pointers = [
            ("/payload/items", self.payload.items.as_deref().unwrap_or_default()),
            ("/payload/sku", &self.payload.sku),
            ("/payload/quantity", &self.payload.quantity),
        ];
        let wrong = pointers.into_iter().filter(|(_, given)| !given.is_empty() && !given.starts_with('/'));
        wrong
            .map(|(pointer, given)| {
                (pointer.to_owned(), format!("{given:?} is no JSON Pointer; write \"/{given}\""))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_that_put_stock_in_are_matched_as_routes_are() {
        let settings: Settings =
            serde_json::from_str(r#"{"database":"d","add":["stock.received","return.*"]}"#).unwrap();
        for (topic, adds) in [
            ("stock.received", true),
            ("return.a.b", true),
            ("returned", false),
            ("shipment.requested", false),
        ] {
            assert_eq!(settings.adds(topic), adds, "{topic}");
        }
    }

    #[test]
    fn a_pointer_without_its_slash_is_told_so() {
        let settings: Settings = serde_json::from_str(r#"{"database":"d","payload":{"sku":"sku"}}"#).unwrap();
        let problems = settings.problems();
        assert_eq!(problems[0].0, "/payload/sku");
        assert!(problems[0].1.contains("write \"/sku\""), "{problems:?}");
    }

    #[test]
    fn the_schema_knows_every_setting() {
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        let known: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        let unknown = serde_json::from_str::<Settings>(r#"{"database":"d","x":1}"#).unwrap_err().to_string();
        for name in &known {
            assert!(unknown.contains(&format!("`{name}`")), "{name}: {unknown}");
        }
        assert_eq!(unknown.matches("`").count() / 2 - 1, known.len(), "{unknown}");
    }
}
