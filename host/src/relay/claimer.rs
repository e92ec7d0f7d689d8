//! Claims for one lane: no more than can start now, and only when something is due.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument as _;

use super::backoff::Backoff;
use super::cargo;
use super::context::Context;
use super::flights::{Held, Terms};
use super::lanes::{LaneState, Plan, Planned, Slot};
use super::metrics::{by, by_reason};
use super::settings::Lane;
use crate::plugin::WentTo;
use crate::store::{ClaimRequest, Claimed, Claims, LaneChange, ProbeToken, StoreResult, Which};

/// What part of the time for one probe is added for finding its event: behind the head of a key there
/// may be many rows to park, a few for each claim.
const PROBE_SEARCH_PART: u32 = 4;

/// A claimed delivery on its way through this host.
pub(super) struct Flight {
    pub claimed: Claimed,
    pub lane: Arc<LaneState>,
    /// Settings and plugin as they were at the claim.
    pub spec: Arc<Lane>,
    pub held: Held,
    pub slot: Option<Slot>,
    /// This delivery is the probe of its paused lane.
    pub probe: Option<ProbeToken>,
    /// This delivery is the host's one suspect in flight.
    pub suspect: Option<OwnedSemaphorePermit>,
    pub went_to: WentTo,
}

impl Flight {
    pub fn destination(&self) -> &str {
        &self.spec.settings.name
    }
}

/// Claims until the lane is removed or claiming stops. A claim on its way is not broken off:
/// nobody would know of what it took.
pub(super) async fn run(ctx: Arc<Context>, lane: Arc<LaneState>) {
    let mut backoff = Backoff::default();
    loop {
        let planned = tokio::select! {
            biased;
            () = ctx.stop_claiming.cancelled() => return,
            () = lane.removed.cancelled() => return,
            planned = lane.next_plan(&ctx.suspects) => planned,
        };
        let span = tracing::debug_span!("claim", destination = planned.spec.settings.name);
        if claim(&ctx, &lane, planned).instrument(span).await.is_ok() {
            backoff.reset();
            continue;
        }
        lane.forget_due();
        let wait = backoff.next(ctx.clock.jitter());
        tokio::select! {
            biased;
            () = ctx.stop_claiming.cancelled() => return,
            () = tokio::time::sleep(wait) => ctx.questions.ask_now(),
        }
    }
}

async fn claim(ctx: &Arc<Context>, lane: &Arc<LaneState>, mut planned: Planned) -> StoreResult<()> {
    match std::mem::replace(&mut planned.plan, Plan::Ordinary) {
        Plan::Ordinary => {
            let (claims, sent_at) = take(ctx, &planned, Which::Ordinary, None).await?;
            if lane.claimed(&planned, &claims) {
                ctx.questions.ask_now();
            }
            let slots = planned.slots.into_iter();
            let flights = claims.claimed.into_iter().zip(slots).map(|(claimed, slot)| {
                let held = hold(ctx, &planned.spec, &claimed, sent_at);
                let (lane, spec) = (lane.clone(), planned.spec.clone());
                let (probe, suspect, went_to) = (None, None, WentTo::default());
                Flight { claimed, lane, spec, held, slot: Some(slot), probe, suspect, went_to }
            });
            start(ctx, flights.collect());
        }
        Plan::Suspect(turn) => {
            let (claims, sent_at) = take(ctx, &planned, Which::Suspect, None).await?;
            start_one(ctx, lane, planned, claims, sent_at, None, Some(turn));
        }
        Plan::Probe => probe(ctx, lane, planned).await?,
    }
    Ok(())
}

