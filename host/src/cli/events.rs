//! `outhaul events`: find deliveries, see what happened to an event, act on it.

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::show::{self, Table, count};
use super::time::relative;
use super::{Context, Exit, lanes};
use crate::domain::{EventSeq, Timestamp};
use crate::store::{DeliveryFilter, DeliveryRow, DeliveryStatus, EventReport, PageEnd, Target, rfc3339};

/// Lists, shows, cancels and redelivers.
#[derive(Subcommand, Clone, Debug)]
pub enum EventsCommand {
    /// Deliveries, newest last
    List {
        #[command(flatten)]
        filter: Filter,
        #[arg(long, value_enum)]
        status: Option<Status>,
    },
    /// One event with its deliveries and the history of its attempts
    Show(Show),
    /// Ends pending deliveries of one event; a result that comes later is fenced
    Cancel(Act),
    /// Sends again what was delivered
    Redeliver(Act),
}

#[derive(Args, Clone, Debug)]
pub struct Filter {
    #[arg(long)]
    pub destination: Option<String>,
    #[arg(long)]
    pub topic: Option<String>,
    #[arg(long)]
    pub tenant: Option<String>,
    /// One event's ID
    #[arg(long)]
    pub id: Option<String>,
    /// Only what follows this event, or this delivery: the next page
    #[arg(long, value_name = "SEQUENCE[/DESTINATION]", value_parser = parse_page_end)]
    pub after: Option<PageEnd>,
    /// The most deliveries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    #[arg(long)]
    pub json: bool,
}

fn parse_page_end(text: &str) -> Result<PageEnd, String> {
    let (event, destination) = match text.split_once('/') {
        Some((event, destination)) => (event, Some(destination.to_owned())),
        None => (text, None),
    };
    let event =
        event.parse().map(EventSeq).map_err(|_| "write the SEQUENCE of a list's last row".to_owned())?;
    Ok(PageEnd { event, destination })
}

#[derive(Args, Clone, Debug)]
pub struct Show {
    event_id: String,
    #[arg(long, default_value = "")]
    tenant: String,
    /// Writes the payload, byte for byte, and nothing else
    #[arg(long, conflicts_with = "json")]
    payload: bool,
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Act {
    event_id: String,
    #[arg(long, default_value = "")]
    tenant: String,
    /// Only this destination's delivery
    #[arg(long)]
    destination: Option<String>,
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum Status {
    Pending,
    Delivered,
    Dead,
    Cancelled,
    Unrouted,
}

impl From<Status> for DeliveryStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::Delivered => Self::Delivered,
            Status::Dead => Self::Dead,
            Status::Cancelled => Self::Cancelled,
            Status::Unrouted => Self::Unrouted,
        }
    }
}

pub async fn run(
    context: &Context,
    command: &EventsCommand,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let operate = &context.stores.operate;
    match command {
        EventsCommand::List { filter, status } => list(context, filter, status.map(Into::into), out).await,
        EventsCommand::Show(show) => event(context, show, out).await,
        EventsCommand::Cancel(act) => {
            lanes::must_exist_if_given(context, act.destination.as_ref()).await?;
            let changed = operate.cancel(&act.target(), &context.who).await?;
            acted(context, act, changed, "cancelled", DeliveryStatus::Pending, out).await
        }
        EventsCommand::Redeliver(act) => {
            lanes::must_exist_if_given(context, act.destination.as_ref()).await?;
            let changed = operate.redeliver(&act.target(), &context.who).await?;
            acted(context, act, changed, "put back for delivery", DeliveryStatus::Delivered, out).await
        }
    }
}

pub async fn list(
    context: &Context,
    filter: &Filter,
    status: Option<DeliveryStatus>,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    lanes::must_exist_if_given(context, filter.destination.as_ref()).await?;
    let rows = context.stores.operate.deliveries(&filter.with(status)).await?;
    if filter.json {
        show::json(out, &rows)?;
        return Ok(Exit::Fine);
    }
    let now = context.stores.store.now().await?;
    let mut table =
        Table::new(&["SEQUENCE", "EVENT", "TOPIC", "DESTINATION", "STATUS", "ATTEMPTS", "CREATED", "NOTE"]);
    for row in &rows {
        table.row([
            row.sequence.to_string(),
            event_name(&row.tenant, &row.event_id),
            row.topic.clone(),
            row.destination.clone(),
            status_word(row.status).to_owned(),
            row.attempts.to_string(),
            relative(row.created_at, now),
            show::shortened(&note(row, now)),
        ]);
    }
    if table.is_empty() {
        writeln!(out, "nothing matches")?;
    } else {
        table.print(out)?;
    }
    if rows.len() == filter.limit as usize
        && let Some(last) = rows.last()
    {
        writeln!(out, "more may follow: --after '{}/{}'", last.sequence, last.destination)?;
    }
    Ok(Exit::Fine)
}

impl Filter {
    fn with(&self, status: Option<DeliveryStatus>) -> DeliveryFilter {
        DeliveryFilter {
            tenant: self.tenant.clone(),
            event_id: self.id.clone(),
            destination: self.destination.clone(),
            topic: self.topic.clone(),
            status,
            after: self.after.clone(),
            limit: self.limit,
        }
    }
}

impl Act {
    fn target(&self) -> Target {
        Target {
            tenant: Some(self.tenant.clone()),
            event_id: Some(self.event_id.clone()),
            destination: self.destination.clone(),
        }
    }
}

