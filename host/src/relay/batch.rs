//! Several deliveries in one call, for plugins that take them together. Whatever was claimed at once
//! goes at once: nothing waits for a batch to fill. Each member keeps its own claim, outcome and
//! acknowledgement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, select_all};
use tracing::Instrument as _;

use super::call;
use super::cargo::{self, Cargo, Share};
use super::claimer::Flight;
use super::context::Context;
use super::metrics::by;
use super::worker::{self, Ended, OVERTIME};
use crate::domain::{Detail, HostFailure, Outcome};
use crate::plugin::BatchLimits;

/// A claimed delivery with its payload in memory.
pub(super) struct Loaded {
    pub flight: Flight,
    pub payload: Bytes,
    pub share: Share,
}

/// Starts what one claim brought: together where the plugin takes batches, else each on its own.
pub(super) fn start(ctx: &Arc<Context>, mut loaded: Vec<Loaded>) {
    let Some(spec) = loaded.first().map(|one| one.flight.lane.spec()) else { return };
    // Claimed is not started: only calls finish on a generation that was replaced.
    loaded.iter_mut().for_each(|one| one.flight.spec = spec.clone());
    let limits = spec.plugin.batch_limits();
    let Some(limits) = limits else { return loaded.into_iter().for_each(|one| start_one(ctx, one)) };
    let (together, alone): (Vec<_>, Vec<_>) =
        loaded.into_iter().partition(|one| may_share_a_call(&one.flight));
    alone.into_iter().for_each(|one| start_one(ctx, one));
    for mut batch in into_batches(together, limits) {
        match batch.len() {
            1 => batch.drain(..).for_each(|one| start_one(ctx, one)),
            _ => ctx.spawn(run(ctx.clone(), batch)),
        }
    }
}

fn start_one(ctx: &Arc<Context>, one: Loaded) {
    cargo::begin(ctx, one.flight, Cargo::Loaded(one.payload, one.share));
}

/// An event whose earlier attempt may have taken effect goes alone: it may be what ended a batch (a
/// trap, a deadline, a lost host), and would end the next one too. So does a suspect, so that it is
/// known who kills, and a probe, which is one event by its nature.
fn may_share_a_call(flight: &Flight) -> bool {
    !flight.claimed.uncertain_before && flight.suspect.is_none() && flight.probe.is_none()
}

fn into_batches(loaded: Vec<Loaded>, limits: BatchLimits) -> Vec<Vec<Loaded>> {
    let mut planner = Planner::new(limits);
    let mut batches: Vec<Vec<Loaded>> = Vec::new();
    for one in loaded {
        let event = &one.flight.claimed.event;
        let key = event.key.as_ref().map(|key| (event.tenant.as_str(), key.as_str()));
        let number = planner.place(key, one.payload.len() as u64);
        batches.resize_with(batches.len().max(number + 1), Vec::new);
        batches[number].push(one);
    }
    batches
}

/// Puts events, in their order, into the first batch that has room and nothing of their key.
struct Planner {
    limits: BatchLimits,
    batches: Vec<Filled>,
    /// Before this one, every batch has as many events as it may.
    first_open: usize,
    /// The batch after the last one that holds the key.
    next_of_key: BTreeMap<(String, String), usize>,
}

#[derive(Default)]
struct Filled {
    events: usize,
    bytes: u64,
}

impl Planner {
    fn new(limits: BatchLimits) -> Self {
        Self { limits, batches: Vec::new(), first_open: 0, next_of_key: BTreeMap::new() }
    }

    /// The number of the batch for an event of this tenant and key.
    fn place(&mut self, key: Option<(&str, &str)>, bytes: u64) -> usize {
        let key = key.map(|(tenant, key)| (tenant.to_owned(), key.to_owned()));
        let after_its_key = key.as_ref().and_then(|key| self.next_of_key.get(key)).copied().unwrap_or(0);
        let from = after_its_key.max(self.first_open).min(self.batches.len());
        let fits = |batch: &Filled| {
            batch.events < self.limits.events && batch.bytes.saturating_add(bytes) <= self.limits.bytes
        };
        let number = self.batches[from..].iter().position(fits).map_or(self.batches.len(), |at| from + at);
        if number == self.batches.len() {
            self.batches.push(Filled::default());
        }
        self.batches[number].events += 1;
        self.batches[number].bytes += bytes;
        while self.batches.get(self.first_open).is_some_and(|batch| batch.events >= self.limits.events) {
            self.first_open += 1;
        }
        if let Some(key) = key {
            self.next_of_key.insert(key, number + 1);
        }
        number
    }
}

/// One call as a column of steps, like a worker's: start, call, finish, report.
async fn run(ctx: Arc<Context>, batch: Vec<Loaded>) {
    let begun = ctx.clock.since_boot();
    let is_stopping = ctx.stop_claiming.is_cancelled();
    let (started, left): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|one| !is_stopping && one.flight.held.hold.start(begun));
    let give_back = join_all(left.into_iter().map(|one| {
        let span = worker::span(&one.flight);
        worker::give_back(&ctx, one.flight).instrument(span)
    }));
    tokio::join!(give_back, deliver(&ctx, started, begun));
}

