//! The destination's `settings` table, checked so that every mistake is named with its place.

mod reader;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use outhaul_plugin::Kind;
use serde_json::Value;
use uri::{HeaderName, HeaderValue, Method, Uri};

pub use reader::Problem;
use reader::Table;

use crate::cloudevents::{DEFAULT_SOURCE, Mode};
use crate::signing::Algorithm;

/// The JSON Schema of the settings, for `describe`.
pub const SCHEMA: &str = include_str!("../settings.schema.json");

const KEYS: [&str; 7] = ["url", "method", "headers", "timeout", "status", "signing", "cloudevents"];
const SIGNING_KEYS: [&str; 2] = ["secret", "algorithms"];
const CLOUDEVENTS_KEYS: [&str; 2] = ["mode", "source"];
const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "GET", "DELETE"];

/// Headers the plugin or the connection itself writes.
const RESERVED_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "upgrade",
    "te",
];
const RESERVED_PREFIXES: [&str; 2] = ["webhook-", "ce-"];

#[derive(Clone, Debug)]
pub struct Settings {
    pub url: Target,
    pub method: Method,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Of the whole request; the call's budget bounds it too.
    pub timeout: Option<Duration>,
    pub overrides: Overrides,
    pub signing: Option<Signing>,
    pub cloudevents: Option<CloudEvents>,
}

/// The parts of the URL that a request is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub is_https: bool,
    pub authority: String,
    pub path_with_query: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path_with_query)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    pub secret: String,
    pub algorithms: Vec<Algorithm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudEvents {
    pub mode: Mode,
    pub source: String,
}

/// What the operator says of single statuses (`409`) or classes of them (`4xx`).
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    exact: BTreeMap<u16, Kind>,
    classes: BTreeMap<u16, Kind>,
}

impl Overrides {
    pub fn get(&self, status: u16) -> Option<Kind> {
        self.exact.get(&status).or_else(|| self.classes.get(&(status / 100))).copied()
    }

    pub fn insert(&mut self, status: u16, kind: Kind) {
        self.exact.insert(status, kind);
    }

    /// `class` is the first digit of its statuses.
    pub fn insert_class(&mut self, class: u16, kind: Kind) {
        self.classes.insert(class, kind);
    }
}

impl Settings {
    /// Reads the settings, or tells everything that is wrong with them.
    pub fn parse(json: &str) -> Result<Self, Vec<Problem>> {
        let value: Value =
            serde_json::from_str(json).map_err(|_| vec![Problem::new("", "the settings are not JSON")])?;
        let mut problems = Vec::new();
        let settings = read(&value, &mut problems);
        match settings {
            Some(settings) if problems.is_empty() => Ok(settings),
            _ => Err(problems),
        }
    }
}

fn read(value: &Value, problems: &mut Vec<Problem>) -> Option<Settings> {
    let mut table = Table::of("", value, &KEYS, problems)?;
    let url = match table.text("url") {
        Some(text) => table.accept("url", Target::parse(text)),
        None => {
            table.require("url", "add the address to post to, such as \"https://hooks.example.com/orders\"");
            None
        }
    };
    let method = table.text("method").map(str::to_owned).unwrap_or_else(|| "POST".into());
    let method = table.one_of("method", &method, &METHODS, |name| Method::from_bytes(name.as_bytes()).ok());
    let timeout = table.text("timeout").map(str::to_owned);
    let timeout = timeout.and_then(|text| table.accept("timeout", parse_timeout(&text)));
    let headers = read_headers(&mut table);
    let overrides = read_overrides(&mut table);
    let signing = table.child("signing", &SIGNING_KEYS, |mut signing| read_signing(&mut signing));
    let cloudevents = match table.value("cloudevents") {
        // The short form, `cloudevents = "binary"`.
        Some(Value::String(mode)) => {
            let mode = mode.clone();
            read_mode(&mut table, "cloudevents", &mode)
                .map(|mode| CloudEvents { mode, source: DEFAULT_SOURCE.into() })
        }
        _ => table.child("cloudevents", &CLOUDEVENTS_KEYS, |mut table| read_cloudevents(&mut table)),
    };
    Some(Settings { url: url?, method: method?, headers, timeout, overrides, signing, cloudevents })
}

fn read_signing(table: &mut Table) -> Option<Signing> {
    let secret = table.text("secret").map(str::to_owned);
    if secret.is_none() {
        table.require("secret", "add the name of one of the destination's secrets");
    }
    let names = table.texts("algorithms").unwrap_or_else(|| vec!["hmac-sha256".into()]);
    if names.is_empty() {
        table.problem("algorithms", "the list is empty; name an algorithm, or leave the list out");
    }
    let known = Algorithm::ALL.map(Algorithm::as_str);
    let mut algorithms = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let find = |name: &str| Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == name);
        algorithms.extend(table.one_of(&format!("algorithms/{index}"), name, &known, find));
    }
    Some(Signing { secret: secret?, algorithms })
}

