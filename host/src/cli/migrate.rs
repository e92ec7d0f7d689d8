//! `outhaul migrate`: create or upgrade the outbox's tables.

use std::io::Write;

use clap::Args;
use serde_json::json;

use super::context::load_config;
use super::{Common, Context, Exit, show};
use crate::service::stores::{missing_file, status_of_nothing};
use crate::store::SchemaStatus;

/// Creates or upgrades the outbox's tables.
#[derive(Args, Clone, Debug)]
pub struct MigrateArgs {
    /// Only print the SQL that would run
    #[arg(long)]
    dry_run: bool,
    #[arg(long)]
    json: bool,
}

pub async fn run(common: &Common, args: &MigrateArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let config = load_config(common)?;
    if args.dry_run && missing_file(&config).is_some() {
        return tell_pending(&status_of_nothing(), args.json, out);
    }
    migrate(&Context::open_any_schema(&config, common, !args.dry_run).await?, args, out).await
}

pub async fn migrate(
    context: &Context,
    args: &MigrateArgs,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let schema = &context.stores.schema;
    if args.dry_run {
        return tell_pending(&schema.status().await?, args.json, out);
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

fn tell_pending(status: &SchemaStatus, json: bool, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let SchemaStatus { installed, newest_known: newest, pending } = status;
    if json {
        let pending: Vec<_> = pending.iter().map(|(name, sql)| json!({ "name": name, "sql": sql })).collect();
        show::json(out, &json!({ "installed": installed, "newest": newest, "pending": pending }))?;
        return Ok(Exit::Fine);
    }
    if pending.is_empty() {
        writeln!(out, "-- nothing to do: the schema is at version {newest}")?;
    }
    for (name, sql) in pending {
        writeln!(out, "-- {name}\n{}\n", sql.trim_end())?;
    }
    Ok(Exit::Fine)
}
