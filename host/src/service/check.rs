//! What `outhaul check` finds: every part a host needs, looked at as the host would.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;

use super::canary::Second;
use super::config::Config;
use super::plugins::{self, Target};
use super::reach::unreachable_because;
use super::stores::{Stores, missing_file, open_existing};
use super::{host, mapping};
use crate::clock::SharedClock;
use crate::kit;
use crate::plugin::spec::PluginSpec;
use crate::plugin::{Deliver, LoadedPlugin, Missing, Runtime};

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub ok: bool,
    /// A key of the config, or what stands behind it.
    pub subject: String,
    /// What is so, or what is wrong and how to mend it.
    pub text: String,
}

impl Finding {
    pub fn good(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { ok: true, subject: subject.into(), text: text.into() }
    }

    pub fn bad(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { ok: false, subject: subject.into(), text: text.into() }
    }
}

const DATABASE_TIMEOUT: Duration = Duration::from_secs(10);

/// `offline` connects to nothing: plugins are loaded and configured where they reach nothing, components
/// in registries must have been pulled before, and only an SQLite file is looked at.
pub async fn check(config: &Config, clock: SharedClock, offline: bool) -> Vec<Finding> {
    let mut findings = leases(config);
    findings.extend(token(config));
    let (plugins, database) =
        tokio::join!(plugins(config, clock.clone(), offline), database(config, offline));
    findings.extend(plugins);
    findings.extend(database);
    findings
}

fn leases(config: &Config) -> Vec<Finding> {
    match host::check_leases(config) {
        Ok(()) => vec![Finding::good("relay", "every lease can be kept")],
        Err(error) => error.to_string().lines().map(|line| Finding::bad("relay", line)).collect(),
    }
}

fn token(config: &Config) -> Option<Finding> {
    let token = config.file.server.token.as_ref()?;
    Some(match token.read() {
        Ok(token) if token.is_empty() => {
            Finding::bad("server.token", "it is empty; make one with  openssl rand -hex 32")
        }
        Ok(_) => Finding::good("server.token", "it can be read"),
        Err(why) => Finding::bad("server.token", why),
    })
}

async fn plugins(config: &Config, clock: SharedClock, offline: bool) -> Vec<Finding> {
    let mut settings = plugins::runtime_settings(&config.file, clock);
    if offline {
        settings = plugins::offline(settings);
    }
    let runtime = match Runtime::new(settings) {
        Ok(runtime) => runtime,
        Err(error) => return vec![Finding::bad("runtime", format!("{error:#}"))],
    };
    let targets = plugins::load_all(&runtime, &config.file).await;
    if targets.is_empty() {
        let text = "there is none, so every event stays unrouted; add a section [destination.NAME]";
        return vec![Finding::bad("destination", text)];
    }
    let mut findings: Vec<_> = targets.iter().flat_map(plugin).collect();
    if !offline {
        findings.extend(granted_databases(&runtime, config).await);
        let checked = join_all(targets.iter().map(reachable)).await;
        findings.extend(checked.into_iter().flatten());
    }
    findings
}

/// Whether what plugins are granted answers, with the name it gives itself.
async fn granted_databases(runtime: &Runtime, config: &Config) -> Vec<Finding> {
    let asked = config.file.sql.iter().map(async |(name, database)| {
        let subject = format!("sql.{name}");
        match runtime.ask_database(name, &mapping::database(database), DATABASE_TIMEOUT).await {
            Ok(version) => Finding::good(subject, format!("{version} answers")),
            Err(why) => Finding::bad(
                subject.clone(),
                format!("{why}; is  url  in [{subject}] right, and does the database run?"),
            ),
        }
    });
    join_all(asked).await
}

/// What the plugin's own check says. None if it can't say.
async fn reachable(target: &Target) -> Option<Finding> {
    checked(format!("destination.{}", target.name), target.loaded.as_ref()?).await
}

async fn checked(subject: String, loaded: &LoadedPlugin) -> Option<Finding> {
    Some(match loaded.check().await? {
        Ok(()) => Finding::good(subject, "its check finds the destination well"),
        Err(outcome) => {
            let text = format!(
                "{}; mend the destination, its settings or its grants, or leave it out with  --offline",
                unreachable_because(&outcome)
            );
            Finding::bad(subject, text)
        }
    })
}

fn plugin(target: &Target) -> Vec<Finding> {
    let subject = format!("destination.{}", target.name);
    let Some(loaded) = &target.loaded else {
        let why = target.plugin.unready().unwrap_or_else(|| "it did not load".to_owned());
        return vec![Finding::bad(subject, why)];
    };
    let mut findings = loaded_plugin(&subject, loaded);
    findings.extend(target.second.iter().flat_map(|second| canary(format!("{subject}.canary"), second)));
    findings
}

fn canary(subject: String, second: &Second) -> Vec<Finding> {
    match &second.loaded {
        Some(loaded) => loaded_plugin(&subject, loaded),
        None => vec![Finding::bad(subject, second.canary.off().unwrap_or_default())],
    }
}

