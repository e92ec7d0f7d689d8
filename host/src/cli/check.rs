//! `outhaul check`: what `run` would stumble over, before it does.

use std::io::Write;
use std::sync::Arc;

use clap::Args;

use super::{Common, Exit, show};
use crate::clock::SystemClock;
use crate::service::check::{Finding, check};
use crate::service::config::Config;

/// Validates the config, loads and configures every plugin, lets those that can check their destination,
/// and looks at the database.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    #[arg(long)]
    json: bool,
    /// Connect to nothing: no destination, no registry, no database but the outbox in an SQLite file
    #[arg(long)]
    offline: bool,
}

pub async fn run(common: &Common, args: &CheckArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let path = common.config_path();
    let findings = match Config::load(&path) {
        Ok(config) => {
            let mut findings = vec![Finding::good("config", format!("{} is valid", path.display()))];
            findings.extend(check(&config, Arc::new(SystemClock), args.offline).await);
            findings
        }
        Err(problems) => problems.to_string().lines().map(|line| Finding::bad("config", line)).collect(),
    };
    print(&findings, args.json, out)
}

/// A line a finding, and whether all is well.
pub fn print(findings: &[Finding], json: bool, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    if json {
        show::json(out, &findings)?;
    } else {
        let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or(0);
        for Finding { ok, subject, text } in findings {
            let mark = if *ok { "ok " } else { "BAD" };
            writeln!(out, "{mark}  {subject:width$}  {}", show::printable(text))?;
        }
    }
    Ok(if findings.iter().all(|finding| finding.ok) { Exit::Fine } else { Exit::Problem })
}
