//! Says this host is alive and what can't run on it, and sweeps events that no route matched or no
//! trigger saw.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::backoff::Backoff;
use super::context::Context;
use super::metrics::by_reason;
use crate::domain::{DeadReason, DestinationId};
use crate::store::{ConfigStanding, HostNotes, LaneProblem, LaneRate, StoreError, StoreResult};

const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Rows of one sweep: short enough not to be felt.
const SWEEP_LIMIT: u32 = 500;

/// Between two sweeps of a backlog.
const SWEEP_PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn heartbeat(ctx: Arc<Context>) {
    let mut backoff = Backoff::default();
    loop {
        let pause = match beat(&ctx).await {
            Err(StoreError::Unavailable(_)) => backoff.next(ctx.clock.jitter()),
            _ => {
                ctx.standing_is_known.cancel();
                backoff.reset();
                HEARTBEAT_EVERY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = ctx.has_news.notified() => {}
        }
    }
}

async fn beat(ctx: &Context) -> StoreResult<()> {
    let sent_at = ctx.clock.since_boot();
    if let Ok(now) = ctx.ask("now", ctx.store.now()).await {
        ctx.database_time.calibrate(sent_at, now, ctx.clock.since_boot());
    }
    let notes = notes(ctx);
    let host_id = &ctx.settings.host_id;
    let standing = ctx.ask("heartbeat", ctx.store.heartbeat(host_id, &notes)).await?;
    let is_superseded = standing == ConfigStanding::Superseded;
    if ctx.config_is_superseded.swap(is_superseded, Relaxed) != is_superseded {
        if is_superseded {
            tracing::warn!(
                "another host applied a newer config: this one delivers on where the order of the lane is \
                 the same, writes no routes, and stops lanes only for itself; give it the newer config"
            );
        } else {
            tracing::info!("this host's config is the current one again");
            // What it stopped for itself under a superseded config is a question for all hosts now.
            ctx.lanes().iter().for_each(|lane| lane.start_here());
        }
    }
    Ok(())
}

/// What this host was told to say of itself, and what it knows of its lanes.
fn notes(ctx: &Context) -> HostNotes {
    let lanes = ctx.lanes();
    let problems = lanes
        .iter()
        .filter_map(|lane| lane.problem().map(|problem| LaneProblem { destination: lane.name(), problem }));
    let told = ctx.notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let now = ctx.clock.since_boot();
    let rates = lanes.iter().filter_map(|lane| {
        let delivered_per_minute = lane.rate.per_minute(now)?;
        Some(LaneRate { destination: lane.name(), delivered_per_minute })
    });
    HostNotes { problems: problems.collect(), rates: rates.collect(), ..told }
}

pub(super) async fn sweep(ctx: Arc<Context>) {
    loop {
        let mut pause = SWEEP_EVERY;
        let destinations: Vec<_> = ctx.lanes().iter().map(|lane| lane.id).collect();
        if let Ok(swept) = ctx.ask("sweep", ctx.store.sweep(&destinations, SWEEP_LIMIT)).await {
            if swept.routed + swept.adopted > 0 {
                tracing::info!(
                    routed = swept.routed,
                    adopted = swept.adopted,
                    "events without a delivery were found"
                );
            }
            for (id, count) in &swept.expired {
                count_expired(&ctx, *id, *count);
            }
            if swept.routed + swept.adopted + swept.unparked > 0 {
                ctx.questions.ask_now();
            }
            if swept.more {
                pause = SWEEP_PAUSE;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

fn count_expired(ctx: &Context, id: DestinationId, count: u64) {
    let Some(lane) = ctx.lane(id) else { return };
    let (destination, reason) = (lane.name(), DeadReason::Expired.as_str());
    tracing::warn!(destination, count, reason, "dead letters");
    ctx.metrics.buried.get_or_create(&by_reason(&destination, reason)).inc_by(count);
}