/// A component by itself: does it load, does it take its settings, do they fit the schema it gives, is
/// what it needs granted, and what does its own check say?
pub async fn plugin_alone(runtime: &Runtime, spec: PluginSpec, offline: bool) -> Vec<Finding> {
    let subject = spec.component.display().to_string();
    let settings = serde_json::from_str(&spec.settings_json).unwrap_or_default();
    let described =
        runtime.inspect(&spec.component).await.ok().and_then(|found| found.description.ok().flatten());
    let schema = described.filter(|said| !said.settings_schema.is_empty()).map(|said| said.settings_schema);
    let mut findings = match runtime.load(spec).await {
        Ok(loaded) => {
            let mut findings = loaded_plugin(&subject, &loaded);
            if !offline {
                findings.extend(checked(subject, &loaded).await);
            }
            findings
        }
        Err(error) => vec![Finding::bad(subject, error.problem.to_string())],
    };
    match schema.map(|schema| kit::schema::problems(&schema, &settings)) {
        None => {}
        Some(Err(problem)) => {
            let text = format!("its settings-schema is not a JSON Schema: {problem}; mend its describe");
            findings.push(Finding::bad("settings", text));
        }
        Some(Ok(problems)) if problems.is_empty() => {
            findings.push(Finding::good("settings", "they fit the schema the plugin gives"));
        }
        Some(Ok(problems)) => {
            findings.extend(problems.into_iter().map(|problem| Finding::bad("settings", problem)));
        }
    }
    findings
}

fn loaded_plugin(subject: &str, loaded: &LoadedPlugin) -> Vec<Finding> {
    let digest = loaded.component_digest();
    let loads = match loaded.was_configured() {
        true => format!("it loads and takes its settings (sha256 {digest})"),
        false => format!(
            "it loads (sha256 {digest}); its settings could not be judged, because its configure finds its \
             destination unavailable"
        ),
    };
    let mut findings = vec![Finding::good(subject, loads)];
    if let Err(problem) = loaded.description() {
        let text = format!(
            "what the plugin says of itself can't be used, so its needs are not compared with the grants: \
             {problem}; mend its describe, or the plugin.toml beside it"
        );
        findings.push(Finding::bad(subject, text));
    }
    findings.extend(loaded.ungranted().iter().map(|missing| needed(subject, missing)));
    findings
}

/// What the plugin needs and the config does not grant. Without what is optional it works.
fn needed(subject: &str, missing: &Missing) -> Finding {
    let Missing { need, fix } = missing;
    let what = match (need.capability.as_str(), need.name.as_str()) {
        (capability, "") => capability.to_owned(),
        (capability, name) => format!("{capability} {name:?}"),
    };
    let what_for = if need.purpose.is_empty() { String::new() } else { format!(" ({})", need.purpose) };
    match need.optional {
        true => Finding::good(
            subject,
            format!("it works without {what}{what_for}, which is not granted; to grant it, {fix}"),
        ),
        false => Finding::bad(subject, format!("it needs {what}{what_for}, which is not granted; {fix}")),
    }
}

async fn database(config: &Config, offline: bool) -> Vec<Finding> {
    if offline && config.database_url().is_ok_and(|url| !url.starts_with("sqlite:")) {
        return vec![Finding::good("outbox.url", "the database is not asked, because of  --offline")];
    }
    if let Some(file) = missing_file(config) {
        return vec![not_made_yet(config, &file)];
    }
    let look = async {
        let stores = open_existing(config).await?;
        let version = stores.store.server_version().await?;
        let outbox = match stores.schema.refuses_writes().await? {
            None => Finding::good("outbox.url", format!("{version} answers")),
            Some(why) => Finding::bad("outbox.url", format!("{version} answers, and takes no writes: {why}")),
        };
        Ok::<_, anyhow::Error>(vec![outbox, schema(config, &stores).await])
    };
    match tokio::time::timeout(DATABASE_TIMEOUT, look).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => {
            let text = format!("{error:#}");
            vec![Finding::bad(
                "outbox.url",
                text.trim_start_matches("outbox.url").trim_start_matches([':', ' ']),
            )]
        }
        Err(_) => {
            let text = format!(
                "the database did not answer within {} s; is it running and reachable?",
                DATABASE_TIMEOUT.as_secs()
            );
            vec![Finding::bad("outbox.url", text)]
        }
    }
}

/// An SQLite file that is not there is no problem where `run` makes it.
fn not_made_yet(config: &Config, file: &Path) -> Finding {
    let (subject, shown) = ("outbox.url", file.display());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Finding::bad(
            subject,
            format!("{shown} can't be made: there is no directory {folder}; make it"),
        );
    }
    match config.file.outbox.migrate {
        true => Finding::good(subject, format!("{shown} does not exist yet; `outhaul run` will make it")),
        false => Finding::bad(
            subject,
            format!("{shown} does not exist, and outbox.migrate is false; make it with  outhaul migrate"),
        ),
    }
}

async fn schema(config: &Config, stores: &Stores) -> Finding {
    let status = match stores.schema.status().await {
        Ok(status) => status,
        Err(error) => return Finding::bad("schema", error.to_string()),
    };
    let newest = status.newest_known;
    if status.pending.is_empty() {
        Finding::good("schema", format!("it is up to date, at version {newest}"))
    } else if config.file.outbox.migrate {
        Finding::good("schema", format!("`outhaul run` will bring it to version {newest}"))
    } else {
        Finding::bad(
            "schema",
            format!("it is not at version {newest}, and outbox.migrate is false; run  outhaul migrate"),
        )
    }
}