fn read_cloudevents(table: &mut Table) -> Option<CloudEvents> {
    let mode = table.text("mode").map(str::to_owned);
    let mode = match mode {
        Some(mode) => read_mode(table, "mode", &mode),
        None => {
            table.require("mode", "add mode = \"binary\" or \"structured\"");
            None
        }
    };
    let source = table.text("source").unwrap_or(DEFAULT_SOURCE).to_owned();
    if source.is_empty() || source.chars().any(|c| c.is_whitespace() || c.is_control()) {
        table.problem("source", "it is a URI reference: not empty, and without white space");
    }
    Some(CloudEvents { mode: mode?, source })
}

fn read_mode(table: &mut Table, key: &str, mode: &str) -> Option<Mode> {
    let known = Mode::ALL.map(Mode::as_str);
    table.one_of(key, mode, &known, |name| Mode::ALL.into_iter().find(|mode| mode.as_str() == name))
}

fn read_headers(table: &mut Table) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    for (name, value) in table.pairs("headers") {
        let place = reader::join("headers", &name);
        let Some(value) = value.as_str().map(str::to_owned) else {
            table.problem(&place, "a header's value is a text");
            continue;
        };
        let lower = name.to_ascii_lowercase();
        let is_reserved = RESERVED_HEADERS.contains(&lower.as_str())
            || RESERVED_PREFIXES.iter().any(|prefix| lower.starts_with(prefix));
        if is_reserved {
            table.problem(&place, "this header is written by the plugin or the connection; leave it out");
            continue;
        }
        match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
            (Ok(name), Ok(value)) => headers.push((name, value)),
            (Err(_), _) => table.problem(&place, "this is no header name: letters, digits and hyphens are"),
            (_, Err(_)) => table.problem(&place, "a header's value is one line of visible ASCII"),
        }
    }
    headers
}

fn read_overrides(table: &mut Table) -> Overrides {
    let known = Kind::ALL.map(Kind::as_str);
    let mut overrides = Overrides::default();
    for (status, kind) in table.pairs("status") {
        let place = reader::join("status", &status);
        let Some(kind) = kind.as_str().map(str::to_owned) else {
            table.problem(&place, &format!("write one of {}", known.join(", ")));
            continue;
        };
        let find = |name: &str| Kind::ALL.into_iter().find(|kind| kind.as_str() == name);
        let Some(kind) = table.one_of(&place, &kind, &known, find) else {
            continue;
        };
        match parse_status(&status) {
            Some(Status::Exact(status)) => overrides.insert(status, kind),
            Some(Status::Class(class)) => overrides.insert_class(class, kind),
            None => table.problem(&place, "write a status such as \"404\", or a class such as \"5xx\""),
        }
    }
    overrides
}

enum Status {
    Exact(u16),
    Class(u16),
}

fn parse_status(text: &str) -> Option<Status> {
    match text.strip_suffix("xx") {
        Some(class) => class.parse().ok().filter(|class| (2..=5).contains(class)).map(Status::Class),
        None => text.parse().ok().filter(|status| (200..=599).contains(status)).map(Status::Exact),
    }
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(timeout) if timeout.is_zero() => Err("it is zero; write a time such as \"5s\"".into()),
        Ok(timeout) => Ok(timeout),
        Err(error) => Err(format!("{error}; write a time with its unit, such as \"5s\" or \"500ms\"")),
    }
}

impl Target {
    fn parse(text: &str) -> Result<Self, String> {
        let example = "write an address such as \"https://hooks.example.com/orders\"";
        if text.contains('#') {
            return Err("a part after # is never sent; leave it out".into());
        }
        let url: Uri = text.parse().map_err(|error| format!("{error}; {example}"))?;
        let is_https = match url.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(other) => return Err(format!("{other:?} is not http or https; {example}")),
            None => return Err(format!("it has no scheme; {example}")),
        };
        let authority = url.authority().ok_or_else(|| format!("it has no host; {example}"))?.as_str();
        if authority.contains('@') {
            return Err("a user or password in an address ends up in logs; \
                        put the credential in the destination's [[http]] headers"
                .into());
        }
        let path_with_query = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { is_https, authority: authority.to_owned(), path_with_query })
    }
}

#[cfg(test)]
mod tests;
