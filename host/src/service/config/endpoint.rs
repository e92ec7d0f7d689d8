//! One `[destination.NAME.net.ENDPOINT]` of the config file.

use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::destination::ClientCert;

/// An endpoint the plugin connects to through `outhaul:net`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Endpoint {
    /// `host:port`.
    pub address: String,
    /// The host makes TLS, and the plugin sees what is inside: `true` from the first byte, `"start"`
    /// where the protocol starts it after a first talk in the clear (STARTTLS and its like).
    #[serde(default)]
    pub tls: EndpointTls,
    /// Further addresses it may lead to: `host:port`, or `*.domain:port` for all names below a domain.
    #[serde(default)]
    pub also: Vec<String>,
    /// It may be at a private, loopback or link-local address.
    #[serde(default)]
    pub private: bool,
    /// A PEM file of roots to trust instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<ClientCert>,
}

/// Where TLS begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointTls {
    #[default]
    None,
    AtOnce,
    Start,
}

const START: &str = "start";

impl Serialize for EndpointTls {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_bool(false),
            Self::AtOnce => serializer.serialize_bool(true),
            Self::Start => serializer.serialize_str(START),
        }
    }
}

impl<'de> Deserialize<'de> for EndpointTls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TlsVisitor)
    }
}

struct TlsVisitor;

impl Visitor<'_> for TlsVisitor {
    type Value = EndpointTls;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "true, false or \"{START}\"")
    }

    fn visit_bool<E: Error>(self, at_once: bool) -> Result<EndpointTls, E> {
        Ok(if at_once { EndpointTls::AtOnce } else { EndpointTls::None })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<EndpointTls, E> {
        match text {
            START => Ok(EndpointTls::Start),
            _ => Err(E::custom(format!(
                "\"{text}\" is not known; write true for TLS from the first byte, \"{START}\" where the protocol \
                 starts it, or false"
            ))),
        }
    }
}

impl JsonSchema for EndpointTls {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EndpointTls".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [true, false, START] })
    }
}
