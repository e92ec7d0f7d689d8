//! Settings against the JSON Schema a plugin gives: names, types and choices. What a schema says
//! besides is for editors, and for the plugin's own `configure`, which has the last word.

use serde_json::{Map, Value};

/// What of the settings does not fit, each with its JSON Pointer. An error is one of the schema.
pub fn problems(schema: &str, settings: &Value) -> Result<Vec<String>, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| format!("it is not JSON: {error}"))?;
    if !schema.is_object() {
        return Err("it is not a JSON object".to_owned());
    }
    let mut problems = Vec::new();
    compare(&schema, settings, "", &mut problems);
    Ok(problems)
}

fn compare(schema: &Value, value: &Value, pointer: &str, problems: &mut Vec<String>) {
    let wrong = |problems: &mut Vec<String>, what: String| {
        let place = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
        problems.push(format!("{place}{what}"));
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_of(name, value)) {
        return wrong(problems, format!("{value} is not of the type {}", types.join(" or ")));
    }
    if let Value::Array(choices) = &schema["enum"]
        && !choices.contains(value)
    {
        let choices: Vec<_> = choices.iter().map(Value::to_string).collect();
        return wrong(problems, format!("{value} is none of {}", choices.join(", ")));
    }
    if let Value::Object(fields) = value {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                wrong(problems, format!("{name:?} is missing"));
            }
        }
        for (name, field) in fields {
            let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            match schema["properties"].get(name) {
                Some(schema) => compare(schema, field, &pointer, problems),
                None if schema["additionalProperties"] == false
                    && schema.get("patternProperties").is_none() =>
                {
                    problems.push(format!("{pointer}: the plugin knows no such setting"));
                }
                None => {}
            }
        }
    }
    if let Value::Array(items) = value {
        for (index, item) in items.iter().enumerate() {
            compare(&schema["items"], item, &format!("{pointer}/{index}"), problems);
        }
    }
}

/// A type that is not the standard's fits nothing, so that a misspelled one shows.
fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0),
        _ => false,
    }
}

/// The settings that must be there, with a value of the right type: an example for a person to change.
pub fn example(schema: &str) -> Map<String, Value> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let names = required.iter().filter_map(Value::as_str);
    names.map(|name| (name.to_owned(), value(&schema["properties"][name]))).collect()
}

fn value(property: &Value) -> Value {
    let given = [&property["default"], &property["const"], &property["examples"][0], &property["enum"][0]];
    if let Some(given) = given.into_iter().find(|given| !given.is_null()) {
        return given.clone();
    }
    match property["type"].as_str() {
        Some("integer" | "number") => {
            property["minimum"].as_f64().map_or(Value::from(1), |it| Value::from(it as i64))
        }
        Some("boolean") => Value::from(false),
        Some("array") => Value::Array(Vec::new()),
        Some("object") => Value::Object(Map::new()),
        _ if property["pattern"].as_str().is_some_and(|pattern| pattern.contains("http")) => {
            Value::from("https://example.com/")
        }
        _ => Value::from(""),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SCHEMA: &str = r#"{
        "type": "object",
        "required": ["url", "level", "most"],
        "additionalProperties": false,
        "properties": {
            "url": { "type": "string", "pattern": "^https?://" },
            "level": { "enum": ["low", "high"] },
            "most": { "type": "integer" }
        }
    }"#;

    #[test]
    fn what_does_not_fit_is_named_by_its_pointer() {
        let found = problems(SCHEMA, &json!({ "url": 7, "level": "low", "most": 1, "ulr": "x" })).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|problem| problem.starts_with("/url: ")), "{found:?}");
        assert!(found.iter().any(|problem| problem.contains("ulr")), "{found:?}");
        assert!(
            problems(SCHEMA, &json!({ "url": "http://a/", "level": "low", "most": 1 })).unwrap().is_empty()
        );
    }

    #[test]
    fn what_is_missing_or_no_choice_is_named() {
        let found = problems(SCHEMA, &json!({ "url": "u", "level": "mid" })).unwrap();
        assert_eq!(found, ["\"most\" is missing", "/level: \"mid\" is none of \"low\", \"high\""]);
        let list = r#"{"properties":{"a/b":{"type":"array","items":{"type":"integer"}}}}"#;
        assert_eq!(
            problems(list, &json!({ "a/b": [1, 2.0, "3"] })).unwrap(),
            ["/a~1b/2: \"3\" is not of the type integer"]
        );
    }

    #[test]
    fn a_schema_that_is_none_is_said_to_be_so() {
        assert!(problems("{", &json!({})).is_err());
        assert!(problems("[]", &json!({})).is_err());
        assert!(problems(r#"{"type":"objekt"}"#, &json!({})).unwrap()[0].contains("objekt"));
    }

    #[test]
    fn an_example_has_every_required_setting_and_fits() {
        let example = Value::Object(example(SCHEMA));
        assert_eq!(example, json!({ "url": "https://example.com/", "level": "low", "most": 1 }));
        assert_eq!(problems(SCHEMA, &example).unwrap(), Vec::<String>::new());
    }
}
