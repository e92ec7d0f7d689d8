//! Settings given on the command line.

use serde_json::{Map, Value};

/// A JSON object.
pub fn parse(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(settings)) => Ok(settings),
        Ok(_) => Err("settings are a JSON object, such as  '{\"url\":\"https://example.com/\"}'".to_owned()),
        Err(error) => Err(format!("settings are JSON: {error}")),
    }
}
