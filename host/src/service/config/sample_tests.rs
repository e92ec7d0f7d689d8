//! `host/deploy/outhaul.toml` is what people copy: it stays whole, and its defaults true.

use std::path::Path;

use serde_json::Value;

use super::{json_schema, read_text};

const SAMPLE: &str = include_str!("../../../deploy/outhaul.toml");

/// Known to the reader and refused by it, so the sample leaves them out.
const NOT_IN_THIS_VERSION: [&str; 1] = ["intake"];

fn destination(text: &str) -> (Value, Value) {
    let file = read_text(text, Path::new("/x")).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let mut whole = serde_json::to_value(&file).unwrap();
    let destination = whole["destination"]["orders-webhook"].take();
    (whole, destination)
}

/// The sample with what is commented out put in.
fn everything() -> String {
    let is_config = |rest: &str| rest.starts_with('[') || rest.split(' ').nth(1) == Some("=");
    let line = |line: &'static str| line.strip_prefix("# ").filter(|rest| is_config(rest)).unwrap_or(line);
    SAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_sample_config_states_the_true_defaults() {
    let smallest = "version = 1\n[outbox]\nurl = \"sqlite:outhaul.db\"\n[destination.orders-webhook]\n\
                    component = \"plugins/http.wasm\"\ntopics = [\"order.*\"]\n";
    assert_eq!(destination(SAMPLE), destination(smallest));
}

#[test]
fn the_sample_config_shows_every_key() {
    let text = everything()
        .replace("order = \"none\"", "order = \"key\"")
        .replace("tls = false", "tls = true")
        .replace("sqlite:outhaul.db", "postgres://h/x");
    read_text(&text, Path::new("/x")).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let shown: Value = toml::from_str(&text).unwrap();
    let schema = json_schema();
    let mut missing = Vec::new();
    compare(&schema, &schema, &shown, "", &mut missing);
    assert_eq!(missing, Vec::<String>::new(), "keys that host/deploy/outhaul.toml does not show");
}

fn compare(root: &Value, schema: &Value, shown: &Value, path: &str, missing: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return compare(root, root.pointer(&reference[1..]).unwrap(), shown, path, missing);
    }
    for choice in schema["anyOf"].as_array().into_iter().flatten() {
        compare(root, choice, shown, path, missing);
    }
    if let (Some(items), Some(first)) = (schema.get("items"), shown.get(0)) {
        compare(root, items, first, &format!("{path}[]"), missing);
    }
    if let (true, Some(map)) = (schema["additionalProperties"].is_object(), shown.as_object()) {
        map.iter().for_each(|(_, one)| {
            compare(root, &schema["additionalProperties"], one, &format!("{path}.*"), missing)
        });
    }
    let is_secret = schema["maxProperties"] == 1;
    for (key, of_key) in
        schema["properties"].as_object().filter(|_| !is_secret && shown.is_object()).into_iter().flatten()
    {
        match shown.get(key) {
            Some(one) => compare(root, of_key, one, &format!("{path}.{key}"), missing),
            None if NOT_IN_THIS_VERSION.contains(&key.as_str()) => {}
            None => missing.push(format!("{path}.{key}")),
        }
    }
}
