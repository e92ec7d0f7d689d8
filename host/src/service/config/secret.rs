//! References to secrets. The config says where a secret is; it never holds one, and a message
//! never shows one.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::plugin::spec::SecretSource;

/// `{ env = "NAME" }` or `{ file = "path" }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
}

impl SecretRef {
    pub fn source(&self) -> SecretSource {
        match self {
            Self::Env(name) => SecretSource::Env(name.clone()),
            Self::File(path) => SecretSource::File(path.clone()),
        }
    }

    /// Reads the secret; a file's last newline is not part of it.
    pub fn read(&self) -> Result<String, String> {
        match self {
            Self::Env(name) => std::env::var(name).map_err(|_| {
                format!("the environment variable {name} is not set (or is not text); set it, or use {{ file = \"…\" }}")
            }),
            Self::File(path) => {
                let unreadable = |why: &dyn std::fmt::Display| {
                    format!("the secret file {} can't be read: {why}", path.display())
                };
                // A device or a pipe could be read for ever.
                if !path.metadata().map_err(|error| unreadable(&error))?.is_file() {
                    return Err(unreadable(&"it is not a regular file"));
                }
                let text = std::fs::read_to_string(path).map_err(|error| unreadable(&error))?;
                let text = text.strip_suffix('\n').unwrap_or(&text);
                Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
            }
        }
    }

    pub(super) fn resolve(&mut self, base: &Path) {
        if let Self::File(path) = self {
            *path = base.join(&*path);
        }
    }
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

const HOW: &str = "write { env = \"NAME\" } or { file = \"path\" }";

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = SecretRef;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a reference to a secret: {HOW}")
    }

    // The text is probably the secret itself, so the message must not repeat it.
    fn visit_str<E: Error>(self, _: &str) -> Result<SecretRef, E> {
        Err(E::custom(format!("a secret is never written into the config; {HOW}")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SecretRef, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            let next = match key.as_str() {
                "env" => SecretRef::Env(map.next_value()?),
                "file" => SecretRef::File(map.next_value()?),
                _ => return Err(A::Error::custom(format!("unknown key `{key}`; {HOW}"))),
            };
            if found.replace(next).is_some() {
                return Err(A::Error::custom(format!("both env and file are given; {HOW}")));
            }
        }
        found.ok_or_else(|| A::Error::custom(format!("neither env nor file is given; {HOW}")))
    }
}

impl JsonSchema for SecretRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A reference to a secret. A file's last newline is not part of it.",
            "type": "object",
            "properties": {
                "env": { "type": "string", "description": "An environment variable." },
                "file": { "type": "string", "description": "A file, relative to the config file." },
            },
            "additionalProperties": false,
            "minProperties": 1,
            "maxProperties": 1,
        })
    }
}

/// A database URL as text, or, because it often holds a password, as a reference to a secret.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum UrlRef {
    Text(String),
    Secret(SecretRef),
}

impl fmt::Debug for UrlRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{}", redact_url(text)),
            Self::Secret(secret) => write!(f, "{secret:?}"),
        }
    }
}

impl UrlRef {
    pub fn read(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Secret(secret) => secret.read(),
        }
    }
}

/// The URL without its password and parameters, for messages: of one that is not written as it should be,
/// nothing but the scheme, because anything of it may be the password.
pub fn redact_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return "…".to_owned();
    };
    if scheme == "sqlite" {
        // A file has no password, and a parameter may be one.
        return format!("sqlite:{}", rest.split('?').next().unwrap_or_default());
    }
    let Some(rest) = rest.strip_prefix("//") else { return format!("{scheme}:…") };
    match rest.rsplit_once('@') {
        // A password may hold whatever ends one elsewhere, so only the last @ does; what a parameter holds
        // behind one is not shown either.
        Some((login, place)) => {
            let user = login.split([':', '?', '/', '#']).next().unwrap_or_default();
            format!("{scheme}://{user}@{}", place_of(place))
        }
        None => format!("{scheme}://{}", place_of(rest)),
    }
}

fn is_scheme(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Host, port and database.
fn place_of(text: &str) -> &str {
    let place = text.split(['?', '#']).next().unwrap_or_default();
    // A port is a number. What is none may be a password whose @ is missing.
    let host = place.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map_or("", |(_, port)| port);
    if port.chars().all(|c| c.is_ascii_digit()) { place } else { "…" }
}

impl<'de> Deserialize<'de> for UrlRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UrlVisitor)
    }
}

struct UrlVisitor;

impl<'de> Visitor<'de> for UrlVisitor {
    type Value = UrlRef;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a database URL such as \"sqlite:outhaul.db\" or \"postgres://…\", or {{ env = \"NAME\" }}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<UrlRef, E> {
        Ok(UrlRef::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UrlRef, A::Error> {
        SecretVisitor.visit_map(map).map(UrlRef::Secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://app:hunter2@db:5432/shop?sslmode=require", "postgres://app@db:5432/shop"),
            ("postgres://app:p@ss@db/shop", "postgres://app@db/shop"),
            ("postgres://db/shop", "postgres://db/shop"),
            ("postgres://app:p?ss@db/shop", "postgres://app@db/shop"),
            ("postgres://app:p/s#s@db/shop?sslmode=require", "postgres://app@db/shop"),
            ("postgres://[::1]:5432/shop", "postgres://[::1]:5432/shop"),
            ("postgres://[::1]/shop", "postgres://[::1]/shop"),
            ("postgres://app:hunter2", "postgres://…"),
            ("postgres:u:s3cret", "postgres:…"),
            ("app:hunter2@db/shop", "app:…"),
            ("hunter2", "…"),
            ("postgres://db/shop?password=hunter2", "postgres://db/shop"),
            ("sqlite:a.db?key=s3cret", "sqlite:a.db"),
            ("sqlite:outhaul.db", "sqlite:outhaul.db"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
    }
}
