//! What the operator may set.

use broker::template::Template;
use outhaul_plugin::ConfigureError;
use serde::Deserialize;

use crate::protocol::compression::Compression;
use crate::record::check_topic;

/// The JSON Schema of the settings, for `describe`.
pub const SCHEMA: &str = include_str!("../settings.schema.json");

/// A longer one says no more, and the protocol has two bytes for its length.
const CLIENT_ID_BYTES_MAX: usize = 249;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The endpoint's name in the destination's `net` section.
    pub endpoint: String,
    /// Further brokers to ask for the cluster, tried in turn; `also` of the endpoint must hold them.
    pub servers: Vec<String>,
    pub topic: Template,
    /// A topic that is not there comes to be, if the brokers are set to make those that are asked for.
    pub create_topics: bool,
    pub compression: Compression,
    /// What the brokers' logs and quotas call this producer.
    pub client_id: String,
    pub auth: Option<Auth>,
    pub cloudevents: Option<cloudevents::Setting>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: "broker".to_owned(),
            servers: Vec::new(),
            topic: Template::default(),
            create_topics: false,
            compression: Compression::None,
            client_id: "outhaul".to_owned(),
            auth: None,
            cloudevents: None,
        }
    }
}

/// How to log in by SASL; the password by its secret's name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    #[serde(default)]
    pub mechanism: Mechanism,
    pub user: String,
    pub password: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Mechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[default]
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

impl Mechanism {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl Settings {
    /// The secret's name.
    pub fn password(&self) -> Option<&str> {
        self.auth.as_ref().map(|auth| auth.password.as_str())
    }

    /// What the types do not say.
    pub fn check(&self) -> Result<(), ConfigureError> {
        if let Some(Err(why)) = self.topic.constant().map(check_topic) {
            return Err(ConfigureError::setting("/topic", why));
        }
        if self.client_id.len() > CLIENT_ID_BYTES_MAX {
            let bytes = self.client_id.len();
            let message = format!("it has {bytes} bytes, and may have {CLIENT_ID_BYTES_MAX}");
            return Err(ConfigureError::setting("/client_id", message));
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
        assert_eq!((settings.endpoint.as_str(), settings.create_topics), ("broker", false));
        assert_eq!((settings.compression, settings.auth), (Compression::None, None));
        let all = r#"{"endpoint":"bus","servers":["b:9092"],"topic":"shop.{topic}","create_topics":true,
            "compression":"zstd","client_id":"shop","auth":{"mechanism":"PLAIN","user":"u","password":"p"},
            "cloudevents":"binary"}"#;
        let all = parse_settings::<Settings>(all).unwrap();
        all.check().unwrap();
        assert_eq!(all.auth.unwrap().mechanism, Mechanism::Plain);
        let brief = parse_settings::<Settings>(r#"{"auth":{"user":"u","password":"p"}}"#).unwrap();
        assert_eq!(brief.auth.unwrap().mechanism.as_str(), "SCRAM-SHA-512");
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_pointer() {
        let long = "x".repeat(250);
        for (json, pointer, word) in [
            (r#"{"topics":"x"}"#, "/topics", "`topic`"),
            (r#"{"topic":"{id}"}"#, "/topic", "{topic}"),
            (r#"{"topic":"a b"}"#, "/topic", "letters"),
            (&format!(r#"{{"topic":"{long}"}}"#), "/topic", "250 bytes"),
            (r#"{"compression":"brotli"}"#, "/compression", "gzip"),
            (r#"{"auth":{"user":"u"}}"#, "/auth", "password"),
            (r#"{"auth":{"mechanism":"OAUTHBEARER","user":"u","password":"p"}}"#, "/auth/mechanism", "PLAIN"),
            (&format!(r#"{{"client_id":"{long}"}}"#), "/client_id", "250 bytes"),
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
        let expected = [
            "auth",
            "client_id",
            "cloudevents",
            "compression",
            "create_topics",
            "endpoint",
            "servers",
            "topic",
        ];
        assert_eq!(names, expected);
    }
}
