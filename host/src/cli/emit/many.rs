//! `emit --lines`: an event a line. A line that is wrong is told with its number, and costs no other line.

use std::io::{BufRead, Write};

use anyhow::{Context as _, anyhow};
use serde::Serialize;
use serde_json::json;

use super::{EmitArgs, open, path, source, template};
use crate::cli::lines::Line;
use crate::cli::{Context, Exit, progress, show};
use crate::domain::Timestamp;
use crate::store::{Emitted, NewEvent, StoreError, StoreResult};

/// Events of one transaction: large enough to be quick, small enough not to block writers.
const EVENTS_PER_TRANSACTION: usize = 500;

/// Wrong lines that are told where all lines are to be emitted again; further ones are only counted.
const WRONG_TOLD: usize = 20;

pub async fn lines(
    context: &Context,
    args: &EmitArgs,
    now: Timestamp,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let bar = progress::bar(count_lines(args), "emitting");
    let mut tally = Tally { has_ids: args.fields.has_ids(), ..Tally::default() };
    let mut batch = Vec::new();
    let mut number = 0;
    for line in open(args)?.split(b'\n') {
        number += 1;
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                tally.emit(context, &mut batch).await?;
                let place =
                    format!("{} can't be read at line {number} ({} before it)", source(args), tally.words());
                return Err(anyhow!(error).context(place));
            }
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        match event_of_line(context, args, now, line) {
            Ok(event) => batch.push((number, event)),
            Err(why) => tally.refuse(number, format!("{why:#}")),
        }
        if batch.len() == EVENTS_PER_TRANSACTION {
            tally.emit(context, &mut batch).await?;
            bar.set_position(number);
        }
    }
    tally.emit(context, &mut batch).await?;
    bar.finish_and_clear();
    tally.tell(args, out)
}

#[derive(Default)]
struct Tally {
    inserted: u64,
    existed: u64,
    refused: u64,
    /// The file may be emitted again as a whole.
    has_ids: bool,
    /// The first of them, or all where each has to be found.
    wrong: Vec<Wrong>,
}

#[derive(Serialize)]
struct Wrong {
    line: u64,
    why: String,
}

impl Tally {
    async fn emit(&mut self, context: &Context, batch: &mut Vec<(u64, NewEvent)>) -> anyhow::Result<()> {
        let (numbers, events): (Vec<_>, Vec<_>) = std::mem::take(batch).into_iter().unzip();
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(()) };
        let place = |tally: &Self| {
            format!(
                "lines {first} to {last} may be emitted or not, and no later one is ({} before)",
                tally.words()
            )
        };
        match context.stores.operate.emit(&events).await {
            Ok(emitted) => self.count(&emitted),
            Err(error @ StoreError::Unavailable(_)) => return Err(anyhow!(error).context(place(self))),
            // One of them is at fault, and must not take the others with it.
            Err(_) => {
                for (number, event) in numbers.iter().zip(&events) {
                    let emitted = context.stores.operate.emit(std::slice::from_ref(event)).await;
                    self.count_one(*number, emitted).with_context(|| place(self))?;
                }
            }
        }
        Ok(())
    }

    fn count_one(&mut self, number: u64, emitted: StoreResult<Vec<Emitted>>) -> Result<(), StoreError> {
        match emitted {
            Ok(emitted) => self.count(&emitted),
            Err(error @ StoreError::Unavailable(_)) => return Err(error),
            Err(error) => self.refuse(number, error.to_string()),
        }
        Ok(())
    }

    fn count(&mut self, emitted: &[Emitted]) {
        let inserted = emitted.iter().filter(|one| matches!(one, Emitted::Inserted(_))).count() as u64;
        self.inserted += inserted;
        self.existed += emitted.len() as u64 - inserted;
    }

    fn refuse(&mut self, line: u64, why: String) {
        self.refused += 1;
        if !self.has_ids || self.wrong.len() < WRONG_TOLD {
            self.wrong.push(Wrong { line, why });
        }
    }

    fn words(&self) -> String {
        let emitted = show::count(self.inserted, "event emitted", "events emitted");
        match self.existed {
            0 => emitted,
            existed => format!("{emitted}, {existed} existed already"),
        }
    }

    fn tell(&self, args: &EmitArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
        let Self { inserted, existed, refused, wrong, has_ids } = self;
        let exit = if *refused == 0 { Exit::Fine } else { Exit::Problem };
        if args.json {
            show::json(
                out,
                &json!({ "inserted": inserted, "existed": existed, "refused": refused, "wrong_lines": wrong }),
            )?;
            return Ok(exit);
        }
        let file = source(args);
        for Wrong { line, why } in wrong {
            writeln!(out, "{}", show::printable(&format!("{file} line {line}: {why}")))?;
        }
        if *refused > wrong.len() as u64 {
            writeln!(out, "and {} more", refused - wrong.len() as u64)?;
        }
        if *refused == 0 {
            writeln!(out, "{}", self.words())?;
            return Ok(exit);
        }
        let were = show::count(*refused, "line was", "lines were");
        let again = match has_ids {
            true => "mend them and emit the whole again: what has its ID is not inserted twice",
            false => "mend them and emit them alone, since the others would be inserted twice",
        };
        writeln!(out, "{}; {were} not emitted; {again}", self.words())?;
        Ok(exit)
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
    let event = NewEvent { id: id.unwrap_or(template.id), key, payload, ..template };
    event.check().map_err(anyhow::Error::msg)?;
    Ok(event)
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
