//! `outhaul status`: lanes, their backlog and rates, and the hosts that run them.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::lanes::{lane_table, living, problems_of, with_rates};
use super::show::{self, Table};
use super::time::relative;
use super::{Context, Exit, canaries};

/// Shows lanes, backlog, what was delivered in the last minute, age of the oldest event, and hosts.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// Show it again every two seconds until interrupted
    #[arg(long)]
    watch: bool,
    #[arg(long)]
    json: bool,
}

const WATCH_EVERY: Duration = Duration::from_secs(2);

pub async fn run(context: &Context, args: &StatusArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    loop {
        let mut screen = Vec::new();
        print(context, args, &mut screen).await?;
        if args.watch && !args.json {
            // Home and clear to the end of the screen.
            out.write_all(b"\x1b[H\x1b[J")?;
        }
        out.write_all(&screen)?;
        out.flush()?;
        if !args.watch {
            return Ok(Exit::Fine);
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

async fn print(context: &Context, args: &StatusArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let lanes = context.stores.operate.lane_reports().await?;
    let hosts = context.stores.operate.hosts().await?;
    let now = context.stores.store.now().await?;
    if args.json {
        let lanes = with_rates(&lanes, &living(hosts.clone(), now));
        return show::json(out, &json!({ "lanes": lanes, "hosts": hosts }));
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
