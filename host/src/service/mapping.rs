//! From the config file to what the relay, the plugins and the database are told.

use std::path::PathBuf;

use super::config::file::{
    ClientCert, ConfigFile, Destination, Endpoint, EndpointTls, HttpLimits, Isolation, Limits, OnDead,
    OrderBy, Registry, Signature, SqlDatabase,
};
use super::config::{Config, SecretRef, UrlRef, digest};
use crate::domain::RetryPolicy;
use crate::plugin::{Reference, spec};
use crate::relay::settings::{LaneSettings, RelaySettings};
use crate::store::{self, DestinationConfig, HostRegistration, Order, Takeover};

pub fn registration(config: &Config, host_id: &str, takeover: Takeover) -> HostRegistration {
    let destinations = config.file.destination.iter();
    HostRegistration {
        host_id: host_id.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config_digest: config.routes_digest(),
        destinations: destinations.map(|(name, destination)| destination_config(name, destination)).collect(),
        takeover,
    }
}

fn destination_config(name: &str, destination: &Destination) -> DestinationConfig {
    let mut topics: Vec<String> =
        destination.topics.iter().map(|topic| topic.0.as_str().to_owned()).collect();
    topics.sort();
    topics.dedup();
    DestinationConfig {
        name: name.to_owned(),
        renamed_from: destination.renamed_from.clone(),
        topics,
        order: order(destination),
        digest: digest::of_destination(destination),
    }
}

fn order(destination: &Destination) -> Order {
    match (destination.order, destination.on_dead) {
        (OrderBy::None, _) => Order::None,
        (OrderBy::Key, None | Some(OnDead::Block)) => Order::Key(store::OnDead::Block),
        (OrderBy::Key, Some(OnDead::Skip)) => Order::Key(store::OnDead::Skip),
    }
}

pub fn relay_settings(file: &ConfigFile, host_id: &str) -> RelaySettings {
    RelaySettings {
        host_id: host_id.to_owned(),
        poll: file.outbox.poll.0,
        store_timeout: file.outbox.timeout.0,
        drain: file.relay.drain.0,
        payload_budget_bytes: file.relay.payload_memory.0,
    }
}

pub fn lane_settings(file: &ConfigFile, name: &str, destination: &Destination) -> LaneSettings {
    let (relay, retry) = (&file.relay, &destination.retry);
    LaneSettings {
        name: name.to_owned(),
        concurrency: destination.concurrency,
        batch: destination.batch.unwrap_or(relay.batch),
        lease: destination.lease.unwrap_or(relay.lease).0,
        margin: destination.margin.unwrap_or(relay.margin).0,
        renew: destination.renew.unwrap_or(relay.renew),
        order: order(destination),
        retry: RetryPolicy {
            max_attempts: retry.max_attempts,
            base: retry.base.0,
            cap: retry.cap.0,
            after_cap: retry.after_cap.0,
            max_age: retry.max_age.0,
        },
        // Behind a canary the stable component may be asked, too, in the same attempt.
        call_budget: destination.limits.call.0 * if destination.canary.is_some() { 2 } else { 1 },
        payload_bytes_max: destination.limits.payload.0,
        stop_after_rejections: destination.stop_after_rejections,
    }
}

pub fn plugin_spec(name: &str, destination: &Destination) -> spec::PluginSpec {
    let http = destination.http.iter().map(|origin| spec::HttpGrant {
        origin: origin.origin.clone(),
        headers: origin.headers.iter().map(|(name, secret)| (name.clone(), secret.source())).collect(),
        private: origin.private,
        roots: origin.roots.clone(),
        client_cert: origin.client_cert.as_ref().map(client_cert),
    });
    let secrets = destination.secrets.iter().map(|(name, secret)| {
        let keys = secret.keys.iter().map(|key| key.source()).collect();
        (name.clone(), spec::SecretGrant { keys, uses: secret.uses.clone() })
    });
    spec::PluginSpec {
        destination: name.to_owned(),
        component: PathBuf::from(&destination.component),
        pull: pull(&destination.component, &destination.registry),
        sha256: destination.sha256.as_ref().map(|pin| pin.to_lowercase()),
        signature: destination.signature.as_ref().map(signature_check),
        settings_json: serde_json::Value::Object(destination.settings.clone()).to_string(),
        concurrency: destination.concurrency,
        limits: limits(&destination.limits),
        http: http.collect(),
        secrets: secrets.collect(),
        net: destination.net.iter().map(|(name, given)| (name.clone(), endpoint(given))).collect(),
        sockets: destination.allow.as_ref().map(|allow| spec::SocketsGrant {
            tcp: allow.tcp.clone(),
            resolve: allow.resolve,
            private: allow.private,
        }),
        sql: destination.databases.iter().map(|(name, given)| (name.clone(), database(given))).collect(),
    }
}

