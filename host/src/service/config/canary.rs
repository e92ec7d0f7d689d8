//! `canary = { … }` of a destination.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::destination::{Registry, Signature};
use crate::plugin::Share;

/// A second component that gets a share of the deliveries, with the destination's settings, grants and
/// limits.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CanaryOf {
    /// The component's file, relative to the config file, or `oci://HOST/REPOSITORY@sha256:…`.
    pub component: String,
    /// How the registry of its component is asked: the file's section of that name.
    #[serde(skip)]
    pub registry: Registry,
    /// Of the keys, and of the events without one.
    pub share: Part,
    /// A pin: the component's hex SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The component is used only with this signature. Needed where the destination has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// A share in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(pub Share);

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl Visitor<'_> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a part in percent, such as \"5%\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Part, E> {
        Share::parse(text).map(Part).ok_or_else(|| {
            E::custom(format!(
                "\"{text}\" is not a share; write a part in percent, above 0% and up to 100%, with up to \
                 four decimals, as in \"5%\""
            ))
        })
    }
}

impl JsonSchema for Part {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Share".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A part in percent.",
            "pattern": "^[0-9]+(\\.[0-9]{1,4})? ?%$",
            "examples": ["5%", "0.5%"],
        })
    }
}
