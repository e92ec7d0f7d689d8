//! What serde says of a wrong value, in words that name no type of this program: what to write, with an
//! example that the schema gives.

use serde_json::Value;

use super::read::json_schema;

/// Keys of an example, where none is required.
const KEYS_SHOWN: usize = 3;

/// The message with its fix. `key` is where it stands, as in `destination.hook.canary`.
pub fn plain(message: &str, key: &str) -> String {
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("the key {field} is missing; add it");
    }
    match message.rsplit_once(", expected ") {
        Some((found, expected)) => format!("{found}, expected {}", expectation(expected, key)),
        None => message.to_owned(),
    }
}

fn expectation(expected: &str, key: &str) -> String {
    let whole = |least: &str, most: u128| format!("a whole number from {least} to {most}");
    match expected.split_once(' ') {
        Some(("struct", name)) => return table(name, key),
        Some(("enum", name)) => return one_of(name),
        _ => {}
    }
    match expected {
        "u8" => whole("0", u8::MAX.into()),
        "u16" => whole("0", u16::MAX.into()),
        "u32" => whole("0", u32::MAX.into()),
        "u64" | "usize" => whole("0", i64::MAX as u128),
        "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list, as in  [ … ]".to_owned(),
        "a map" => "a table, as in  { … }".to_owned(),
        "path string" => "a path".to_owned(),
        other => other.to_owned(),
    }
}

/// `a table, as in  canary = { component = "…", share = "5%" }`.
fn table(name: &str, key: &str) -> String {
    let schema = json_schema();
    let Some(found) = schema.pointer(&format!("/$defs/{name}")) else { return "a table".to_owned() };
    let known = found.get("properties").and_then(Value::as_object);
    let required: Vec<&str> = found
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let shown: Vec<String> = known
        .into_iter()
        .flatten()
        .filter(|(key, _)| required.is_empty() || required.contains(&key.as_str()))
        .take(KEYS_SHOWN)
        .map(|(key, of_key)| format!("{key} = {}", example(&schema, of_key)))
        .collect();
    let last = key.rsplit('.').next().unwrap_or_default();
    // A place in a list is no key.
    let head =
        if last.is_empty() || last.parse::<usize>().is_ok() { String::new() } else { format!("{last} = ") };
    format!("a table, as in  {head}{{ {} }}", shown.join(", "))
}

fn one_of(name: &str) -> String {
    let schema = json_schema();
    let words = schema.pointer(&format!("/$defs/{name}/enum")).and_then(Value::as_array);
    let words: Vec<String> = words.into_iter().flatten().map(Value::to_string).collect();
    if words.is_empty() { "one of its words".to_owned() } else { words.join(" or ") }
}

fn example(root: &Value, schema: &Value) -> String {
    if let Some(example) = schema.pointer("/examples/0") {
        return example.to_string();
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return root
            .pointer(target.trim_start_matches('#'))
            .map_or_else(|| "…".to_owned(), |at| example(root, at));
    }
    if let Some(choices) = ["anyOf", "oneOf", "allOf"].iter().find_map(|word| schema.get(*word)?.as_array()) {
        return choices.first().map_or_else(|| "…".to_owned(), |first| example(root, first));
    }
    if let Some(word) = schema.pointer("/enum/0") {
        return word.to_string();
    }
    let kind = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    match kind {
        Some("string") => "\"…\"",
        Some("integer" | "number") => "1",
        Some("boolean") => "true",
        Some("array") => "[ … ]",
        Some("object") => "{ … }",
        _ => "…",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_config_has_an_example_and_no_name_of_a_type() {
        let schema = json_schema();
        for (name, of_type) in schema["$defs"].as_object().unwrap() {
            if of_type["type"] != "object" {
                continue;
            }
            let told = plain(&format!("invalid type: integer `1`, expected struct {name}"), "a.b");
            assert!(told.starts_with("invalid type: integer `1`, expected a table, as in  b = { "), "{told}");
            assert!(!told.contains(&format!("struct {name}")) && told.contains(" = "), "{told}");
        }
    }
}