/// One event shows whether a paused destination takes events again.
async fn probe(ctx: &Arc<Context>, lane: &Arc<LaneState>, planned: Planned) -> StoreResult<()> {
    let settings = &planned.spec.settings;
    // The right to probe is not renewed, so it must outlast the search, claim, call and report.
    let probe = settings.lease.max(settings.call_budget + ctx.settings.store_timeout * 3);
    let search = probe / PROBE_SEARCH_PART;
    let search_ends = ctx.clock.since_boot() + search;
    let Some(token) = ctx.ask("take_probe", ctx.store.take_probe(lane.id, probe + search)).await? else {
        return Ok(());
    };
    let mut has_moved = false;
    while ctx.clock.since_boot() < search_ends {
        let (claims, sent_at) = take(ctx, &planned, Which::Ordinary, Some(token)).await?;
        if !claims.claimed.is_empty() {
            start_one(ctx, lane, planned, claims, sent_at, Some(token), None);
            return Ok(());
        }
        if !is_progress(&claims) {
            break;
        }
        has_moved = true;
    }
    // Only a suspect may be left to probe with.
    if let Ok(turn) = ctx.suspects.clone().try_acquire_owned() {
        let (claims, sent_at) = take(ctx, &planned, Which::Suspect, Some(token)).await?;
        has_moved |= is_progress(&claims);
        if !claims.claimed.is_empty() {
            start_one(ctx, lane, planned, claims, sent_at, Some(token), Some(turn));
            return Ok(());
        }
    }
    let epoch = lane.view().map_or(0, |view| view.epoch);
    let change = LaneChange::DropProbe { probe: token };
    ctx.ask("change_lane", ctx.store.change_lane(lane.id, epoch, change)).await?;
    if has_moved {
        // The search goes on where it ended; each row is parked or buried once, so it ends.
        ctx.questions.ask_now();
    }
    Ok(())
}

/// Whether the same claim finds other rows now.
fn is_progress(claims: &Claims) -> bool {
    claims.parked > 0 || !claims.buried.is_empty()
}

/// Sends one claim statement. Returns what it took and when it was sent: trust counts from there.
async fn take(
    ctx: &Context,
    planned: &Planned,
    which: Which,
    probe: Option<ProbeToken>,
) -> StoreResult<(Claims, std::time::Duration)> {
    let Lane { id, settings, .. } = &*planned.spec;
    let request = ClaimRequest {
        host_id: ctx.settings.host_id.clone(),
        destination: *id,
        limit: u32::try_from(planned.slots.len()).unwrap_or(u32::MAX),
        lease: settings.lease,
        order: settings.order,
        max_attempts: settings.retry.max_attempts,
        which,
        probe,
    };
    let _turn = ctx.claim_gate.acquire().await;
    if ctx.stop_claiming.is_cancelled() {
        return Ok((Claims::default(), Default::default()));
    }
    let sent_at = ctx.clock.since_boot();
    let claims = ctx.ask("claim", ctx.store.claim(&request)).await?;
    if let Some(first) = claims.claimed.first() {
        ctx.database_time.calibrate(sent_at, first.claimed_at, ctx.clock.since_boot());
    }
    count(ctx, &settings.name, &claims);
    Ok((claims, sent_at))
}

fn count(ctx: &Context, destination: &str, claims: &Claims) {
    let labels = by(destination);
    ctx.metrics.claims.get_or_create(&labels).inc();
    ctx.metrics.claimed.get_or_create(&labels).inc_by(claims.claimed.len() as u64);
    if claims.lost > 0 {
        ctx.metrics.lost.get_or_create(&labels).inc_by(u64::from(claims.lost));
        tracing::warn!(destination, count = claims.lost, "claims expired without a word from their host");
    }
    for (event, reason) in &claims.buried {
        ctx.metrics.buried.get_or_create(&by_reason(destination, reason.as_str())).inc();
        tracing::warn!(destination, sequence = event.0, reason = reason.as_str(), "dead letter");
    }
}

fn hold(ctx: &Context, spec: &Lane, claimed: &Claimed, sent_at: std::time::Duration) -> Held {
    let settings = &spec.settings;
    let terms = Terms { lease: settings.lease, margin: settings.margin, renew: settings.renew };
    let in_flight = ctx.metrics.in_flight.get_or_create(&by(&settings.name)).clone();
    ctx.flights.add(claimed.claim, terms, sent_at, in_flight)
}

fn start_one(
    ctx: &Arc<Context>,
    lane: &Arc<LaneState>,
    planned: Planned,
    claims: Claims,
    sent_at: std::time::Duration,
    probe: Option<ProbeToken>,
    mut suspect: Option<OwnedSemaphorePermit>,
) {
    let Planned { spec, slots, .. } = planned;
    let flights = claims.claimed.into_iter().zip(slots).map(|(claimed, slot)| {
        let held = hold(ctx, &spec, &claimed, sent_at);
        let (lane, spec, suspect) = (lane.clone(), spec.clone(), suspect.take());
        Flight { claimed, lane, spec, held, slot: Some(slot), probe, suspect, went_to: WentTo::default() }
    });
    start(ctx, flights.collect());
}

fn start(ctx: &Arc<Context>, flights: Vec<Flight>) {
    if !flights.is_empty() {
        // On its own, so that reading payloads does not hold up the lane's next claim.
        ctx.spawn(cargo::load_and_start(ctx.clone(), flights));
    }
}
