//! `outhaul emit`: insert events as any producer would.

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::lines::{Fields, Line};
use super::time::When;
use super::{Context, Exit, Misuse, progress, show};
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

/// Events of one transaction: large enough to be quick, small enough not to block writers.
const EVENTS_PER_TRANSACTION: usize = 500;

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
        true => lines(context, args, now, out).await,
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

async fn lines(
    context: &Context,
    args: &EmitArgs,
    now: Timestamp,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let bar = progress::bar(count_lines(args), "emitting");
    let mut tally = Tally::default();
    let mut batch = Vec::new();
    let mut number = 0;
    for line in open(args)?.split(b'\n') {
        number += 1;
        let line = line.with_context(|| format!("{} can't be read at line {number}", source(args)))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let event = event_of_line(context, args, now, line).with_context(|| {
            format!("{} line {number} ({} before it)", source(args), tally.words_with(&batch))
        });
        match event {
            Ok(event) => batch.push(event),
            Err(error) => {
                // What came before is good, and would otherwise have to be sent again.
                tally.emit(context, &mut batch).await?;
                return Err(error);
            }
        }
        if batch.len() == EVENTS_PER_TRANSACTION {
            tally.emit(context, &mut batch).await?;
            bar.set_position(number);
        }
    }
    tally.emit(context, &mut batch).await?;
    bar.finish_and_clear();
    if args.json {
        show::json(out, &json!({ "inserted": tally.inserted, "existed": tally.existed }))?;
    } else {
        writeln!(out, "{}", tally.words_with(&[]))?;
    }
    Ok(Exit::Fine)
}

#[derive(Default)]
struct Tally {
    inserted: u64,
    existed: u64,
}

impl Tally {
    async fn emit(&mut self, context: &Context, batch: &mut Vec<NewEvent>) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let emitted = context
            .stores
            .operate
            .emit(batch)
            .await
            .with_context(|| format!("{} before this error", self.words_with(&[])))?;
        let inserted = emitted.iter().filter(|one| matches!(one, Emitted::Inserted(_))).count() as u64;
        self.inserted += inserted;
        self.existed += emitted.len() as u64 - inserted;
        batch.clear();
        Ok(())
    }

    /// The count once `waiting` is emitted too.
    fn words_with(&self, waiting: &[NewEvent]) -> String {
        let emitted = show::count(self.inserted + waiting.len() as u64, "event emitted", "events emitted");
        match self.existed {
            0 => emitted,
            existed => format!("{emitted}, {existed} existed already"),
        }
    }
}

fn event_of_line(
    context: &Context,
    args: &EmitArgs,
    now: Timestamp,
    line: Vec<u8>,
) -> anyhow::Result<NewEvent> {
    let Line { payload, id, key } = args.fields.read(line)?;
    let template = template(context, args, now);
    Ok(NewEvent { id: id.unwrap_or(template.id), key, payload, ..template })
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

/// For the bar's length; standard input has none, nor has what can be read only once.
fn count_lines(args: &EmitArgs) -> Option<u64> {
    let path = path(args)?;
    if !path.metadata().is_ok_and(|found| found.is_file()) {
        return None;
    }
    let file = std::io::BufReader::new(std::fs::File::open(path).ok()?);
    Some(file.split(b'\n').count() as u64)
}
