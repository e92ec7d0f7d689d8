//! `outhaul status`: lanes, their backlog and rates, and the hosts that run them.

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::lanes::{lane_table, living, problems_of, with_rates};
use super::show::{self, Table};
use super::time::relative;
use super::{Common, Context, Exit, canaries};
use crate::service::config::{Config, Problems};
use crate::store::StoreError;

/// Shows lanes, backlog, what was delivered in the last minute, age of the oldest event, and hosts.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// Show it again every two seconds until interrupted
    #[arg(long)]
    watch: bool,
    /// Look at this database, and read no config
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// With --database, on PostgreSQL: the schema that holds the tables
    #[arg(long, value_name = "NAME", requires = "database")]
    schema: Option<String>,
    #[arg(long)]
    json: bool,
}

const WATCH_EVERY: Duration = Duration::from_secs(2);

pub async fn run(common: &Common, args: &StatusArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    if let Some(url) = &args.database {
        let context = Context::open_of(&Config::of_database(url, args.schema.clone()), common).await?;
        return show_all(&context, None, args, out).await;
    }
    let path = common.config_path();
    match Config::load(&path) {
        Ok(config) => show_all(&Context::open_of(&config, common).await?, None, args, out).await,
        // Hosts go on with what they had, and this is where one looks for how they are.
        Err(problems) => {
            let Some(config) = Config::outbox_alone(&path) else {
                return Err(anyhow::anyhow!(
                    "the config can't be used:\n{problems}\nA host that runs keeps the config it had; to see it, name \
                     its database:  outhaul status --database URL"
                ));
            };
            let context = Context::open_of(&config, common).await.with_context(|| unusable(&problems))?;
            show_all(&context, Some(&problems), args, out).await
        }
    }
}

fn unusable(problems: &Problems) -> String {
    format!("the config can't be used, and a host that runs keeps the one it had:\n{problems}")
}

/// `problems`: why the config can't be used, if so.
pub async fn show_all(
    context: &Context,
    problems: Option<&Problems>,
    args: &StatusArgs,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    loop {
        let mut screen = Vec::new();
        if let Err(error) = print(context, problems, args, &mut screen).await {
            if !is_torn(&error) {
                return Err(error);
            }
            screen.clear();
            print(context, problems, args, &mut screen).await?;
        }
        if args.watch && !args.json {
            // Home and clear to the end of the screen.
            out.write_all(b"\x1b[H\x1b[J")?;
        }
        out.write_all(&screen)?;
        out.flush()?;
        if !args.watch {
            return Ok(if problems.is_some() { Exit::Problem } else { Exit::Fine });
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

/// Who may only read an SQLite file may see half of what a host writes to it at that moment.
fn is_torn(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Fault(_)))
}

async fn print(
    context: &Context,
    problems: Option<&Problems>,
    args: &StatusArgs,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    let lanes = context.stores.operate.lane_reports().await?;
    let hosts = context.stores.operate.hosts().await?;
    let now = context.stores.store.now().await?;
    if args.json {
        let lanes = with_rates(&lanes, &living(hosts.clone(), now));
        let config_error = problems.map(Problems::to_string);
        return show::json(out, &json!({ "lanes": lanes, "hosts": hosts, "config_error": config_error }));
    }
    if let Some(problems) = problems {
        writeln!(out, "{}\n", unusable(problems))?;
    }
    let hosts = living(hosts, now);
    lane_table(&lanes, &hosts).print(out)?;
    let canaries = canaries::table(&hosts);
    if !canaries.is_empty() {
        writeln!(out)?;
        canaries.print(out)?;
    }
    for problem in problems_of(&hosts).into_iter().chain(canaries::lines(&hosts)) {
        writeln!(out, "{}", show::printable(&problem))?;
    }
    let mut table = Table::new(&["HOST", "VERSION", "CONFIG", "SEEN"]);
    for host in &hosts {
        let config = if host.is_current { "current" } else { "superseded" };
        table.row([host.host.clone(), host.version.clone(), config.into(), relative(host.last_seen, now)]);
    }
    writeln!(out)?;
    if table.is_empty() {
        writeln!(out, "no host has been seen in the last minute; start one with  outhaul run")?;
        return Ok(());
    }
    table.print(out)?;
    Ok(())
}
