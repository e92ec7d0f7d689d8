//! The destination's `settings` table.

use broker::template::Template;
use outhaul_plugin::ConfigureError;
use serde::Deserialize;

/// The JSON Schema of the settings, for `describe`.
pub const SCHEMA: &str = include_str!("../settings.schema.json");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The endpoint's name in the destination's `net` section.
    pub endpoint: String,
    /// Further addresses of the cluster, tried in turn; `also` of the endpoint must hold them.
    pub servers: Vec<String>,
    pub subject: Template,
    pub mode: Mode,
    /// The stream that must be the one that takes the message.
    pub stream: Option<String>,
    /// The prefix of the subject that answers arrive on.
    pub inbox: String,
    pub auth: Option<Auth>,
    pub cloudevents: Option<cloudevents::Setting>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: "broker".to_owned(),
            servers: Vec::new(),
            subject: Template::default(),
            mode: Mode::JetStream,
            stream: None,
            inbox: "_INBOX".to_owned(),
            auth: None,
            cloudevents: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Delivered once a stream has stored it.
    JetStream,
    /// Delivered once the server has taken it; who does not listen then never hears it.
    Core,
}

/// How to log in; each secret by its name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "{ user, password }, { token }, { nkey, seed } or { jwt, seed }")]
pub enum Auth {
    Password(Password),
    Token(Token),
    Nkey(Nkey),
    Jwt(Jwt),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Password {
    pub user: String,
    pub password: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    pub token: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nkey {
    /// The public key: `U…`.
    pub nkey: String,
    pub seed: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    pub jwt: String,
    pub seed: String,
}

impl Settings {
    /// What the types do not say.
    pub fn check(&self) -> Result<(), ConfigureError> {
        if self.mode == Mode::Core && self.stream.is_some() {
            return Err(ConfigureError::setting(
                "/stream",
                "core NATS has no streams; leave it out, or the mode",
            ));
        }
        if let Some(constant) = self.subject.constant()
            && let Err(why) = crate::message::check_published(constant)
        {
            return Err(ConfigureError::setting("/subject", why));
        }
        if let Err(why) = crate::message::check_subject(&self.inbox) {
            return Err(ConfigureError::setting("/inbox", why));
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
        assert_eq!((settings.endpoint.as_str(), settings.mode), ("broker", Mode::JetStream));
        let all = r#"{"endpoint":"bus","servers":["b:4222"],"subject":"shop.{topic}","stream":"SHOP",
            "auth":{"user":"u","password":"p"},"cloudevents":"binary","inbox":"_INBOX.shop"}"#;
        parse_settings::<Settings>(all).unwrap().check().unwrap();
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_pointer() {
        for (json, pointer, word) in [
            (r#"{"subjekt":"x"}"#, "/subjekt", "`subject`"),
            (r#"{"mode":"queue"}"#, "/mode", "jetstream"),
            (r#"{"mode":"core","stream":"S"}"#, "/stream", "core NATS"),
            (r#"{"subject":"a..b"}"#, "/subject", "empty"),
            (r#"{"subject":"a.>"}"#, "/subject", "wildcard"),
            (r#"{"subject":"{id}"}"#, "/subject", "{topic}"),
            (r#"{"auth":{"user":"u"}}"#, "/auth", "{ user, password }"),
            (r#"{"inbox":""}"#, "/inbox", "empty"),
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
            ["auth", "cloudevents", "endpoint", "inbox", "mode", "servers", "stream", "subject"]
        );
    }
}
