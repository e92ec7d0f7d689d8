//! What an outcome means for its lane: pauses, stops, and the end of a probe.

use std::time::Duration;

use super::backoff::Backoff;
use super::claimer::Flight;
use super::context::Context;
use super::lanes::Closed;
use crate::domain::{LaneEffect, Outcome};
use crate::store::{LaneChange, ProbeToken, StoreResult};

/// Tries of one change. A pause that was not recorded is found again by the next call, a probe
/// that was not ended ends with its lease.
const TRIES: u32 = 4;

/// Closes the lane before the delivery's slot is free, if the outcome may stop it: the next claim
/// must not slip through in between.
pub(super) fn close_lane(flight: &Flight, effect: LaneEffect) -> Option<Closed> {
    let counts = flight.spec.settings.stop_after_rejections > 0;
    let may_stop = match effect {
        LaneEffect::Pause { .. } | LaneEffect::Stop | LaneEffect::StopHere => true,
        LaneEffect::Rejected | LaneEffect::Succeeded | LaneEffect::CanarySucceeded => counts,
        LaneEffect::Answered | LaneEffect::Unknown | LaneEffect::NotAsked => false,
    };
    may_stop.then(|| flight.lane.close())
}

/// Carries the outcome's meaning to the lane, for all hosts where it is meant for all.
pub(super) async fn tell_lane(ctx: &Context, flight: &Flight, outcome: &Outcome, effect: LaneEffect) {
    match effect {
        LaneEffect::Answered | LaneEffect::Succeeded | LaneEffect::CanarySucceeded | LaneEffect::Rejected => {
        }
        LaneEffect::Unknown | LaneEffect::NotAsked => {}
        LaneEffect::Pause { after } => return pause(ctx, flight, outcome, after).await,
        LaneEffect::Stop => return stop(ctx, flight, reason_of(outcome)).await,
        LaneEffect::StopHere => {
            let epoch = flight.claimed.lane_epoch;
            flight.lane.stop_here(&flight.spec, reason_of(outcome), epoch);
            if let Some(token) = flight.probe {
                drop_probe(ctx, flight, token).await;
            }
            return;
        }
    }
    if flight.spec.settings.stop_after_rejections > 0 && count_rejections(ctx, flight, effect).await {
        return;
    }
    let Some(probe) = flight.probe else { return };
    match effect {
        // The host failed before anything was learned of the destination. The lane stays paused and
        // the pause grows: each probe that ends so costs its event an attempt.
        LaneEffect::Unknown => pause(ctx, flight, outcome, None).await,
        LaneEffect::NotAsked => drop_probe(ctx, flight, probe).await,
        _ => {
            let success = effect == LaneEffect::Succeeded;
            if change(ctx, flight, LaneChange::Reopen { probe, success }).await {
                tracing::info!(destination = flight.destination(), "the lane is active again");
            }
        }
    }
}

async fn pause(ctx: &Context, flight: &Flight, outcome: &Outcome, after: Option<Duration>) {
    let pauses = flight.claimed.lane_pauses.saturating_add(1);
    let wait = flight.spec.settings.retry.pause(pauses, after, ctx.clock.jitter());
    let reason = reason_of(outcome);
    let paused = LaneChange::Pause { wait, reason: reason.clone(), probe: flight.probe };
    if change(ctx, flight, paused).await {
        tracing::warn!(destination = flight.destination(), ?wait, reason, "the lane pauses");
    }
    ctx.questions.ask_after(wait, &*ctx.clock);
}

async fn stop(ctx: &Context, flight: &Flight, reason: String) {
    if change(ctx, flight, LaneChange::Stop { reason: reason.clone() }).await {
        tracing::error!(
            destination = flight.destination(),
            reason,
            "the lane stopped; fix the destination or its settings, then resume the lane, or change its config"
        );
        // Replaced while this was on its way: nothing was said against the plugin that runs now.
        if !flight.lane.is_current(&flight.spec) {
            let revived = insist(ctx, || super::handle::revive(ctx, flight.lane.id)).await;
            tracing::info!(destination = flight.destination(), ?revived, "its plugin was replaced meanwhile");
        }
    }
}

/// Counts rejections of distinct events in a row. Returns whether that stopped the lane.
async fn count_rejections(ctx: &Context, flight: &Flight, effect: LaneEffect) -> bool {
    let limit = flight.spec.settings.stop_after_rejections;
    let event = match effect {
        LaneEffect::Rejected => Some(flight.claimed.event.seq),
        LaneEffect::Succeeded | LaneEffect::CanarySucceeded => None,
        _ => return false,
    };
    let counted =
        insist(ctx, || ctx.ask("count_rejection", ctx.store.count_rejection(flight.lane.id, event)));
    let Some(count) = counted.await else { return false };
    if event.is_none() || count < limit {
        return false;
    }
    stop(ctx, flight, format!("{count} events in a row were rejected")).await;
    true
}

/// Ends a probe that learned nothing. Another event may be the next one at once.
pub(super) async fn drop_probe(ctx: &Context, flight: &Flight, probe: ProbeToken) {
    change(ctx, flight, LaneChange::DropProbe { probe }).await;
}

/// Writes a change of the lane's state for all hosts. Returns whether this call made it.
async fn change(ctx: &Context, flight: &Flight, change: LaneChange) -> bool {
    let (id, epoch) = (flight.lane.id, flight.claimed.lane_epoch);
    let changed = insist(ctx, || ctx.ask("change_lane", ctx.store.change_lane(id, epoch, change.clone())));
    let changed = changed.await.unwrap_or(false);
    // Nothing is claimed until the database says how the lane is now.
    flight.lane.forget_due();
    ctx.questions.ask_now();
    changed
}

async fn insist<T, F>(ctx: &Context, mut statement: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = StoreResult<T>>,
{
    let mut backoff = Backoff::default();
    for tries in 1..=TRIES {
        match statement().await {
            Ok(answer) => return Some(answer),
            Err(_) if tries == TRIES => break,
            Err(_) => tokio::time::sleep(backoff.next(ctx.clock.jitter())).await,
        }
    }
    None
}

fn reason_of(outcome: &Outcome) -> String {
    match outcome.detail() {
        Some(detail) if !detail.message.is_empty() => format!("{}: {}", outcome.kind(), detail.message),
        Some(detail) if !detail.code.is_empty() => format!("{}: {}", outcome.kind(), detail.code),
        _ => outcome.kind().to_owned(),
    }
}