/// The same for the destination's canary, if it has one.
pub fn canary_spec(name: &str, destination: &Destination) -> Option<spec::PluginSpec> {
    let canary = destination.canary.as_ref()?;
    Some(spec::PluginSpec {
        component: PathBuf::from(&canary.component),
        pull: pull(&canary.component, &canary.registry),
        sha256: canary.sha256.as_ref().map(|pin| pin.to_lowercase()),
        signature: canary.signature.as_ref().map(signature_check),
        ..plugin_spec(name, destination)
    })
}

fn pull(component: &str, registry: &Registry) -> Option<spec::Pull> {
    let access = || registry_access(registry);
    Reference::is_one(component).then(|| spec::Pull { reference: component.to_owned(), access: access() })
}

pub fn registry_access(registry: &Registry) -> spec::RegistryAccess {
    spec::RegistryAccess {
        username: registry.username.as_ref().map(SecretRef::source),
        password: registry.password.as_ref().map(SecretRef::source),
        roots: registry.roots.clone(),
        insecure: registry.insecure,
    }
}

fn signature_check(given: &Signature) -> spec::SignatureCheck {
    spec::SignatureCheck { key: given.key.clone(), file: given.file.clone() }
}

fn endpoint(given: &Endpoint) -> spec::NetGrant {
    spec::NetGrant {
        address: given.address.clone(),
        tls: match given.tls {
            EndpointTls::None => spec::NetTls::None,
            EndpointTls::AtOnce => spec::NetTls::AtOnce,
            EndpointTls::Start => spec::NetTls::Start,
        },
        also: given.also.clone(),
        private: given.private,
        roots: given.roots.clone(),
        client_cert: given.client_cert.as_ref().map(client_cert),
    }
}

pub fn database(given: &SqlDatabase) -> spec::SqlGrant {
    spec::SqlGrant {
        url: match &given.url {
            UrlRef::Text(url) => spec::SqlUrl::Text(url.clone()),
            UrlRef::Secret(secret) => spec::SqlUrl::Secret(secret.source()),
        },
        pool: given.pool,
        isolation: match given.isolation {
            Isolation::ReadCommitted => spec::SqlIsolation::ReadCommitted,
            Isolation::RepeatableRead => spec::SqlIsolation::RepeatableRead,
            Isolation::Serializable => spec::SqlIsolation::Serializable,
        },
    }
}

fn client_cert(given: &ClientCert) -> spec::ClientCert {
    spec::ClientCert { cert: given.cert.clone(), key: given.key.source() }
}

/// A component with settings of its own, the default limits and no grants.
pub fn bare_spec(
    component: PathBuf,
    settings: serde_json::Map<String, serde_json::Value>,
) -> spec::PluginSpec {
    spec::PluginSpec {
        settings_json: serde_json::Value::Object(settings).to_string(),
        ..spec::PluginSpec::bare("NAME", component)
    }
}

fn limits(limits: &Limits) -> spec::Limits {
    spec::Limits {
        memory_bytes: limits.memory.0,
        table_elements: limits.tables,
        handles: limits.handles,
        call: limits.call.0,
        calls_per_instance: limits.calls_per_instance,
        payload_bytes: limits.payload.0,
        batch_events: limits.batch_events,
        batch_bytes: limits.batch_bytes.0,
        log_line_bytes: limits.log_line.as_usize(),
        log_lines_per_second: limits.log_lines_per_second,
        text_bytes: limits.text.as_usize(),
        reference_bytes: limits.reference.as_usize(),
        http: http_limits(&limits.http),
        net: spec::NetLimits {
            connect: limits.net.connect.0,
            tls: limits.net.tls.0,
            connections: limits.net.connections,
        },
        sql: spec::SqlLimits {
            connect: limits.sql.connect.0,
            statement: limits.sql.statement.0,
            transaction: limits.sql.transaction.0,
            transactions: limits.sql.transactions,
            rows: limits.sql.rows,
            result_bytes: limits.sql.result.as_usize(),
        },
    }
}

