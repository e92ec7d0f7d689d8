//! `outhaul plugin replay`: a component over recorded events, beside the one that a destination runs,
//! with nothing leaving this machine.

mod report;
mod source;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use self::report::Report;
use self::source::{Recorded, Source};
use super::destination::{find, with_component};
use crate::cli::context::load_config;
use crate::cli::lines::Fields;
use crate::cli::{Common, Exit, Misuse, progress};
use crate::clock::{SharedClock, SystemClock};
use crate::domain::Fence;
use crate::domain::topic::Pattern;
use crate::kit::replay::{Answering, Side, Step, differences, read_answer, read_answers};
use crate::plugin::{Call, WentTo, dedup_id};
use crate::service::mapping::plugin_spec;
use crate::service::plugins::runtime_settings;

/// Runs a component over recorded events, with nothing leaving this machine, and shows where it
/// differs from the one the destination runs: in what comes of an event, and in what it sends.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    component: PathBuf,
    /// The destination whose component it is compared with; both get its settings, grants and limits
    #[arg(long, value_name = "NAME")]
    destination: String,
    /// The most events, the newest first
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Only events of these topics, such as order.*; with --events: the topic of all of them
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Take the events from a file (`-` is standard input), each line the JSON payload of one, as
    /// `emit --lines` does; else the destination's delivered and dead ones
    #[arg(long, value_name = "FILE", requires = "topic")]
    events: Option<PathBuf>,
    #[command(flatten)]
    fields: Fields,
    /// What each request is answered: a status, or refuse, reset or silent. Repeatable: the answers to
    /// the requests of one event in turn, the last one again and again [default: 200]
    #[arg(long = "answer", value_name = "ANSWER", value_parser = read_answer)]
    answers: Vec<Step>,
    /// The same with headers and bodies: a file with `[[server]]`, as a case has it
    #[arg(long, value_name = "FILE", conflicts_with = "answers")]
    answers_file: Option<PathBuf>,
    /// Don't compare this header of requests. Repeatable
    #[arg(long, value_name = "NAME")]
    ignore_header: Vec<String>,
    #[arg(long)]
    json: bool,
}

pub async fn run(common: &Common, args: &ReplayArgs, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let topics = args.topic.as_deref().map(Pattern::parse).transpose();
    let topics = topics
        .map_err(|why| Misuse(format!("--topic {}: {why}", args.topic.as_deref().unwrap_or_default())))?;
    if args.events.is_none() {
        args.fields.check_unused("--events")?;
    }
    let answers = match &args.answers_file {
        Some(file) => read_answers(file).map_err(Misuse)?,
        None => args.answers.clone(),
    };
    let config = load_config(common)?;
    let destination = find(&config, &args.destination)?;
    let clock: SharedClock = Arc::new(SystemClock);
    let answering = Answering::new(answers, clock.wall());
    let settings = runtime_settings(&config.file, clock.clone());
    let load = async |spec| Side::load(&settings, &clock, spec, &answering).await;
    let current = load(plugin_spec(&args.destination, destination))
        .await
        .context("the component of the config can't be loaded, so there is nothing to compare with")?;
    let candidate = load(with_component(&args.destination, destination, &args.component))
        .await
        .with_context(|| format!("{} can't be loaded", args.component.display()))?;

    let mut source = Source::open(common, args, topics, clock.wall()).await?;
    let mut report = Report::begin(out, args.json, &current, &candidate)?;
    let budget = destination.limits.call.0;
    match compare(args, [&current, &candidate], budget, &mut source, &mut report).await {
        Ok(()) => report.end(&source.nothing()),
        Err(error) => {
            report.break_off(&error)?;
            Err(error)
        }
    }
}

/// Every event of the source by both, until there is no more or one can't be had.
async fn compare(
    args: &ReplayArgs,
    [current, candidate]: [&Side; 2],
    budget: Duration,
    source: &mut Source,
    report: &mut Report<'_>,
) -> anyhow::Result<()> {
    let ignored: BTreeSet<_> = args.ignore_header.iter().map(|name| name.to_ascii_lowercase()).collect();
    let bar = progress::bar(Some(args.limit), "replaying");
    let mut left = args.limit;
    while left > 0
        && let Some(recorded) = source.next().await?
    {
        left -= 1;
        let call = call(&recorded, budget);
        let old = current.make(call.clone()).await;
        let new = candidate.make(call).await;
        let found = differences(&old, &new, &ignored);
        bar.suspend(|| report.event(&recorded, &old, &new, &found))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn call(recorded: &Recorded, budget: Duration) -> Call {
    let Recorded { event, payload, .. } = recorded;
    Call {
        dedup_id: dedup_id(&event.tenant, &event.id),
        event: event.clone(),
        payload: payload.clone(),
        attempt: 1,
        is_last_attempt: false,
        uncertain_before: false,
        fence: Fence(1),
        budget,
        is_probe: false,
        went_to: WentTo::default(),
    }
}
