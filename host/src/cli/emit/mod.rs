//! `outhaul emit`: insert events as any producer would.

mod many;

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::lines::Fields;
use super::time::When;
use super::{Context, Exit, Misuse, show};
use crate::domain::Timestamp;
use crate::domain::topic::check_topic;
use crate::store::{Emitted, NewEvent};

/// Inserts events: one, or with --lines one for each line.
#[derive(Args, Clone, Debug)]
pub struct EmitArgs {
    /// Dot-separated, as in order.created
    topic: String,
    /// The payload; `-` or nothing is standard input
    file: Option<PathBuf>,
    /// Each line of the file is the JSON payload of one event
    #[arg(long, conflicts_with_all = ["id", "key"])]
    lines: bool,
    /// The event's ID; else a UUID
    #[arg(long)]
    id: Option<String>,
    /// Events of one key can be delivered in order
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    fields: Fields,
    #[arg(long, default_value = "")]
    tenant: String,
    /// Repeatable
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// [default: application/json]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Not to be delivered before: RFC 3339, or +15m
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    available_at: Option<When>,
    /// A dead letter if not begun before: RFC 3339, or +15m
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    expires_at: Option<When>,
    #[arg(long)]
    json: bool,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

pub async fn run(context: &Context, args: &EmitArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    check_arguments(args)?;
    if !args.lines {
        args.fields.check_unused("--lines")?;
    }
    let now = context.stores.store.now().await?;
    match args.lines {
        false => one(context, args, now, out).await,
        true => many::lines(context, args, now, out).await,
    }
}

/// What the table would refuse, said before anything is read or inserted.
fn check_arguments(args: &EmitArgs) -> Result<(), Misuse> {
    check_topic(&args.topic).map_err(|why| Misuse(format!("{:?} is not a topic: {why}", args.topic)))?;
    let given = |option: &'static str, text: &Option<String>, least| {
        text.as_deref().map_or(Ok(()), |text| check_text(option, text, least))
    };
    given("--id", &args.id, 1)?;
    given("--key", &args.key, 1)?;
    given("--content-type", &args.content_type, 1)?;
    check_text("--tenant", &args.tenant, 0)
}

fn check_text(what: &str, text: &str, least: usize) -> Result<(), Misuse> {
    const MOST: usize = 255;
    if !(least..=MOST).contains(&text.len()) {
        return Err(Misuse(format!("{what} has {} bytes; it takes {least} to {MOST}", text.len())));
    }
    match text.contains('\0') {
        true => Err(Misuse(format!("{what} holds a NUL, which no database keeps in text"))),
        false => Ok(()),
    }
}

async fn one(
    context: &Context,
    args: &EmitArgs,
    now: Timestamp,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let mut payload = Vec::new();
    open(args)?.read_to_end(&mut payload).with_context(|| format!("{} can't be read", source(args)))?;
    let event = NewEvent { payload, ..template(context, args, now) };
    let emitted = context.stores.operate.emit(std::slice::from_ref(&event)).await?;
    let sequence = match emitted.first() {
        Some(Emitted::Inserted(seq)) => Some(seq.0),
        _ => None,
    };
    if args.json {
        show::json(out, &json!({ "id": event.id, "sequence": sequence, "existed": sequence.is_none() }))?;
    } else if sequence.is_some() {
        writeln!(out, "emitted {}", event.id)?;
    } else {
        writeln!(out, "{} existed already and is left as it was", event.id)?;
    }
    Ok(Exit::Fine)
}

fn template(context: &Context, args: &EmitArgs, now: Timestamp) -> NewEvent {
    NewEvent {
        tenant: args.tenant.clone(),
        id: args.id.clone().unwrap_or_else(|| uuid::Uuid::from_bytes(context.clock.token().0).to_string()),
        topic: args.topic.clone(),
        payload: Vec::new(),
        key: args.key.clone(),
        headers: args.headers.clone(),
        content_type: args.content_type.clone(),
        available_at: args.available_at.map(|when| when.resolve(now)),
        expires_at: args.expires_at.map(|when| when.resolve(now)),
    }
}

fn source(args: &EmitArgs) -> String {
    match path(args) {
        Some(path) => path.display().to_string(),
        None => "standard input".to_owned(),
    }
}

fn path(args: &EmitArgs) -> Option<&PathBuf> {
    args.file.as_ref().filter(|file| file.as_os_str() != "-")
}

fn open(args: &EmitArgs) -> anyhow::Result<Box<dyn BufRead + Send>> {
    match path(args) {
        Some(path) => {
            let file =
                std::fs::File::open(path).with_context(|| format!("{} can't be opened", path.display()))?;
            Ok(Box::new(std::io::BufReader::new(file)))
        }
        None => Ok(Box::new(std::io::BufReader::new(std::io::stdin()))),
    }
}

#[cfg(test)]
mod tests;
