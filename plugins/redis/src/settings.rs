//! The destination's `settings` table.

use std::time::Duration;

use broker::template::Template;
use outhaul_plugin::ConfigureError;
use serde::{Deserialize, Deserializer};

/// The JSON Schema of the settings, for `describe`.
pub const SCHEMA: &str = include_str!("../settings.schema.json");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The endpoint's name in the destination's `net` section.
    pub endpoint: String,
    pub stream: Template,
    pub database: u32,
    pub auth: Option<Auth>,
    /// How long an ID is remembered.
    #[serde(deserialize_with = "time")]
    pub remember: Duration,
    /// In front of the keys that remember IDs.
    pub prefix: String,
    pub trim: Option<Trim>,
    pub replicas: Option<Replicas>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: "broker".to_owned(),
            stream: Template::default(),
            database: 0,
            auth: None,
            remember: Duration::from_secs(24 * 60 * 60),
            prefix: "outhaul:".to_owned(),
            trim: None,
            replicas: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Of Redis's ACL; left out, the default user.
    pub user: Option<String>,
    /// The name of the secret.
    pub password: String,
}

/// What Redis may drop of a stream when an entry is added; about so much, as it removes whole nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    rename_all = "lowercase",
    expecting = "{ entries = NUMBER } or { age = \"7d\" }"
)]
pub enum Trim {
    Entries(u64),
    #[serde(deserialize_with = "time")]
    Age(Duration),
}

/// How many replicas must have the entry too before it counts as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replicas {
    pub count: u32,
    #[serde(deserialize_with = "time", default = "second")]
    pub timeout: Duration,
}

fn second() -> Duration {
    Duration::from_secs(1)
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    match humantime::parse_duration(&text) {
        Ok(time) if time.as_millis() > 0 => Ok(time),
        Ok(_) => Err(serde::de::Error::custom("it is zero; write a time such as \"24h\"")),
        Err(error) => Err(serde::de::Error::custom(format!("{error}; write a time such as \"24h\""))),
    }
}

impl Settings {
    /// What the types do not say.
    pub fn check(&self) -> Result<(), ConfigureError> {
        if self.trim == Some(Trim::Entries(0)) {
            return Err(ConfigureError::setting(
                "/trim/entries",
                "a stream of no entries keeps nothing; write a number",
            ));
        }
        if self.replicas.is_some_and(|replicas| replicas.count == 0) {
            return Err(ConfigureError::setting(
                "/replicas/count",
                "0 replicas are none; leave replicas out",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outhaul_plugin::parse_settings;

    fn refused(json: &str) -> (String, String) {
        let refused = parse_settings::<Settings>(json).and_then(|settings| settings.check());
        let Err(ConfigureError::Settings(problems)) = refused else { panic!("{json}: {refused:?}") };
        (problems[0].pointer.clone(), problems[0].message.clone())
    }

    #[test]
    fn every_setting_has_a_default() {
        let settings: Settings = parse_settings("{}").unwrap();
        settings.check().unwrap();
        assert_eq!((settings.endpoint.as_str(), settings.remember.as_secs()), ("broker", 86_400));
        let all = r#"{"endpoint":"bus","stream":"shop:{topic}","database":3,"auth":{"user":"u","password":"p"},
            "remember":"7d","prefix":"seen:","trim":{"age":"30d"},"replicas":{"count":1,"timeout":"500ms"}}"#;
        let settings: Settings = parse_settings(all).unwrap();
        settings.check().unwrap();
        assert_eq!(settings.trim, Some(Trim::Age(Duration::from_secs(30 * 86_400))));
        assert_eq!(settings.replicas.unwrap().timeout, Duration::from_millis(500));
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_pointer() {
        for (json, pointer, word) in [
            (r#"{"steam":"x"}"#, "/steam", "`stream`"),
            (r#"{"stream":"{id}"}"#, "/stream", "{topic}"),
            (r#"{"remember":"long"}"#, "/remember", "24h"),
            (r#"{"remember":"0s"}"#, "/remember", "zero"),
            (r#"{"trim":{"entries":0}}"#, "/trim/entries", "keeps nothing"),
            (r#"{"replicas":{"count":0}}"#, "/replicas/count", "leave"),
            (r#"{"auth":{"user":"u"}}"#, "/auth", "password"),
        ] {
            let (at, message) = refused(json);
            assert_eq!(at, pointer, "{json}: {message}");
            assert!(message.contains(word), "{json}: {message}");
        }
    }

    #[test]
    fn the_schema_names_every_setting() {
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        let mut names: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["auth", "database", "endpoint", "prefix", "remember", "replicas", "stream", "trim"]
        );
    }
}