async fn deliver(ctx: &Context, started: Vec<Loaded>, begun: Duration) {
    let Some(lane) = started.first().map(|one| one.flight.lane.clone()) else { return };
    let started_at = ctx.database_now();
    let (flights, outcomes) = call(ctx, started, begun).await;
    let ended_at = started_at.plus(ctx.clock.since_boot().saturating_sub(begun));
    // All slots are free at the same moment, so that the next claim is as large as this one.
    let closed = lane.close();
    let finished: Vec<_> = flights
        .into_iter()
        .zip(outcomes)
        .map(|(flight, outcome)| {
            let span = worker::span(&flight);
            let ended = Ended { outcome, started_at, ended_at };
            (span.in_scope(|| worker::finish(ctx, flight, ended)), span)
        })
        .collect();
    drop(closed);
    join_all(finished.into_iter().map(|(finished, span)| worker::report(ctx, finished).instrument(span)))
        .await;
}

/// Hands the batch to the plugin. One outcome for each flight.
async fn call(ctx: &Context, started: Vec<Loaded>, begun: Duration) -> (Vec<Flight>, Vec<Outcome>) {
    let spec = started[0].flight.spec.clone();
    let settings = &spec.settings;
    let trust_left = started.iter().map(|one| one.flight.held.hold.trust_left(begun)).min();
    // As they were claimed: a reload may have changed the setting since.
    let budget = match started.iter().all(|one| one.flight.held.hold.terms.renew) {
        true => settings.call_budget,
        // Without renewal the lease is all the time there is.
        false => settings.call_budget.min(trust_left.unwrap_or_default()),
    };
    let count = started.len();
    let (mut flights, mut calls, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for Loaded { flight, payload, share } in started {
        calls.push(call::build(&flight, payload, settings.retry.max_attempts, budget));
        flights.push(flight);
        shares.push(share);
    }
    let by_destination = by(&settings.name);
    ctx.metrics.batch_events.get_or_create(&by_destination).observe(count as f64);
    let any_trust_ended =
        select_all(flights.iter().map(|flight| Box::pin(flight.held.hold.trust_ended(&*ctx.clock))));
    let outcomes = tokio::select! {
        biased;
        outcomes = spec.plugin.deliver_batch(calls) => outcomes,
        // One call for all: if one may be another host's by now, the call ends for every one.
        _ = any_trust_ended => {
            ctx.metrics.lost_trust.get_or_create(&by_destination).inc();
            let message = "the lease of an event of the batch could not be kept, and the call was dropped";
            vec![worker::lost_lease(message); count]
        }
        () = ctx.interrupt.cancelled() => vec![worker::interrupted(); count],
        () = tokio::time::sleep(budget + OVERTIME) => vec![worker::overtime(budget); count],
    };
    drop(shares);
    let took = ctx.clock.since_boot().saturating_sub(begun);
    ctx.metrics.call_seconds.get_or_create(&by_destination).observe(took.as_secs_f64());
    if outcomes.len() == count {
        return (flights, outcomes);
    }
    let message = format!("{} outcomes came of a batch of {count}", outcomes.len());
    let unknown = Outcome::Host(HostFailure::WrongBatchLength, Detail::new("wrong-batch-length", message));
    (flights, vec![unknown; count])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(limits: (usize, u64), events: &[(Option<&str>, u64)]) -> Vec<usize> {
        let mut planner = Planner::new(BatchLimits { events: limits.0, bytes: limits.1 });
        events.iter().map(|(key, bytes)| planner.place(key.map(|key| ("", key)), *bytes)).collect()
    }

    #[test]
    fn batches_are_bounded_by_events_and_by_bytes() {
        assert_eq!(numbers((3, 100), &[(None, 1); 7]), [0, 0, 0, 1, 1, 1, 2]);
        let sizes = [60, 60, 40, 40, 100, 101, 0];
        assert_eq!(numbers((9, 100), &sizes.map(|bytes| (None, bytes))), [0, 1, 0, 1, 2, 3, 0]);
    }

    #[test]
    fn a_batch_holds_one_event_of_a_key_and_keeps_the_order_of_each() {
        let events = [Some("a"), Some("a"), Some("b"), None, Some("a"), Some("b")].map(|key| (key, 1));
        assert_eq!(numbers((9, 100), &events), [0, 1, 0, 0, 2, 1]);
        let mut planner = Planner::new(BatchLimits { events: 9, bytes: 100 });
        let tenants = [("one", "k"), ("two", "k"), ("one", "k")];
        assert_eq!(tenants.map(|key| planner.place(Some(key), 1)), [0, 0, 1]);
    }

    #[test]
    fn thousands_of_events_of_one_key_are_planned_at_once() {
        let events = vec![(Some("hot"), 1); 10_000];
        let expected: Vec<_> = (0..10_000).collect();
        assert_eq!(numbers((100, 1 << 20), &events), expected);
    }
}
