//! What a type can't say: names, and keys that only make sense together.

use std::collections::BTreeSet;

use super::file::*;
use super::locate::Located;
use super::ranges;
use super::secret::UrlRef;
use super::unknown::nearest;
use crate::plugin::{AddressPattern, HostPort, Reference, is_host};

const NAME_BYTES_MAX: usize = 100;

const SECRET_USES: [&str; 3] = ["hmac-sha256", "ed25519", "reveal"];

pub fn validate(file: &ConfigFile, located: &mut Located<'_>) {
    ranges::check(file, located);
    outbox(&file.outbox, located);
    server(&file.server, located);
    for (name, destination) in &file.destination {
        Checked { name, located }.all(destination, file);
    }
    renames(file, located);
    for (host, registry) in &file.registry {
        if !is_host(host) {
            let text = "name the registry by host, or host:port, as in  [registry.\"registry.example.com\"]";
            located.refuse(&["registry", host], text);
        }
        for (key, other, is_alone) in [
            ("username", "password", registry.username.is_some() && registry.password.is_none()),
            ("password", "username", registry.password.is_some() && registry.username.is_none()),
        ] {
            if is_alone {
                located.refuse(
                    &["registry", host, key],
                    format!("this only means something with {other}; add it"),
                );
            }
        }
    }
    if file.intake.is_some() {
        later(located, &["intake"], "the intake");
    }
    for (name, database) in &file.sql {
        if !is_name(name) {
            located.refuse(&["sql", name], names("a database"));
        }
        if let UrlRef::Text(url) = &database.url
            && let Err(why) = check_granted_url(url)
        {
            located.refuse(&["sql", name, "url"], why);
        }
    }
}

/// A key of a version to come: known, and refused rather than ignored.
fn later(located: &mut Located<'_>, path: &[&str], what: &str) {
    located.refuse(path, format!("{what} is not in this version of outhaul; remove this key"));
}

fn outbox(outbox: &Outbox, located: &mut Located<'_>) {
    let mut is_postgres = true;
    if let UrlRef::Text(url) = &outbox.url {
        is_postgres = url.starts_with("postgres");
        if let Err(why) = check_url(url) {
            located.refuse(&["outbox", "url"], why);
        }
    }
    if let Some(schema) = &outbox.schema {
        let is_name = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && schema.len() <= 63;
        if !is_name {
            let text =
                "a schema is named by 1 to 63 lower-case letters, digits and `_`, not starting with a digit";
            located.refuse(&["outbox", "schema"], text);
        } else if !is_postgres {
            located.refuse(&["outbox", "schema"], "SQLite has no schemas; remove this key");
        }
    }
}

pub fn check_url(url: &str) -> Result<(), String> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite" | "postgres" | "postgresql") => Ok(()),
        Some("mysql" | "mariadb") => {
            Err("MySQL and MariaDB are not in this version of outhaul; use sqlite:… or postgres://…".into())
        }
        _ => {
            Err("an outbox is in SQLite or PostgreSQL; write sqlite:PATH or postgres://USER@HOST/DATABASE"
                .into())
        }
    }
}

fn check_granted_url(url: &str) -> Result<(), String> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite" | "postgres" | "postgresql" | "mysql" | "mariadb") => Ok(()),
        _ => Err("a plugin's database is in SQLite, PostgreSQL, MySQL or MariaDB; write sqlite:PATH, \
                  postgres://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE"
            .into()),
    }
}

fn server(server: &Server, located: &mut Located<'_>) {
    if !server.listen.ip().is_loopback() && server.token.is_none() {
        let text = format!(
            "{} is not a loopback address, so clients need a token; add  token = {{ env = \"OUTHAUL_TOKEN\" }}  \
             to [server], or listen on 127.0.0.1",
            server.listen
        );
        located.refuse(&["server", "listen"], text);
    }
}

