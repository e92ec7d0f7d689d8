//! `outhaul dead`: dead letters, and what a person does about them.

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::events::{self, why_nothing};
use super::show::{self, count};
use super::{Context, Exit, Misuse, lanes, progress};
use crate::store::{DeliveryStatus, RedriveOrder, Target};

/// Lists, shows, redrives and discards dead letters.
#[derive(Subcommand, Clone, Debug)]
pub enum DeadCommand {
    /// Dead letters, newest last
    List(events::Filter),
    /// One event with its deliveries and the history of its attempts
    Show(events::Show),
    /// Puts dead letters back for delivery, with attempts counted from 0 again
    Redrive(Redrive),
    /// Gives dead letters up for good; they stay visible as cancelled
    Discard(Discard),
}

#[derive(Args, Clone, Debug)]
pub struct Which {
    /// One event; without it --destination, --tenant or --all says which
    event_id: Option<String>,
    #[arg(long)]
    tenant: Option<String>,
    #[arg(long)]
    destination: Option<String>,
    /// Every dead letter, up to --limit
    #[arg(long, conflicts_with_all = ["event_id", "tenant", "destination"])]
    all: bool,
    /// The most that are touched
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Redrive {
    #[command(flatten)]
    which: Which,
    /// How quickly they become due, so that the destination is not run over; `all` is all at once
    #[arg(long, default_value = "50/s", value_parser = parse_rate)]
    rate: Rate,
    /// Also those that expired
    #[arg(long)]
    ignore_expiry: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Discard {
    #[command(flatten)]
    which: Which,
}

/// Deliveries a second; zero is no stagger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(f64);

/// One delivery an hour, and more than any database takes.
const RATE_MIN: f64 = 0.0003;
const RATE_MAX: f64 = 1_000_000.0;

fn parse_rate(text: &str) -> Result<Rate, String> {
    if text == "all" {
        return Ok(Rate(0.0));
    }
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse::<f64>() {
        Ok(0.0) => Err("at 0 a second nothing would ever become due; write  all  for all at once".to_owned()),
        Ok(rate) if (RATE_MIN..=RATE_MAX).contains(&rate) => Ok(Rate(rate)),
        _ => Err(format!("write a number of deliveries a second from {RATE_MIN} to {RATE_MAX}, as in 50/s")),
    }
}

impl Rate {
    fn stagger(self) -> Duration {
        if self.0 > 0.0 {
            Duration::try_from_secs_f64(1.0 / self.0).unwrap_or(Duration::MAX)
        } else {
            Duration::ZERO
        }
    }
}

/// Of one statement: small enough not to hold the rows for long.
const CHUNK: u32 = 500;

pub async fn run(
    context: &Context,
    command: &DeadCommand,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Exit> {
    match command {
        DeadCommand::List(filter) => events::list(context, filter, Some(DeliveryStatus::Dead), out).await,
        DeadCommand::Show(show) => events::event(context, show, out).await,
        DeadCommand::Redrive(redrive) => self::redrive(context, redrive, out).await,
        DeadCommand::Discard(discard) => self::discard(context, discard, out).await,
    }
}

impl Which {
    fn target(&self) -> Result<Target, Misuse> {
        let says_which =
            self.event_id.is_some() || self.tenant.is_some() || self.destination.is_some() || self.all;
        if !says_which {
            return Err(Misuse(
                "say which dead letters: an event ID, --destination, --tenant, or --all".to_owned(),
            ));
        }
        // An event ID means one event, and identity is (tenant, event ID).
        let tenant = self.tenant.clone().or_else(|| self.event_id.as_ref().map(|_| String::new()));
        Ok(Target { tenant, event_id: self.event_id.clone(), destination: self.destination.clone() })
    }
}

async fn redrive(context: &Context, args: &Redrive, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let target = args.which.target()?;
    lanes::must_exist_if_given(context, target.destination.as_ref()).await?;
    let stagger = args.rate.stagger();
    let bar = progress::bar(expected(context, &args.which).await?, "redriving");
    let mut done = 0;
    while done < args.which.limit {
        let order = RedriveOrder {
            target: target.clone(),
            limit: CHUNK.min(args.which.limit - done),
            stagger,
            start_after: stagger.saturating_mul(done),
            ignore_expiry: args.ignore_expiry,
        };
        let changed = context.stores.operate.redrive(&order, &context.who).await?;
        done = done.saturating_add(u32::try_from(changed).unwrap_or(u32::MAX));
        bar.set_position(done.into());
        if changed < u64::from(order.limit) {
            break;
        }
    }
    bar.finish_and_clear();
    if done == 0 {
        let hint = if args.ignore_expiry { "" } else { "; what expired needs --ignore-expiry" };
        let why = why_nothing(context, &target, DeliveryStatus::Dead).await?;
        anyhow::bail!("nothing was redriven: {why}{hint}");
    }
    let last_after = stagger.saturating_mul(done - 1);
    if args.which.json {
        show::json(out, &json!({ "redriven": done, "last_due_after_seconds": last_after.as_secs_f64() }))?;
    } else {
        let spread = super::time::short(last_after);
        writeln!(
            out,
            "{} put back, due over the next {spread}",
            count(done.into(), "dead letter", "dead letters")
        )?;
    }
    Ok(Exit::Fine)
}

async fn discard(context: &Context, args: &Discard, out: &mut (dyn Write + Send)) -> anyhow::Result<Exit> {
    let target = args.which.target()?;
    lanes::must_exist_if_given(context, target.destination.as_ref()).await?;
    let bar = progress::bar(expected(context, &args.which).await?, "discarding");
    let mut done = 0;
    while done < args.which.limit {
        let limit = CHUNK.min(args.which.limit - done);
        let changed = context.stores.operate.discard(&target, limit, &context.who).await?;
        done = done.saturating_add(u32::try_from(changed).unwrap_or(u32::MAX));
        bar.set_position(done.into());
        if changed < u64::from(limit) {
            break;
        }
    }
    bar.finish_and_clear();
    if done == 0 {
        anyhow::bail!(
            "nothing was discarded: {}",
            why_nothing(context, &target, DeliveryStatus::Dead).await?
        );
    }
    if args.which.json {
        show::json(out, &json!({ "discarded": done }))?;
    } else {
        writeln!(out, "{} discarded", count(done.into(), "dead letter", "dead letters"))?;
    }
    Ok(Exit::Fine)
}

/// How many there are, for the bar: only as exact as the lanes' reports.
async fn expected(context: &Context, which: &Which) -> anyhow::Result<Option<u64>> {
    if which.event_id.is_some() || which.tenant.is_some() {
        return Ok(None);
    }
    let lanes = context.stores.operate.lane_reports().await?;
    let meant =
        lanes.iter().filter(|lane| which.destination.as_ref().is_none_or(|name| *name == lane.destination));
    Ok(Some(meant.map(|lane| lane.dead).sum::<u64>().min(which.limit.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_deliveries_a_second() {
        assert_eq!(parse_rate("50/s").unwrap().stagger(), Duration::from_millis(20));
        assert_eq!(parse_rate("0.5").unwrap().stagger(), Duration::from_secs(2));
        assert_eq!(parse_rate("all").unwrap().stagger(), Duration::ZERO);
        for wrong in ["-1/s", "fast", "inf", "", "1e-9/s", "1e300/s", "NaN"] {
            assert!(parse_rate(wrong).unwrap_err().contains("as in 50/s"), "{wrong}");
        }
        for never in ["0/s", "0", "0.0/s", "-0/s"] {
            assert!(parse_rate(never).unwrap_err().contains("nothing would ever become due"), "{never}");
        }
    }
}
