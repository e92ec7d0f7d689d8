//! The destination's `settings` table.

use std::time::Duration;

use broker::template::Template;
use cloudevents::Mode;
use outhaul_plugin::ConfigureError;
use serde::{Deserialize, Deserializer};

/// The JSON Schema of the settings, for `describe`.
pub const SCHEMA: &str = include_str!("../settings.schema.json");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The endpoint's name in the destination's `net` section.
    pub endpoint: String,
    pub version: Version,
    pub topic: Template,
    /// What the dots of an event's topic become.
    pub separator: String,
    #[serde(deserialize_with = "qos")]
    pub qos: Qos,
    pub retain: bool,
    /// In front of a random part: each instance is a client of its own.
    pub client_id: String,
    pub auth: Option<Auth>,
    /// How long a broker may keep a message for a subscriber that is away.
    #[serde(deserialize_with = "time")]
    pub expiry: Option<Duration>,
    pub cloudevents: Option<cloudevents::Setting>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: "broker".to_owned(),
            version: Version::V5,
            topic: Template::default(),
            separator: "/".to_owned(),
            qos: Qos::AtLeastOnce,
            retain: false,
            client_id: "outhaul".to_owned(),
            auth: None,
            expiry: None,
            cloudevents: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Version {
    #[serde(rename = "5")]
    V5,
    #[serde(rename = "3.1.1")]
    V3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    AtLeastOnce,
    ExactlyOnce,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    pub user: String,
    /// The name of the secret.
    pub password: String,
}

fn qos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Qos, D::Error> {
    match u8::deserialize(deserializer)? {
        1 => Ok(Qos::AtLeastOnce),
        2 => Ok(Qos::ExactlyOnce),
        other => Err(serde::de::Error::custom(format!(
            "{other} is not 1 or 2; QoS 0 is never confirmed, so nothing could count as delivered"
        ))),
    }
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match humantime::parse_duration(&text) {
        Ok(time) if time.as_secs() > 0 && u32::try_from(time.as_secs()).is_ok() => Ok(Some(time)),
        Ok(_) => Err(serde::de::Error::custom("write a time from one second to 136 years, such as \"1h\"")),
        Err(error) => Err(serde::de::Error::custom(format!("{error}; write a time such as \"1h\""))),
    }
}

impl Settings {
    /// What the types do not say.
    pub fn check(&self) -> Result<(), ConfigureError> {
        let binary = self.cloudevents.as_ref().is_some_and(|setting| setting.mode == Mode::Binary);
        if self.version == Version::V3 && binary {
            let message =
                "MQTT 3.1.1 has no properties to put them in; write \"structured\", or version = \"5\"";
            return Err(ConfigureError::setting("/cloudevents", message));
        }
        if self.version == Version::V3 && self.expiry.is_some() {
            return Err(ConfigureError::setting(
                "/expiry",
                "MQTT 3.1.1 has none; leave it out, or write version = \"5\"",
            ));
        }
        if let Some(constant) = self.topic.constant()
            && let Err(why) = crate::message::check_topic(constant)
        {
            return Err(ConfigureError::setting("/topic", why));
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
        assert_eq!((settings.version, settings.qos, settings.retain), (Version::V5, Qos::AtLeastOnce, false));
        let all = r#"{"endpoint":"bus","version":"5","topic":"shop/{topic}","separator":".","qos":2,"retain":true,
            "client_id":"shop","auth":{"user":"u","password":"p"},"expiry":"1h","cloudevents":"binary"}"#;
        let settings: Settings = parse_settings(all).unwrap();
        settings.check().unwrap();
        assert_eq!((settings.qos, settings.expiry), (Qos::ExactlyOnce, Some(Duration::from_secs(3_600))));
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_pointer() {
        for (json, pointer, word) in [
            (r#"{"topik":"x"}"#, "/topik", "`topic`"),
            (r#"{"topic":"{id}"}"#, "/topic", "{topic}"),
            (r#"{"topic":"a/#"}"#, "/topic", "wildcard"),
            (r#"{"qos":0}"#, "/qos", "never confirmed"),
            (r#"{"version":"4"}"#, "/version", "3.1.1"),
            (r#"{"version":"3.1.1","cloudevents":"binary"}"#, "/cloudevents", "structured"),
            (r#"{"version":"3.1.1","expiry":"1h"}"#, "/expiry", "leave it out"),
            (r#"{"expiry":"0s"}"#, "/expiry", "one second"),
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
        let expected = [
            "auth",
            "client_id",
            "cloudevents",
            "endpoint",
            "expiry",
            "qos",
            "retain",
            "separator",
            "topic",
            "version",
        ];
        assert_eq!(names, expected);
    }
}
