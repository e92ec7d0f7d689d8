//! `outhaul migrate`: create or upgrade the outbox's tables.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::{Context, Exit, show};

/// Creates or upgrades the outbox's tables.
#[derive(Args, Clone, Debug)]
pub struct MigrateArgs {
    /// Only print the SQL that would run
    #[arg(long)]
    dry_run: bool,
    #[arg(long)]
    json: bool,
}

pub async fn run(
    context: &Context,
    args: &MigrateArgs,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let schema = &context.stores.schema;
    if args.dry_run {
        let status = schema.status().await?;
        if args.json {
            let pending: Vec<_> =
                status.pending.iter().map(|(name, sql)| json!({ "name": name, "sql": sql })).collect();
            show::json(
                out,
                &json!({ "installed": status.installed, "newest": status.newest_known, "pending": pending }),
            )?;
        } else if status.pending.is_empty() {
            writeln!(out, "-- nothing to do: the schema is at version {}", status.newest_known)?;
        }
        for (name, sql) in status.pending.iter().filter(|_| !args.json) {
            writeln!(out, "-- {name}\n{}\n", sql.trim_end())?;
        }
        return Ok(Exit::Fine);
    }
    let applied = schema.migrate().await?;
    if args.json {
        show::json(out, &json!({ "applied": applied }))?;
    } else if applied.is_empty() {
        writeln!(out, "nothing to do: the schema is up to date")?;
    } else {
        applied.iter().try_for_each(|name| writeln!(out, "applied {name}"))?;
    }
    Ok(Exit::Fine)
}
