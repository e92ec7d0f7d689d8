//! `outhaul lanes`: see, pause and resume the streams of deliveries.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

use super::show::{self, Table};
use super::time::{relative, short};
use super::{Context, Exit, Misuse};
use crate::domain::Timestamp;
use crate::service::config::nearest;
use crate::store::{HostNotes, HostReport, LaneReport, LaneState, LoadedNote, UNROUTED_NAME};

/// Lists, pauses and resumes lanes.
#[derive(Subcommand, Clone, Debug)]
pub enum LanesCommand {
    /// Every destination with its state and backlog
    List {
        #[arg(long)]
        json: bool,
    },
    /// Starts no delivery of this destination on any host until `lanes resume`
    Pause {
        destination: String,
        /// Shown to others
        #[arg(long, default_value = "paused by an operator")]
        reason: String,
        #[arg(long)]
        json: bool,
    },
    /// Makes a paused or stopped lane active again
    Resume {
        destination: String,
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(
    context: &Context,
    command: &LanesCommand,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let operate = &context.stores.operate;
    match command {
        LanesCommand::List { json } => {
            let lanes = operate.lane_reports().await?;
            let hosts = living(operate.hosts().await?, context.stores.store.now().await?);
            match json {
                true => show::json(out, &with_rates(&lanes, &hosts))?,
                false => lane_table(&lanes, &hosts).print(out)?,
            }
            Ok(Exit::Fine)
        }
        LanesCommand::Pause { destination, reason, json } => {
            must_exist(context, destination).await?;
            let changed = operate.pause(destination, reason, &context.who).await?;
            report(context, destination, changed, "paused", *json, out).await
        }
        LanesCommand::Resume { destination, json } => {
            must_exist(context, destination).await?;
            let changed = operate.resume(destination, &context.who).await?;
            report(context, destination, changed, "active", *json, out).await
        }
    }
}

async fn report(
    context: &Context,
    destination: &str,
    changed: bool,
    wanted: &str,
    json: bool,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    let lane = must_exist(context, destination).await?;
    if json {
        show::json(out, &json!({ "destination": destination, "changed": changed, "state": lane.state }))?;
    } else if changed {
        writeln!(out, "{destination} is now {}", state(lane.state))?;
    } else {
        writeln!(out, "{destination} is {} and was left as it was", state(lane.state))?;
    }
    // A removed lane that was asked to resume is no success for a script.
    Ok(if changed || state(lane.state) == wanted { Exit::Fine } else { Exit::Problem })
}

/// A name that no lane has is a typing error, and not a lane without deliveries. The unrouted events
/// are reported only where there are some.
pub async fn must_exist_if_given(context: &Context, destination: Option<&String>) -> anyhow::Result<()> {
    match destination {
        Some(name) if name != UNROUTED_NAME => must_exist(context, name).await.map(|_| ()),
        _ => Ok(()),
    }
}

async fn must_exist(context: &Context, destination: &str) -> anyhow::Result<LaneReport> {
    let mut lanes = context.stores.operate.lane_reports().await?;
    match lanes.iter().position(|lane| lane.destination == destination) {
        Some(at) => Ok(lanes.swap_remove(at)),
        None => {
            let known: Vec<&str> = lanes.iter().map(|lane| lane.destination.as_str()).collect();
            let near = nearest(destination, &known).map(|near| format!("; did you mean {near}?"));
            Err(Misuse(format!(
                "there is no destination {destination:?}{}; there are: {}",
                near.unwrap_or_default(),
                known.join(", ")
            ))
            .into())
        }
    }
}

pub fn lane_table(lanes: &[LaneReport], hosts: &[HostReport]) -> Table {
    let mut table = Table::new(&[
        "LANE",
        "STATE",
        "PENDING",
        "IN FLIGHT",
        "PER MIN",
        "DEAD",
        "OLDEST",
        "COMPONENT",
        "REASON",
    ]);
    for LaneWithRate { lane, delivered_per_minute } in with_rates(lanes, hosts) {
        let stopped_on =
            hosts.iter().filter(|host| host.notes.problems.iter().any(|p| p.destination == lane.destination));
        let stopped_on = stopped_on.count();
        let mut shown = state(lane.state).to_owned();
        if let Some(until) = lane.paused_until {
            shown = format!("{shown}, probe {}", relative(until, lane.now));
        }
        if stopped_on > 0 {
            shown = format!("{shown}, fails on {}", show::count(stopped_on as u64, "host", "hosts"));
        }
        let capped = |number: u64| match number >= lane.counted_up_to {
            true => format!("{number}+"),
            false => number.to_string(),
        };
        let of_lane = |host: &HostReport| {
            let mut loaded = host.notes.loaded.iter();
            loaded.find(|loaded| loaded.destination == lane.destination).map(component)
        };
        let components: BTreeSet<String> = hosts.iter().filter_map(of_lane).collect();
        let oldest = lane.oldest_pending.map(|at| short(lane.now.since(at))).unwrap_or_default();
        table.row([
            lane.destination.clone(),
            shown,
            capped(lane.pending),
            lane.leased.to_string(),
            delivered_per_minute.map_or_else(|| "–".to_owned(), |rate| rate.to_string()),
            capped(lane.dead),
            oldest,
            components.into_iter().collect::<Vec<_>>().join(", "),
            show::shortened(lane.reason.as_deref().unwrap_or_default()),
        ]);
    }
    table
}

/// A lane, and what the living hosts deliver in it.
#[derive(Serialize)]
pub struct LaneWithRate<'a> {
    #[serde(flatten)]
    lane: &'a LaneReport,
    /// None if no host has it, or none has told yet.
    delivered_per_minute: Option<u64>,
}

pub fn with_rates<'a>(lanes: &'a [LaneReport], hosts: &[HostReport]) -> Vec<LaneWithRate<'a>> {
    let rate = |lane: &LaneReport| {
        let told = hosts.iter().flat_map(|host| &host.notes.rates);
        let of_lane = told.filter(|rate| rate.destination == lane.destination);
        of_lane.map(|rate| rate.delivered_per_minute).reduce(|sum, rate| sum + rate)
    };
    lanes.iter().map(|lane| LaneWithRate { lane, delivered_per_minute: rate(lane) }).collect()
}

