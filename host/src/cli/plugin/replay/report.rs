//! What is told of a replay: each event that differs, as it is found, and a summary.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::json;

use super::source::Recorded;
use crate::cli::Exit;
use crate::cli::show::{Table, count, printable};
use crate::kit::replay::{Difference, Made, Side, told};

/// Told of what is not there in a replay; further ones are only counted.
const UNREACHED_TOLD: usize = 10;

pub struct Report<'o> {
    out: &'o mut (dyn Write + Send),
    json: bool,
    events: u64,
    other_outcome: u64,
    other_request: u64,
    current: BTreeMap<&'static str, u64>,
    candidate: BTreeMap<&'static str, u64>,
    /// What the two asked for and is not there, and for how many events.
    unreached: BTreeMap<String, u64>,
    /// Events of which something was asked for that is not there.
    events_unreached: u64,
}

impl<'o> Report<'o> {
    pub fn begin(
        out: &'o mut (dyn Write + Send),
        json: bool,
        current: &Side,
        candidate: &Side,
    ) -> anyhow::Result<Self> {
        let (old, new) = (current.digest(), candidate.digest());
        if json {
            write!(out, "{{\"current\": \"{old}\", \"candidate\": \"{new}\", \"differences\": [")?;
        } else {
            writeln!(out, "current    sha256 {old}\ncandidate  sha256 {new}")?;
            if old == new {
                writeln!(out, "they are the same component")?;
            }
            writeln!(out)?;
        }
        Ok(Self {
            out,
            json,
            events: 0,
            other_outcome: 0,
            other_request: 0,
            current: BTreeMap::new(),
            candidate: BTreeMap::new(),
            unreached: BTreeMap::new(),
            events_unreached: 0,
        })
    }

    /// The next event. What differs is written at once: there may be any number of events.
    pub fn event(
        &mut self,
        recorded: &Recorded,
        old: &Made,
        new: &Made,
        differences: &[Difference],
    ) -> anyhow::Result<()> {
        self.events += 1;
        *self.current.entry(old.outcome.kind()).or_default() += 1;
        *self.candidate.entry(new.outcome.kind()).or_default() += 1;
        let mut unreached: Vec<_> = old.heard.unreached.iter().chain(&new.heard.unreached).collect();
        unreached.sort_unstable();
        unreached.dedup();
        self.events_unreached += u64::from(!unreached.is_empty());
        for what in unreached {
            if self.unreached.len() < UNREACHED_TOLD || self.unreached.contains_key(what) {
                *self.unreached.entry(what.clone()).or_default() += 1;
            }
        }
        if differences.is_empty() {
            return Ok(());
        }
        let is_first = self.other_outcome + self.other_request == 0;
        match differences.iter().any(Difference::is_of_outcome) {
            true => self.other_outcome += 1,
            false => self.other_request += 1,
        }
        if self.json {
            let event = json!({
                "event_id": recorded.event.id,
                "tenant": recorded.event.tenant,
                "sequence": recorded.event.seq.0,
                "topic": recorded.event.topic,
                "recorded": recorded.outcome,
                "current": told(&old.outcome),
                "candidate": told(&new.outcome),
                "differences": differences,
            });
            let comma = if is_first { "" } else { "," };
            write!(self.out, "{comma}\n{event}")?;
            return Ok(());
        }
        self.lines(recorded, differences)
    }

    fn lines(&mut self, recorded: &Recorded, differences: &[Difference]) -> anyhow::Result<()> {
        let event = &recorded.event;
        let tenant =
            if event.tenant.is_empty() { String::new() } else { format!(" of tenant {}", event.tenant) };
        let outcome = recorded.outcome.as_ref().map(|outcome| format!(", recorded as {outcome}"));
        let head = format!("{}{tenant}, {}{}", event.id, event.topic, outcome.unwrap_or_default());
        writeln!(self.out, "{}", printable(&head))?;
        for it in differences {
            let line = format!("  {}: {} → {}", it.what, it.current, it.candidate);
            writeln!(self.out, "{}", printable(&line))?;
        }
        Ok(())
    }

    /// The next event can't be had. What was written so far is made whole for whoever reads it.
    pub fn break_off(self, error: &anyhow::Error) -> anyhow::Result<()> {
        if self.json {
            let error = json!({ "events": self.events, "error": format!("{error:#}") }).to_string();
            writeln!(self.out, "\n], {}", error.trim_start_matches('{'))?;
        }
        Ok(())
    }

    /// `nothing` says why there was no event, if so.
    pub fn end(self, nothing: &str) -> anyhow::Result<Exit> {
        let differing = self.other_outcome + self.other_request;
        let same = self.events - differing;
        // A gate must not open because there was nothing to see.
        let is_blind = self.events_unreached == self.events;
        let exit = if is_blind || differing > 0 { Exit::Problem } else { Exit::Fine };
        if self.json {
            let summary = json!({
                "events": self.events,
                "same": same,
                "other_outcome": self.other_outcome,
                "other_request": self.other_request,
                "outcomes": { "current": self.current, "candidate": self.candidate },
                "unreached": self.unreached,
                "events_unreached": self.events_unreached,
            });
            let fields = summary.to_string();
            writeln!(self.out, "\n], {}", fields.trim_start_matches('{'))?;
            return Ok(exit);
        }
        if self.events == 0 {
            writeln!(self.out, "{nothing}, so nothing was compared")?;
            return Ok(exit);
        }
        if differing > 0 {
            writeln!(self.out)?;
        }
        let mut table = Table::new(&["OUTCOME", "CURRENT", "CANDIDATE"]);
        let mut kinds: Vec<_> = self.current.keys().chain(self.candidate.keys()).copied().collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            let of = |side: &BTreeMap<_, u64>| side.get(kind).copied().unwrap_or_default().to_string();
            table.row([kind.to_owned(), of(&self.current), of(&self.candidate)]);
        }
        table.print(self.out)?;
        for (what, events) in &self.unreached {
            let line = format!(
                "{}: {what} was asked for, which is not there in a replay",
                count(*events, "event", "events")
            );
            writeln!(self.out, "{}", printable(&line))?;
        }
        let events = count(self.events, "event", "events");
        let (outcome, request) = (self.other_outcome, self.other_request);
        let others = format!("{outcome} with another outcome, {request} with another request only");
        writeln!(self.out, "\n{events}: {same} the same, {others}")?;
        if is_blind {
            writeln!(
                self.out,
                "every event asked for what is not there in a replay, so what would be done with it was not \
                 compared: try the component as a canary"
            )?;
        }
        Ok(exit)
    }
}
