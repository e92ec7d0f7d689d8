//! One question for all lanes: which have something due. Asked when something may have changed,
//! and at least once a poll interval.

use std::sync::Arc;
use std::time::Duration;

use super::attention::Attention;
use super::backoff::Backoff;
use super::context::Context;
use crate::store::{LaneState as StoredState, LaneView, StoreResult};

/// The least time between two questions. A producer that commits a thousand times a second wakes
/// us a thousand times; the database is asked two hundred times.
const GAP: Duration = Duration::from_millis(5);

/// The database's clock and ours may differ a little: asking for something "due now" again at once
/// would spin.
const DUE_WAIT_MIN: Duration = Duration::from_millis(20);

pub(super) async fn run(ctx: Arc<Context>) {
    tokio::select! {
        biased;
        () = ctx.stop_claiming.cancelled() => {}
        () = ask_for_ever(&ctx) => {}
    }
}

async fn ask_for_ever(ctx: &Context) {
    // A host whose config is superseded judges lanes for itself only, so nothing is claimed before
    // it knows.
    ctx.standing_is_known.cancelled().await;
    let mut backoff = Backoff::default();
    let mut attention = Attention::default();
    let mut all_at = Duration::ZERO;
    loop {
        // The wake-up is armed before the question (by this call, not by the first poll). The other
        // way round, an event committed between the answer and the arming would wait for the poll
        // interval.
        let wake = ctx.store.wait_for_wake();
        tokio::pin!(wake);

        let now = ctx.clock.since_boot();
        ctx.questions.asked();
        match ask(ctx, now >= all_at).await {
            Ok(is_complete) => {
                backoff.reset();
                if is_complete {
                    all_at = now + ctx.settings.poll;
                }
                ctx.questions.ask_at(all_at);
                attention.pay(ctx).await;
            }
            Err(_) => ctx.questions.ask_after(backoff.next(ctx.clock.jitter()), &*ctx.clock),
        }
        tokio::time::sleep(GAP).await;
        wait(ctx, wake).await;
    }
}

/// Asks for the lanes of which it is not known already that something is due. Returns whether
/// that were all of them.
async fn ask(ctx: &Context, all: bool) -> StoreResult<bool> {
    let lanes = ctx.lanes();
    let asked: Vec<_> = lanes.iter().filter(|lane| all || lane.is_asked_for()).map(|lane| lane.id).collect();
    if asked.is_empty() {
        return Ok(all);
    }
    ctx.metrics.questions.inc();
    let views = ctx.ask("lanes", ctx.store.lanes(&asked)).await?;
    for view in views {
        if let Some(lane) = ctx.lane(view.destination) {
            ask_again_when_due(ctx, &view);
            ctx.metrics.show_state(&lane.name(), view.state);
            lane.apply(view);
        }
    }
    Ok(all)
}

fn ask_again_when_due(ctx: &Context, view: &LaneView) {
    let next = match view.state {
        StoredState::Active => view.next_due_at,
        StoredState::Paused => view.paused_until,
        StoredState::Stopped | StoredState::Removed => None,
    };
    if let Some(next) = next {
        let wait = next.since(ctx.database_now());
        // What is further away than a poll will be seen by the poll. A pause that is over waits for
        // something due, or for another host's probe.
        if wait < ctx.settings.poll && (view.state == StoredState::Active || !wait.is_zero()) {
            ctx.questions.ask_after(wait.max(DUE_WAIT_MIN), &*ctx.clock);
        }
    }
}

/// Returns when it is time for the next question.
async fn wait(ctx: &Context, mut wake: std::pin::Pin<&mut (impl Future<Output = ()> + ?Sized)>) {
    loop {
        let left = match ctx.questions.next() {
            Some(at) => at.saturating_sub(ctx.clock.since_boot()),
            None => ctx.settings.poll,
        };
        if left.is_zero() {
            return;
        }
        tokio::select! {
            biased;
            () = wake.as_mut() => return,
            () = ctx.questions.sooner.notified() => {}
            () = tokio::time::sleep(left) => {}
        }
    }
}