fn renames(file: &ConfigFile, located: &mut Located<'_>) {
    let mut taken = BTreeSet::new();
    for (name, destination) in &file.destination {
        let Some(old) = &destination.renamed_from else { continue };
        let path = ["destination", name.as_str(), "renamed_from"];
        if !is_name(old) {
            located
                .refuse(&path, format!("{old:?} is no name: {}; or remove this key", names("a destination")));
        } else if file.destination.contains_key(old) {
            located.refuse(
                &path,
                format!("[destination.{old}] is still in this file; rename it, or remove this key"),
            );
        } else if !taken.insert(old) {
            located
                .refuse(&path, format!("another destination is renamed from {old:?} too; only one can be"));
        }
    }
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

fn names(what: &str) -> String {
    format!("{what} is named by 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`")
}

/// The checks of one destination.
struct Checked<'c, 't> {
    name: &'c str,
    located: &'c mut Located<'t>,
}

impl Checked<'_, '_> {
    fn refuse(&mut self, path: &[&str], text: impl Into<String>) {
        let path = [&["destination", self.name], path].concat();
        self.located.refuse(&path, text);
    }

    fn all(&mut self, destination: &Destination, file: &ConfigFile) {
        self.name();
        self.component(&[], &destination.component, destination.sha256.as_deref());
        self.canary(destination);
        self.lane(destination);
        self.retry(&destination.retry);
        for (index, origin) in destination.http.iter().enumerate() {
            self.origin(&index.to_string(), origin);
        }
        for (name, endpoint) in &destination.net {
            self.endpoint(name, endpoint);
        }
        if let Some(allow) = &destination.allow {
            self.allow(allow);
        }
        for (name, secret) in &destination.secrets {
            self.secret(name, secret);
        }
        self.databases(&destination.sql, file);
    }

    fn name(&mut self) {
        if !is_name(self.name) {
            self.refuse(&[], names("a destination"));
        }
    }

    fn component(&mut self, path: &[&str], component: &str, sha256: Option<&str>) {
        let (file, pin) = ([path, &["component"]].concat(), [path, &["sha256"]].concat());
        if component.is_empty() {
            self.refuse(&file, "name the component's .wasm file");
        } else if Reference::is_one(component) {
            match Reference::parse(component) {
                Err(why) => self.refuse(&file, why),
                Ok(Reference { digest: None, .. }) => {
                    let text = format!(
                        "a tag may lead to another component tomorrow; pin it by its digest:  outhaul plugin pull {component}  \
                         prints the line to write here"
                    );
                    self.refuse(&file, text);
                }
                Ok(_) => {}
            }
        }
        let is_pin = |pin: &str| pin.len() == 64 && pin.bytes().all(|b| b.is_ascii_hexdigit());
        if !sha256.is_none_or(is_pin) {
            self.refuse(&pin, "a pin is the 64 hex digits that  sha256sum FILE  prints");
        }
    }

    fn canary(&mut self, destination: &Destination) {
        let Some(canary) = &destination.canary else { return };
        self.component(&["canary"], &canary.component, canary.sha256.as_deref());
        if destination.signature.is_some() && canary.signature.is_none() {
            let text = "the destination's component is used only when it is signed, and so must its canary be; add  \
                        signature = { key = \"…\", file = \"…\" }  to it";
            self.refuse(&["canary"], text);
        }
        if destination.retry.max_attempts < 2 {
            let text = "a canary needs  retry.max_attempts  of 2 or more: the last attempt is the stable \
                        component's, so the canary would get nothing; raise it, or remove this key";
            self.refuse(&["canary"], text);
        }
    }

    fn lane(&mut self, destination: &Destination) {
        if destination.topics.is_empty() {
            self.refuse(&["topics"], "name at least one topic, as in  topics = [\"order.*\"]");
        }
        if destination.on_dead.is_some() && destination.order == OrderBy::None {
            self.refuse(
                &["on_dead"],
                "this only means something with  order = \"key\" ; add it, or remove this key",
            );
        }
    }

    fn retry(&mut self, retry: &Retry) {
        if retry.base > retry.cap {
            let text = format!("the first wait ({}) is at most retry.cap ({})", retry.base, retry.cap);
            self.refuse(&["retry", "base"], text);
        }
    }

    fn origin(&mut self, index: &str, origin: &HttpOrigin) {
        if let Err(why) = check_origin(&origin.origin) {
            self.refuse(&["http", index, "origin"], why);
        }
        for name in origin.headers.keys() {
            if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
                self.refuse(&["http", index, "headers", name], "this is not an HTTP header's name");
            }
        }
    }

    fn endpoint(&mut self, name: &str, endpoint: &Endpoint) {
        if let Err(why) = HostPort::parse(&endpoint.address) {
            self.refuse(&["net", name, "address"], why);
        }
        for (index, also) in endpoint.also.iter().enumerate() {
            if let Err(why) = AddressPattern::parse(also) {
                self.refuse(&["net", name, "also", &index.to_string()], why);
            }
        }
        for (key, is_given) in
            [("roots", endpoint.roots.is_some()), ("client_cert", endpoint.client_cert.is_some())]
        {
            if is_given && endpoint.tls == EndpointTls::None {
                let text = "this only means something with  tls = true ; add it, or remove this key";
                self.refuse(&["net", name, key], text);
            }
        }
    }

    fn allow(&mut self, allow: &Allow) {
        if allow.tcp.is_empty() {
            let text = "name at least one address, as in  allow = { tcp = [\"broker.example.com:5672\"] }";
            self.refuse(&["allow", "tcp"], text);
        }
        for (index, address) in allow.tcp.iter().enumerate() {
            if let Err(why) = HostPort::parse(address) {
                self.refuse(&["allow", "tcp", &index.to_string()], why);
            }
        }
    }

    fn secret(&mut self, name: &str, secret: &Secret) {
        if secret.keys.is_empty() {
            self.refuse(
                &["secrets", name, "keys"],
                "name at least one key, as in  keys = [{ env = \"NAME\" }]",
            );
        }
        if secret.uses.is_empty() {
            let text = format!("say what the plugin may do with it: {}", SECRET_USES.join(", "));
            self.refuse(&["secrets", name, "use"], text);
        }
        for (index, word) in secret.uses.iter().enumerate() {
            if !SECRET_USES.contains(&word.as_str()) {
                let near = nearest(word, &SECRET_USES).map(|near| format!("; did you mean `{near}`?"));
                let text = format!("{word:?} is not a use of a secret; known: {}", SECRET_USES.join(", "));
                self.refuse(&["secrets", name, "use", &index.to_string()], text + &near.unwrap_or_default());
            }
        }
    }

    fn databases(&mut self, granted: &[String], file: &ConfigFile) {
        let known: Vec<&str> = file.sql.keys().map(String::as_str).collect();
        for (index, name) in granted.iter().enumerate() {
            if !file.sql.contains_key(name) {
                let near = nearest(name, &known).map(|near| format!(" (did you mean \"{near}\"?)"));
                let text = format!(
                    "there is no section [sql.{name}]{}; add it with  url = {{ env = \"NAME\" }}  or a URL",
                    near.unwrap_or_default()
                );
                self.refuse(&["sql", &index.to_string()], text);
            }
        }
    }
}

fn check_origin(origin: &str) -> Result<(), String> {
    let how = "write scheme://host[:port], as in https://hooks.example.com";
    let uri: http::Uri =
        origin.parse().map_err(|error| format!("{origin:?} is not an origin ({error}); {how}"))?;
    let has_path = uri.path_and_query().is_some_and(|path| path.as_str() != "/") || origin.ends_with('/');
    match uri.scheme_str() {
        Some("http" | "https") if has_path => Err(format!("an origin has no path; {how}")),
        Some("http" | "https") if origin.contains('@') => Err(format!("an origin has no user; {how}")),
        Some("http" | "https") if !uri.authority().is_some_and(names_one_host) => {
            Err(format!("an origin is one host, by its name or address, with a port of 1 to 65535; {how}"))
        }
        Some("http" | "https") => Ok(()),
        _ => Err(format!("an origin starts with http:// or https://; {how}")),
    }
}

/// Patterns are no hosts: each host is granted by itself.
fn names_one_host(authority: &http::uri::Authority) -> bool {
    let host = authority.host();
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)),
    };
    let port = authority.as_str().strip_prefix(host).unwrap_or_default();
    is_host
        && (port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)))
}
