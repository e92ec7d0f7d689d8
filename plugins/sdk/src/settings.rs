//! Settings into a plugin's own type, with the place of what is wrong.

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use crate::ConfigureError;

/// Parses the `settings` table. What does not fit is named by its JSON Pointer.
pub fn parse<T: DeserializeOwned>(json: &str) -> Result<T, ConfigureError> {
    let mut reader = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let message = error.inner().to_string();
        // A person wrote TOML: the place in the JSON made from it means nothing to them.
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        ConfigureError::setting(pointer(error.path()), plain(message))
    })
}

/// Without the names of types, which say nothing to who writes a config.
fn plain(message: String) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message };
    match expected.split_once(' ') {
        Some(("struct", _)) => format!("{found}, expected a table"),
        _ => match expected {
            "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => {
                format!("{found}, expected a whole number")
            }
            "a sequence" => format!("{found}, expected a list"),
            "a map" => format!("{found}, expected a table"),
            _ => message,
        },
    }
}

fn pointer(path: &Path) -> String {
    let word = |segment: &Segment| match segment {
        Segment::Seq { index } => index.to_string(),
        Segment::Map { key } => key.replace('~', "~0").replace('/', "~1"),
        Segment::Enum { variant } => variant.clone(),
        Segment::Unknown => String::new(),
    };
    path.iter().map(|segment| format!("/{}", word(segment))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Settings {
        #[serde(rename = "url")]
        _url: String,
        #[serde(default, rename = "limits")]
        _limits: BTreeMap<String, Vec<u16>>,
        #[serde(default, rename = "auth")]
        _auth: Option<Auth>,
    }

    #[derive(Debug, Deserialize)]
    struct Auth {
        #[serde(rename = "user")]
        _user: String,
    }

    fn problem(json: &str) -> (String, String) {
        let ConfigureError::Settings(problems) = parse::<Settings>(json).unwrap_err() else {
            panic!("wrong settings are no outage")
        };
        (problems[0].pointer.clone(), problems[0].message.clone())
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_pointer() {
        for (json, pointer, word) in [
            (r#"{"url":7}"#, "/url", "expected a string"),
            (r#"{}"#, "", "missing field `url`"),
            (r#"{"url":"u","limits":{"a/b":[1,70000]}}"#, "/limits/a~1b/1", "70000"),
            (r#"{"url":"u","limits":{"a":["x"]}}"#, "/limits/a/0", "expected a whole number"),
            (r#"{"url":"u","limits":{"a":"x"}}"#, "/limits/a", "expected a list"),
            (r#"{"url":"u","auth":"x"}"#, "/auth", "invalid type: string \"x\", expected a table"),
        ] {
            let (at, message) = problem(json);
            assert_eq!(at, pointer, "{json}");
            assert!(message.contains(word) && !message.contains("line"), "{message}");
        }
    }

    #[test]
    fn a_misspelled_setting_is_told_the_known_ones() {
        let (pointer, message) = problem(r#"{"ulr":"x"}"#);
        assert_eq!(pointer, "/ulr");
        assert!(message.contains("`url`"), "{message}");
    }
}