async fn acted(
    context: &Context,
    act: &Act,
    changed: u64,
    done: &str,
    from: DeliveryStatus,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    if changed == 0 {
        anyhow::bail!("nothing was {done}: {}", why_nothing(context, &act.target(), from).await?);
    }
    if act.json {
        show::json(out, &json!({ "changed": changed }))?;
    } else {
        writeln!(out, "{} {done}", count(changed, "delivery", "deliveries"))?;
    }
    Ok(Exit::Fine)
}

/// Why an act on one event changed nothing.
pub async fn why_nothing(
    context: &Context,
    target: &Target,
    wanted: DeliveryStatus,
) -> anyhow::Result<String> {
    let Some(event_id) = &target.event_id else {
        return Ok(format!("no {} delivery matches", status_word(wanted)));
    };
    let tenant = target.tenant.as_deref().unwrap_or_default();
    let Some(report) = context.stores.operate.show(tenant, event_id).await? else {
        return Ok(format!(
            "there is no event {} (is it of another --tenant?)",
            event_name(tenant, event_id)
        ));
    };
    let states: Vec<String> = report
        .deliveries
        .iter()
        .filter(|row| target.destination.as_ref().is_none_or(|wanted| *wanted == row.destination))
        .map(|row| format!("{} for {}", status_word(row.status), row.destination))
        .collect();
    Ok(match states.is_empty() {
        true => format!("{event_id} has no delivery for that destination"),
        false => format!("{event_id} is {}; only {} ones can be", states.join(", "), status_word(wanted)),
    })
}

pub async fn event(context: &Context, args: &Show, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let operate = &context.stores.operate;
    let Some(report) = operate.show(&args.tenant, &args.event_id).await? else {
        let name = event_name(&args.tenant, &args.event_id);
        anyhow::bail!("there is no event {name} (is it of another --tenant?)");
    };
    if args.payload {
        let payload = operate.payload(EventSeq(report.sequence)).await?.unwrap_or_default();
        out.write_all(&payload)?;
    } else if args.json {
        show::json(out, &report)?;
    } else {
        print(&report, context.stores.store.now().await?, out)?;
    }
    Ok(Exit::Fine)
}

fn print(report: &EventReport, now: Timestamp, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let time = |at: Timestamp| format!("{} ({})", rfc3339(at), relative(at, now));
    let mut lines = vec![
        ("event", event_name(&report.tenant, &report.event_id)),
        ("sequence", report.sequence.to_string()),
        ("topic", report.topic.clone()),
        ("created", time(report.created_at)),
        ("payload", format!("{} bytes of {}", report.payload_bytes, report.content_type)),
    ];
    lines.extend(report.key.iter().map(|key| ("key", key.clone())));
    lines.extend(report.available_at.map(|at| ("available", time(at))));
    lines.extend(report.expires_at.map(|at| ("expires", time(at))));
    lines.extend(report.headers.iter().map(|(name, value)| ("header", format!("{name}: {value}"))));
    for (name, value) in lines {
        writeln!(out, "{name:9} {}", show::printable(&value))?;
    }
    let mut table = Table::new(&["DESTINATION", "STATUS", "ATTEMPTS", "DEFERRALS", "LOST", "NOTE"]);
    for row in &report.deliveries {
        table.row([
            row.destination.clone(),
            status_word(row.status).to_owned(),
            row.attempts.to_string(),
            row.deferrals.to_string(),
            row.lost.to_string(),
            note(row, now),
        ]);
    }
    writeln!(out)?;
    table.print(out)?;
    history(report, now, out)
}

fn history(report: &EventReport, now: Timestamp, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
    let mut table = Table::new(&["FENCE", "DESTINATION", "ATTEMPT", "OUTCOME", "ENDED", "HOST", "MESSAGE"]);
    for attempt in &report.attempts {
        let uncertain = if attempt.uncertain { ", may have taken effect" } else { "" };
        let message = attempt.code.iter().chain(&attempt.message).filter(|text| !text.is_empty());
        table.row([
            attempt.fence.to_string(),
            attempt.destination.clone(),
            attempt.attempt.to_string(),
            format!("{}{uncertain}", attempt.outcome),
            attempt.ended_at.map(|at| relative(at, now)).unwrap_or_default(),
            attempt.host.clone(),
            message.cloned().collect::<Vec<_>>().join(": "),
        ]);
    }
    if !table.is_empty() {
        writeln!(out)?;
        table.print(out)?;
    }
    Ok(())
}

/// The most telling thing about a delivery, in a few words.
fn note(row: &DeliveryRow, now: Timestamp) -> String {
    let mut notes = Vec::new();
    match (row.status, row.lease_until, row.due_at) {
        (DeliveryStatus::Pending, Some(until), _) if until > now => {
            notes.push(format!("in flight on {}", row.claimed_by.as_deref().unwrap_or("a host")));
        }
        (DeliveryStatus::Pending, _, Some(due)) if due > now => {
            notes.push(format!("due {}", relative(due, now)))
        }
        _ => {}
    }
    notes.extend(row.disposition.clone().filter(|text| text != status_word(row.status)));
    notes.extend(row.reference.clone());
    notes.extend(
        row.last_error.clone().filter(|text| !text.is_empty() && row.status != DeliveryStatus::Delivered),
    );
    notes.join("; ")
}

fn event_name(tenant: &str, event_id: &str) -> String {
    if tenant.is_empty() { event_id.to_owned() } else { format!("{tenant}/{event_id}") }
}

fn status_word(status: DeliveryStatus) -> &'static str {
    match status {
        DeliveryStatus::Pending => "pending",
        DeliveryStatus::Delivered => "delivered",
        DeliveryStatus::Dead => "dead",
        DeliveryStatus::Cancelled => "cancelled",
        DeliveryStatus::Unrouted => "unrouted",
    }
}
