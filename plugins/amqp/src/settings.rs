//! The destination's `settings` table.

use broker::template::Template;
use outhaul_plugin::ConfigureError;
use serde::Deserialize;

use crate::wire::SHORT_BYTES_MAX;

/// The JSON Schema of the settings, for `describe`.
pub const SCHEMA: &str = include_str!("../settings.schema.json");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The endpoint's name in the destination's `net` section.
    pub endpoint: String,
    /// Further addresses of the cluster, tried in turn; `also` of the endpoint must hold them.
    pub servers: Vec<String>,
    pub vhost: String,
    /// Empty is the default exchange, where the routing key is a queue's name.
    pub exchange: String,
    pub routing_key: Template,
    pub unroutable: Unroutable,
    /// The broker writes messages in durable queues to disk before it confirms them.
    pub persistent: bool,
    pub auth: Auth,
    pub cloudevents: Option<cloudevents::Setting>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: "broker".to_owned(),
            servers: Vec::new(),
            vhost: "/".to_owned(),
            exchange: "amq.topic".to_owned(),
            routing_key: Template::default(),
            unroutable: Unroutable::Stop,
            persistent: true,
            auth: Auth::Guest,
            cloudevents: None,
        }
    }
}

/// What a message is that no queue gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unroutable {
    /// A fault of the settings or the broker's bindings: misconfigured.
    Stop,
    Reject,
    Retry,
    /// Delivered: nobody wants it. The broker is not asked to tell.
    Accept,
}

/// How to log in; the password by its secret's name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub enum Auth {
    /// RabbitMQ's first user, which it knows on its own machine only.
    Guest,
    Plain(Plain),
    /// By the endpoint's client certificate.
    External,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plain {
    pub user: String,
    pub password: String,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "{ user, password } or \"external\"")]
enum Written {
    Plain(Plain),
    Word(Word),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    External,
}

impl From<Written> for Auth {
    fn from(written: Written) -> Self {
        match written {
            Written::Plain(plain) => Self::Plain(plain),
            Written::Word(Word::External) => Self::External,
        }
    }
}

impl Settings {
    /// What the types do not say.
    pub fn check(&self) -> Result<(), ConfigureError> {
        let constant = self.routing_key.constant().unwrap_or_default();
        let names =
            [("/vhost", self.vhost.as_str()), ("/exchange", &self.exchange), ("/routing_key", constant)];
        for (pointer, name) in names {
            if name.len() > SHORT_BYTES_MAX {
                let message =
                    format!("it has {} bytes, and AMQP's names have {SHORT_BYTES_MAX} at most", name.len());
                return Err(ConfigureError::setting(pointer, message));
            }
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
        assert_eq!((settings.exchange.as_str(), settings.vhost.as_str()), ("amq.topic", "/"));
        assert_eq!((settings.unroutable, settings.auth), (Unroutable::Stop, Auth::Guest));
        let all = r#"{"endpoint":"bus","servers":["b:5672"],"vhost":"shop","exchange":"","routing_key":"{key}",
            "unroutable":"reject","persistent":false,"auth":{"user":"u","password":"p"},"cloudevents":"binary"}"#;
        let all = parse_settings::<Settings>(all).unwrap();
        all.check().unwrap();
        assert_eq!(all.auth, Auth::Plain(Plain { user: "u".into(), password: "p".into() }));
        assert_eq!(parse_settings::<Settings>(r#"{"auth":"external"}"#).unwrap().auth, Auth::External);
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_pointer() {
        let long = "x".repeat(256);
        for (json, pointer, word) in [
            (r#"{"exchang":"x"}"#, "/exchang", "`exchange`"),
            (r#"{"unroutable":"drop"}"#, "/unroutable", "accept"),
            (r#"{"routing_key":"{id}"}"#, "/routing_key", "{topic}"),
            (r#"{"auth":{"user":"u"}}"#, "/auth", "{ user, password }"),
            (r#"{"auth":"plain"}"#, "/auth", "\"external\""),
            (&format!(r#"{{"exchange":"{long}"}}"#), "/exchange", "256 bytes"),
            (&format!(r#"{{"vhost":"{long}"}}"#), "/vhost", "256 bytes"),
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
            "cloudevents",
            "endpoint",
            "exchange",
            "persistent",
            "routing_key",
            "servers",
            "unroutable",
            "vhost",
        ];
        assert_eq!(names, expected);
    }
}
