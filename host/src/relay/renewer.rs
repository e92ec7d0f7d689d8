//! Keeps leases while their deliveries run: every third of a lease, by token, for all lanes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::context::Context;
use super::flights::Hold;
use crate::store::Settled;

/// Claims of one statement.
const BATCH: usize = 500;

/// The longest sleep when nothing is to be renewed.
const IDLE: Duration = Duration::from_secs(3600);

pub(super) async fn run(ctx: Arc<Context>) {
    loop {
        let now = ctx.clock.since_boot();
        let wait = ctx.flights.next_renewal().map_or(IDLE, |at| at.saturating_sub(now));
        if !wait.is_zero() {
            tokio::select! {
                biased;
                () = ctx.flights.added.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
            continue;
        }
        let due = ctx.flights.due_for_renewal(now);
        // Each lease's claims for themselves and at once, so that many lanes take no longer than
        // one and a statement that hangs costs only its own.
        let renewals =
            due.iter().flat_map(|(lease, holds)| holds.chunks(BATCH).map(|batch| renew(&ctx, *lease, batch)));
        join_all(renewals).await;
    }
}

async fn renew(ctx: &Context, lease: Duration, batch: &[Arc<Hold>]) {
    let claims: Vec<_> = batch.iter().map(|hold| hold.claim).collect();
    let sent_at = ctx.clock.since_boot();
    match ctx.ask("renew", ctx.store.renew(&claims, lease)).await {
        Ok(answers) => {
            for (hold, answer) in batch.iter().zip(answers) {
                match answer {
                    Settled::Recorded => hold.renewed(sent_at),
                    Settled::Fenced if hold.fenced() => tracing::warn!(
                        sequence = hold.claim.event.0,
                        destination = hold.claim.destination.0,
                        "a renewal was fenced: the claim is not ours any more"
                    ),
                    // Its acknowledgement came first, which is how it should end.
                    Settled::Fenced => hold.renew_again_at(sent_at + lease),
                }
            }
        }
        Err(_) => {
            let again = ctx.clock.since_boot() + (lease / 20).mul_f64(0.5 + ctx.clock.jitter() / 2.0);
            batch.iter().for_each(|hold| hold.renew_again_at(again));
        }
    }
}
