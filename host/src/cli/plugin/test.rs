//! `outhaul plugin test`: the conformance cases and the plugin's own.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Map, Value};

use super::settings;
use crate::cli::{Exit, Misuse};
use crate::clock::{SharedClock, SystemClock};
use crate::kit::report::Tested;
use crate::kit::suite::{self, Plan};
use crate::service::plugins::tool_runtime;

/// Runs a component in the host's own runtime against scripted servers: general cases, and its own.
#[derive(Args, Clone, Debug)]
pub struct TestArgs {
    component: PathBuf,
    /// The folder of the plugin's own cases; else  cases/  beside the component
    #[arg(long, value_name = "FOLDER")]
    cases: Option<PathBuf>,
    /// Write the report as JUnit XML too
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// A JSON object, laid over the settings of  cases/settings.toml
    #[arg(long, value_name = "JSON", value_parser = settings::parse)]
    settings: Option<Map<String, Value>>,
    /// A server to grant, such as  broker=127.0.0.1:4222 , in place of that of  cases/settings.toml
    #[arg(long, value_name = "ENDPOINT=HOST:PORT", value_parser = endpoint)]
    net: Vec<(String, String)>,
    /// A database to grant, such as  shop=postgres://user@host/database , in place of that of
    /// cases/settings.toml;  shop=sqlite  is an empty one of this run's own
    #[arg(long, value_name = "NAME=URL", value_parser = database)]
    sql: Vec<(String, String)>,
}

fn endpoint(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, address)| !name.is_empty() && address.contains(':'));
    let pair = pair.ok_or("write the endpoint's name and its address, such as  broker=127.0.0.1:4222")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

fn database(text: &str) -> Result<(String, String), String> {
    let schemes = ["sqlite:", "postgres://", "postgresql://", "mysql://"];
    let is_url = |url: &str| url == "sqlite" || schemes.iter().any(|scheme| url.starts_with(scheme));
    let pair = text.split_once('=').filter(|(name, url)| !name.is_empty() && is_url(url));
    let pair =
        pair.ok_or("write the database's name and its URL, such as  shop=sqlite:shop.db , or  shop=sqlite")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

pub async fn run(args: &TestArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    if let Some(folder) = &args.cases
        && !folder.is_dir()
    {
        return Err(Misuse(format!("--cases {} is not a folder", folder.display())).into());
    }
    let clock: SharedClock = Arc::new(SystemClock);
    let runtime = tool_runtime(clock.clone())?;
    let plan = Plan {
        component: args.component.clone(),
        cases: args.cases.clone().unwrap_or_else(|| suite::cases_beside(&args.component)),
        settings: args.settings.clone().unwrap_or_default(),
        net: args.net.iter().cloned().collect(),
        sql: args.sql.iter().cloned().collect(),
    };
    let mut told = Ok(());
    let mut tell = |test: &Tested| {
        if told.is_ok() {
            told = test.print(out).and_then(|()| out.flush());
        }
    };
    let report = suite::run(&runtime, &clock, &plan, &mut tell).await?;
    told?;
    writeln!(out, "\n{}: {}", args.component.display(), report.summary())?;
    if let Some(file) = &args.junit {
        std::fs::write(file, report.junit())
            .with_context(|| format!("the report {} can't be written", file.display()))?;
    }
    Ok(if report.failures() == 0 { Exit::Fine } else { Exit::Problem })
}
