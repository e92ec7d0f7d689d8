//! One attempt as a column of steps: load, start, call, decide, acknowledge, tell the lane.
//! Only the report is ever tried again, never the work.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use tracing::Instrument as _;

use super::acknowledger::{Settlement, acknowledge, release};
use super::call;
use super::cargo::{self, Cargo, Share};
use super::claimer::Flight;
use super::context::Context;
use super::effects;
use super::flights::Phase;
use super::lanes::{Closed, Reporting, Slot};
use super::metrics::{by, by_outcome, by_reason};
use crate::domain::{
    AttemptFacts, Detail, HostFailure, LaneEffect, Outcome, Policy, Timestamp, Verdict, Write, decide,
};
use crate::store::{Acknowledgement, AttemptRecord, Order};

/// How much longer than its budget a call is waited for. The plugin runtime ends it in time; this
/// is for a runtime that does not.
pub(super) const OVERTIME: Duration = Duration::from_secs(1);

/// What came of a call, and between which times of the database.
pub(super) struct Ended {
    pub outcome: Outcome,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

/// An attempt whose plugin is done, on its way to the database.
pub(super) struct Finished {
    flight: Flight,
    ended: Ended,
    verdict: Verdict,
    closed: Option<Closed>,
    _reporting: Option<Reporting>,
}

pub(super) async fn run(ctx: Arc<Context>, flight: Flight, cargo: Cargo) {
    let span = span(&flight);
    attempt(&ctx, flight, cargo).instrument(span).await;
}

pub(super) fn span(flight: &Flight) -> tracing::Span {
    tracing::info_span!(
        "attempt",
        destination = flight.destination(),
        event = flight.claimed.event.id,
        sequence = flight.claimed.event.seq.0,
        attempt = flight.claimed.attempt,
        fence = flight.claimed.claim.fence.0,
    )
}

async fn attempt(ctx: &Context, mut flight: Flight, cargo: Cargo) {
    let Some(cargo) = load(ctx, &flight, cargo).await else { return give_back(ctx, flight).await };
    if !matches!(cargo, Cargo::TooLarge) {
        // Claimed is not started: only calls finish on a generation that was replaced.
        flight.spec = flight.lane.spec();
    }
    let Some(ended) = run_plugin(ctx, &flight, cargo).await else { return give_back(ctx, flight).await };
    report(ctx, finish(ctx, flight, ended)).await;
}

/// Judges the end and frees the slot for the next claim: the report goes on beside it.
pub(super) fn finish(ctx: &Context, mut flight: Flight, ended: Ended) -> Finished {
    let verdict = judge(ctx, &flight, &ended);
    let closed = effects::close_lane(&flight, verdict.lane);
    let _reporting = flight.slot.take().map(Slot::report);
    flight.held.hold.enter(Phase::Reporting);
    Finished { flight, ended, verdict, closed, _reporting }
}

pub(super) async fn report(ctx: &Context, finished: Finished) {
    let Finished { flight, ended, verdict, closed, _reporting } = finished;
    let acknowledgement = describe(ctx, &flight, &ended, &verdict);
    // Both at once: the lane must not wait for a slow acknowledgement, nor the other way round.
    let (settlement, ()) = tokio::join!(acknowledge(ctx, &flight.held.hold, acknowledgement), async {
        effects::tell_lane(ctx, &flight, &ended.outcome, verdict.lane).await;
        drop(closed);
    },);
    settle(ctx, &flight, &ended, &verdict, settlement);
    // A suspect's turn is free, and the lane of a probe may want the next one, which may be an event
    // that this acknowledgement made due.
    let asks_again = flight.suspect.is_some() || flight.probe.is_some();
    drop(flight);
    if asks_again {
        ctx.questions.ask_now();
    }
}

/// Brings the payload into memory. None: claiming stopped or trust ended before that.
async fn load(ctx: &Context, flight: &Flight, cargo: Cargo) -> Option<Cargo> {
    let room = match cargo {
        Cargo::NotLoaded(room) => room,
        found => return Some(found),
    };
    tokio::select! {
        biased;
        () = ctx.stop_claiming.cancelled() => None,
        () = flight.held.hold.trust_ended(&*ctx.clock) => None,
        cargo = cargo::load_later(ctx, flight, room) => Some(cargo),
    }
}

/// Starts the attempt and waits for its end. None: it was not started, because claiming stopped
/// or the claim is no longer trusted.
async fn run_plugin(ctx: &Context, flight: &Flight, cargo: Cargo) -> Option<Ended> {
    let begun = ctx.clock.since_boot();
    if ctx.stop_claiming.is_cancelled() || !flight.held.hold.start(begun) {
        return None;
    }
    let started_at = ctx.database_now();
    let outcome = match cargo {
        Cargo::Loaded(payload, share) => call_plugin(ctx, flight, payload, share, begun).await,
        Cargo::TooLarge => too_large(flight),
        Cargo::Missing | Cargo::NotLoaded(_) => {
            unreadable("payload-missing", "the database has no payload for this event".to_owned())
        }
        Cargo::Unreadable(error) => {
            unreadable("payload-unreadable", format!("the payload can't be read: {error}"))
        }
    };
    let took = ctx.clock.since_boot().saturating_sub(begun);
    Some(Ended { outcome, started_at, ended_at: started_at.plus(took) })
}

async fn call_plugin(
    ctx: &Context,
    flight: &Flight,
    payload: Bytes,
    share: Share,
    begun: Duration,
) -> Outcome {
    let settings = &flight.spec.settings;
    let hold = &flight.held.hold;
    // As it was claimed: a reload may have changed the setting since.
    let budget = match hold.terms.renew {
        true => settings.call_budget,
        // Without renewal the lease is all the time there is.
        false => settings.call_budget.min(hold.trust_left(begun)),
    };
    let call = call::build(flight, payload, settings.retry.max_attempts, budget);
    let outcome = tokio::select! {
        biased;
        outcome = flight.spec.plugin.deliver(call) => outcome,
        // Dropping the call ends it: another host may have claimed the delivery by now.
        () = hold.trust_ended(&*ctx.clock) => {
            ctx.metrics.lost_trust.get_or_create(&by(flight.destination())).inc();
            lost_lease("the lease could not be kept, and the call was dropped")
        }
        () = ctx.interrupt.cancelled() => interrupted(),
        () = tokio::time::sleep(budget + OVERTIME) => overtime(budget),
    };
    drop(share);
    let took = ctx.clock.since_boot().saturating_sub(begun);
    ctx.metrics.call_seconds.get_or_create(&by(flight.destination())).observe(took.as_secs_f64());
    outcome
}

/// Said to the database, unlike a crash: a delivery that runs through two restarts is no suspect.
pub(super) fn interrupted() -> Outcome {
    let message = "the host shut down before the call ended, and the call was dropped; \
                   a longer relay.drain gives calls more time";
    Outcome::Host(HostFailure::Interrupted, Detail::new("interrupted", message))
}

pub(super) fn lost_lease(message: &str) -> Outcome {
    Outcome::Host(HostFailure::LostLease, Detail::new("lost-lease", message))
}

pub(super) fn overtime(budget: Duration) -> Outcome {
    let message = format!("the call took longer than its budget of {budget:?}");
    Outcome::Host(HostFailure::Deadline, Detail::new("deadline", message))
}

fn too_large(flight: &Flight) -> Outcome {
    let (bytes, limit) = (flight.claimed.event.payload_bytes, flight.spec.settings.payload_bytes_max);
    let message = format!(
        "the payload has {bytes} bytes and the destination takes {limit}; raise limits.payload and redrive"
    );
    Outcome::Host(HostFailure::PayloadTooLarge, Detail::new("payload-too-large", message))
}

fn unreadable(code: &str, message: String) -> Outcome {
    Outcome::Host(HostFailure::PayloadUnreadable, Detail::new(code, message))
}

fn judge(ctx: &Context, flight: &Flight, ended: &Ended) -> Verdict {
    let facts = AttemptFacts {
        attempt: flight.claimed.attempt,
        first_claimed_at: flight.claimed.first_claimed_at,
        deferred_before_success: flight.claimed.deferred_before_success,
        is_probe: flight.probe.is_some(),
        is_canarys: flight.went_to.is_canary(),
        config_is_superseded: ctx.config_is_superseded.load(Relaxed),
        is_replaced: !flight.lane.is_current(&flight.spec),
    };
    let policy = Policy { retry: flight.spec.settings.retry.clone() };
    decide(&facts, &ended.outcome, &policy, ended.ended_at, ctx.clock.jitter())
}

fn describe(ctx: &Context, flight: &Flight, ended: &Ended, verdict: &Verdict) -> Acknowledgement {
    let detail = ended.outcome.detail().cloned().unwrap_or_default();
    let reference = match &ended.outcome {
        Outcome::Delivered(receipt) | Outcome::Duplicate(receipt) => receipt.reference.clone(),
        _ => None,
    };
    let went_to = flight.went_to.component_digest();
    let record = AttemptRecord {
        host_id: ctx.settings.host_id.clone(),
        attempt: flight.claimed.attempt,
        started_at: ended.started_at,
        ended_at: ended.ended_at,
        outcome: ended.outcome.kind().to_owned(),
        code: detail.code,
        message: detail.message,
        uncertain: ended.outcome.is_uncertain(),
        reference,
        component_digest: went_to.unwrap_or_else(|| flight.spec.plugin.component_digest().to_owned()),
    };
    Acknowledgement {
        claim: flight.claimed.claim,
        write: verdict.write.clone(),
        lane_works: verdict.lane == LaneEffect::Succeeded,
        record,
    }
}

/// Counts and logs the end of the attempt, and says when to look for work again.
fn settle(ctx: &Context, flight: &Flight, ended: &Ended, verdict: &Verdict, settlement: Settlement) {
    let destination = flight.destination();
    let outcome = ended.outcome.kind();
    ctx.metrics.outcomes.get_or_create(&by_outcome(destination, outcome)).inc();
    let message = ended.outcome.detail().map_or("", |detail| detail.message.as_str());
    match settlement {
        Settlement::Recorded => {}
        Settlement::Fenced => {
            ctx.metrics.fenced.get_or_create(&by(destination)).inc();
            tracing::warn!(outcome, detail = message, "fenced: the claim was no longer ours when it ended");
            return;
        }
        Settlement::Unknown => {
            ctx.metrics.unreported.get_or_create(&by(destination)).inc();
            tracing::warn!(outcome, detail = message, "the end of the attempt could not be recorded in time");
            return;
        }
    }
    match &verdict.write {
        Write::Delivered => {
            ctx.lane(flight.claimed.claim.destination).iter().for_each(|lane| lane.rate.count());
            let took = ctx.database_now().since(flight.claimed.event.created_at);
            ctx.metrics.delivery_seconds.get_or_create(&by(destination)).observe(took.as_secs_f64());
            tracing::debug!(outcome, "delivered");
        }
        Write::Dead(reason) => {
            let reason = reason.as_str();
            ctx.metrics.dead.get_or_create(&by_reason(destination, reason)).inc();
            tracing::warn!(outcome, detail = message, reason, "dead letter");
        }
        Write::Retry(wait) => {
            tracing::info!(outcome, detail = message, ?wait, "another attempt follows");
            ctx.questions.ask_after(*wait, &*ctx.clock);
        }
        Write::Defer => tracing::info!(outcome, detail = message, "deferred"),
    }
    let is_finished = matches!(verdict.write, Write::Delivered | Write::Dead(_));
    if is_finished && flight.spec.settings.order != Order::None && flight.claimed.event.key.is_some() {
        flight.lane.key_moved();
    }
}

/// Gives back a claim that was not started, with its attempt.
pub(super) async fn give_back(ctx: &Context, flight: Flight) {
    flight.held.hold.enter(Phase::Reporting);
    if let Some(token) = flight.probe {
        effects::drop_probe(ctx, &flight, token).await;
    }
    let destination = flight.destination();
    match release(ctx, &flight.held.hold).await {
        Settlement::Recorded => {
            ctx.metrics.released.get_or_create(&by(destination)).inc();
            tracing::debug!("released");
        }
        Settlement::Fenced => {
            ctx.metrics.fenced.get_or_create(&by(destination)).inc();
            tracing::info!("fenced: the claim was no longer ours when it was given back");
        }
        Settlement::Unknown => {
            ctx.metrics.unreported.get_or_create(&by(destination)).inc();
            tracing::warn!("a claim could not be given back in time; it ends by expiry");
        }
    }
}