fn http_limits(http: &HttpLimits) -> spec::HttpLimits {
    spec::HttpLimits {
        connect: http.connect.0,
        tls: http.tls.0,
        first_byte: http.first_byte.0,
        total: http.total.0,
        response_body_bytes: http.response_body.0,
        header_bytes: http.header_bytes.as_usize(),
        headers: http.headers as usize,
        connections: http.connections as usize,
        idle: http.idle.0,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::service::config::read_text;

    fn config(lines: &str) -> Config {
        let text = format!(
            "version = 1\n[outbox]\nurl = \"sqlite:o.db\"\n[relay]\nlease = \"40s\"\nbatch = 7\n\
             [destination.hook]\ncomponent = \"http.wasm\"\ntopics = [\"b.*\", \"a\", \"a\"]\n{lines}"
        );
        let file = read_text(&text, Path::new("/etc")).unwrap_or_else(|problems| panic!("{problems:#?}"));
        Config { path: "/etc/outhaul.toml".into(), file }
    }

    #[test]
    fn the_defaults_of_the_config_are_the_defaults_of_the_plugin_and_the_relay() {
        let file = config("").file;
        let spec = plugin_spec("hook", &file.destination["hook"]);
        assert_eq!(spec.limits, spec::Limits::default());
        assert_eq!(lane_settings(&file, "hook", &file.destination["hook"]).retry, RetryPolicy::default());
        let (relay, known) = (relay_settings(&config("").file, "h"), RelaySettings::new("h"));
        assert_eq!(
            (relay.poll, relay.store_timeout, relay.drain),
            (known.poll, known.store_timeout, known.drain)
        );
        assert_eq!(relay.payload_budget_bytes, known.payload_budget_bytes);
    }

    #[test]
    fn a_destination_overrides_what_the_relay_section_says() {
        let inherited = config("").file;
        let lane = lane_settings(&inherited, "hook", &inherited.destination["hook"]);
        assert_eq!((lane.lease.as_secs(), lane.batch, lane.renew), (40, 7, true));
        let own = config("lease = \"9s\"\nbatch = 3\nrenew = false\n").file;
        let lane = lane_settings(&own, "hook", &own.destination["hook"]);
        assert_eq!((lane.lease.as_secs(), lane.batch, lane.renew), (9, 3, false));
    }

    #[test]
    fn a_canary_has_all_of_the_destination_but_its_component_and_leaves_time_for_the_stable_one() {
        let lines = |canary: &str| format!("{canary}\nlimits.call = \"3s\"\nsettings = {{ a = 1 }}\n");
        let (without, with) = (lines(""), lines("canary = { component = \"n.wasm\", share = \"5%\" }"));
        let budget = |file: &ConfigFile| lane_settings(file, "hook", &file.destination["hook"]).call_budget;
        let (without, with) = (config(&without).file, config(&with).file);
        assert_eq!((budget(&without).as_secs(), budget(&with).as_secs()), (3, 6));
        let spec = canary_spec("hook", &with.destination["hook"]).unwrap();
        assert_eq!(spec.component, Path::new("/etc/n.wasm"));
        let stable = plugin_spec("hook", &with.destination["hook"]);
        assert_eq!((spec.settings_json, spec.limits), (stable.settings_json, stable.limits));
        assert!(canary_spec("hook", &without.destination["hook"]).is_none());
    }

    #[test]
    fn the_registration_carries_each_topic_once_and_the_order_by_key() {
        let config = config("order = \"key\"\non_dead = \"skip\"\n");
        let registration = registration(&config, "h", Takeover::IfNeverSeen);
        let [hook] = &registration.destinations[..] else { panic!("one destination") };
        assert_eq!(hook.topics, ["a", "b.*"]);
        assert_eq!(hook.order, Order::Key(store::OnDead::Skip));
    }
}
