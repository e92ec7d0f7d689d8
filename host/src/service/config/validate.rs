//! What a type can't say: ranges, names, and keys that only make sense together.

use std::collections::BTreeSet;

use super::file::*;
use super::locate::Located;
use super::secret::UrlRef;
use super::unknown::nearest;

const NAME_BYTES_MAX: usize = 100;
const COUNT_MAX: u32 = 10_000;

/// The databases remember no more than so many distinct rejected events of a lane.
const REJECTIONS_MAX: u32 = 1_000;

const SECRET_USES: [&str; 3] = ["hmac-sha256", "ed25519", "reveal"];

pub fn validate(file: &ConfigFile, located: &mut Located<'_>) {
    outbox(&file.outbox, located);
    relay(file, located);
    server(&file.server, located);
    for (name, destination) in &file.destination {
        Checked { name, located }.all(destination);
    }
    renames(file, located);
    if file.intake.is_some() {
        later(located, &["intake"], "the intake");
    }
    for name in file.sql.keys() {
        later(located, &["sql", name], "granting databases to plugins");
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
    if !(1..=COUNT_MAX).contains(&outbox.pool) {
        located.refuse(&["outbox", "pool"], format!("a pool has 1 to {COUNT_MAX} connections"));
    }
    above_zero(located, &["outbox", "timeout"], outbox.timeout.0.is_zero());
    above_zero(located, &["outbox", "poll"], outbox.poll.0.is_zero());
}

fn above_zero(located: &mut Located<'_>, path: &[&str], is_zero: bool) {
    if is_zero {
        located.refuse(path, "it must be longer than zero");
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

fn relay(file: &ConfigFile, located: &mut Located<'_>) {
    above_zero(located, &["relay", "lease"], file.relay.lease.0.is_zero());
    if !(1..=COUNT_MAX).contains(&file.relay.batch) {
        located.refuse(&["relay", "batch"], format!("a batch has 1 to {COUNT_MAX} deliveries"));
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
        if file.destination.contains_key(old) {
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

    fn all(&mut self, destination: &Destination) {
        self.name();
        self.component(destination);
        self.lane(destination);
        self.retry(&destination.retry);
        self.limits(&destination.limits);
        for (index, origin) in destination.http.iter().enumerate() {
            self.origin(&index.to_string(), origin);
        }
        for (name, secret) in &destination.secrets {
            self.secret(name, secret);
        }
        self.later(destination);
    }

    fn name(&mut self) {
        let is_name = (1..=NAME_BYTES_MAX).contains(&self.name.len())
            && self.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !is_name {
            self.refuse(
                &[],
                format!("a destination is named by 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`"),
            );
        }
    }

    fn component(&mut self, destination: &Destination) {
        if destination.component.is_empty() {
            self.refuse(&["component"], "name the component's .wasm file");
        } else if destination.component.starts_with("oci://") {
            let text = "fetching components from a registry is not in this version of outhaul; name a local .wasm file";
            self.refuse(&["component"], text);
        }
        let is_pin = |pin: &String| pin.len() == 64 && pin.bytes().all(|b| b.is_ascii_hexdigit());
        if !destination.sha256.as_ref().is_none_or(is_pin) {
            self.refuse(&["sha256"], "a pin is the 64 hex digits that  sha256sum FILE  prints");
        }
    }

    fn lane(&mut self, destination: &Destination) {
        if destination.topics.is_empty() {
            self.refuse(&["topics"], "name at least one topic, as in  topics = [\"order.*\"]");
        }
        if !(1..=COUNT_MAX).contains(&destination.concurrency) {
            self.refuse(&["concurrency"], format!("a lane runs 1 to {COUNT_MAX} deliveries at once"));
        }
        if destination.batch.is_some_and(|batch| !(1..=COUNT_MAX).contains(&batch)) {
            self.refuse(&["batch"], format!("a batch has 1 to {COUNT_MAX} deliveries"));
        }
        if destination.lease.is_some_and(|lease| lease.0.is_zero()) {
            self.refuse(&["lease"], "it must be longer than zero");
        }
        if destination.stop_after_rejections > REJECTIONS_MAX {
            let text = format!("a lane stops after 1 to {REJECTIONS_MAX} rejections in a row; 0 is never");
            self.refuse(&["stop_after_rejections"], text);
        }
        if destination.on_dead.is_some() && destination.order == OrderBy::None {
            self.refuse(
                &["on_dead"],
                "this only means something with  order = \"key\" ; add it, or remove this key",
            );
        }
    }

    fn retry(&mut self, retry: &Retry) {
        if retry.max_attempts == 0 {
            self.refuse(&["retry", "max_attempts"], "a delivery needs at least 1 attempt");
        }
        if retry.base.0.is_zero() || retry.base > retry.cap {
            let text = format!(
                "the first wait ({}) is longer than zero and at most cap ({})",
                retry.base, retry.cap
            );
            self.refuse(&["retry", "base"], text);
        }
        if retry.max_age.0.is_zero() {
            self.refuse(&["retry", "max_age"], "it must be longer than zero");
        }
    }

    fn limits(&mut self, limits: &Limits) {
        for (key, is_zero) in [
            ("memory", limits.memory.0 < 64 << 10),
            ("call", limits.call.0.is_zero()),
            ("payload", limits.payload.0 == 0),
            ("calls_per_instance", limits.calls_per_instance == 0),
            ("handles", limits.handles == 0),
        ] {
            if is_zero {
                self.refuse(
                    &["limits", key],
                    "with so little no plugin can run; leave it out for the default",
                );
            }
        }
        if !(1..=COUNT_MAX).contains(&limits.batch_events) {
            let text = format!("a batch has 1 to {COUNT_MAX} events; 1 delivers all singly");
            self.refuse(&["limits", "batch_events"], text);
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

    fn later(&mut self, destination: &Destination) {
        let keys = [
            ("sql", !destination.sql.is_empty(), "granting databases to plugins"),
            ("net", !destination.net.is_empty(), "granting network endpoints to plugins"),
            ("allow", destination.allow.is_some(), "granting sockets to plugins"),
        ];
        for (key, is_given, what) in keys {
            if is_given {
                later(self.located, &["destination", self.name, key], what);
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
        Some("http" | "https") => Ok(()),
        _ => Err(format!("an origin starts with http:// or https://; {how}")),
    }
}