pub fn state(state: LaneState) -> &'static str {
    match state {
        LaneState::Active => "active",
        LaneState::Paused => "paused",
        LaneState::Stopped => "stopped",
        LaneState::Removed => "removed",
    }
}

/// A component as a person tells it from another, with the generation it is on its host.
fn component(loaded: &LoadedNote) -> String {
    match loaded.component_digest.get(..DIGEST_SHOWN) {
        Some(digest) => format!("{digest} #{}", loaded.generation),
        None => "none".to_owned(),
    }
}

/// What each host can't run and what it could not reload, one line each.
pub fn problems_of(hosts: &[HostReport]) -> Vec<String> {
    let of_host = |host: &HostReport| -> Vec<String> {
        let HostNotes { problems, loaded, reload_error, rates: _ } = &host.notes;
        let problems = problems
            .iter()
            .map(|problem| format!("problem: {} on {}: {}", problem.destination, host.host, problem.problem));
        let refused = loaded.iter().filter_map(|loaded| {
            let (name, generation) = (&loaded.destination, loaded.generation);
            let error = loaded.reload_error.as_ref()?;
            Some(format!("reload: {name} on {} stays at #{generation}: {error}", host.host))
        });
        let config = reload_error.iter().map(|error| format!("reload: {}: {error}", host.host));
        problems.chain(refused).chain(config).collect()
    };
    hosts.iter().flat_map(of_host).collect()
}

/// The hosts that are there: one says so far more often than this.
pub fn living(hosts: Vec<HostReport>, now: Timestamp) -> Vec<HostReport> {
    hosts.into_iter().filter(|host| now.since(host.last_seen) < SILENT_AFTER).collect()
}

const SILENT_AFTER: Duration = Duration::from_secs(60);

/// Hex digits of a digest in a table; `--json` has all of them.
const DIGEST_SHOWN: usize = 8;
