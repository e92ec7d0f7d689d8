//! Tells the database how attempts ended, in batches of whatever is waiting. A report that gets no
//! answer is tried again while its claim is trusted; the work behind it never is.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::backoff::Backoff;
use super::context::Context;
use super::flights::Hold;
use crate::store::{Acknowledgement, Settled, StoreError, StoreResult};

/// Reports of one statement.
const BATCH: usize = 500;

/// Refusals of one report after which it is given up: its claim ends by expiry, visibly.
const REFUSALS_MAX: u32 = 3;

/// How a report ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settlement {
    Recorded,
    /// The claim was no longer ours: nothing but the history changed.
    Fenced,
    /// Trust ended before the database answered, or the database refused the statement.
    Unknown,
}

/// One report on its way to the database.
pub(super) struct Report {
    hold: Arc<Hold>,
    content: Content,
    refusals: u32,
    reply: oneshot::Sender<Settlement>,
}

enum Content {
    Acknowledge(Box<Acknowledgement>),
    Release,
}

pub(super) async fn acknowledge(ctx: &Context, hold: &Arc<Hold>, end: Acknowledgement) -> Settlement {
    report(ctx, hold, Content::Acknowledge(Box::new(end))).await
}

pub(super) async fn release(ctx: &Context, hold: &Arc<Hold>) -> Settlement {
    report(ctx, hold, Content::Release).await
}

async fn report(ctx: &Context, hold: &Arc<Hold>, content: Content) -> Settlement {
    let (reply, answer) = oneshot::channel();
    let report = Report { hold: hold.clone(), content, refusals: 0, reply };
    if ctx.reports.send(report).is_err() {
        return Settlement::Unknown;
    }
    answer.await.unwrap_or(Settlement::Unknown)
}

pub(super) async fn run(ctx: Arc<Context>, mut reports: mpsc::UnboundedReceiver<Report>) {
    let mut backoff = Backoff::default();
    let mut waiting: Vec<Report> = Vec::new();
    loop {
        if waiting.is_empty() {
            if reports.recv_many(&mut waiting, BATCH).await == 0 {
                return;
            }
        } else {
            while waiting.len() < BATCH {
                let Ok(report) = reports.try_recv() else { break };
                waiting.push(report);
            }
        }
        waiting = settle(&ctx, waiting).await;
        if waiting.is_empty() {
            backoff.reset();
        } else {
            tokio::time::sleep(backoff.next(ctx.clock.jitter())).await;
        }
    }
}

/// Sends one batch. Returns the reports to try again.
async fn settle(ctx: &Context, batch: Vec<Report>) -> Vec<Report> {
    let (ends, releases): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|report| matches!(report.content, Content::Acknowledge(_)));
    let (mut again, more) = tokio::join!(send(ctx, ends), send(ctx, releases));
    again.extend(more);
    again
}

async fn send(ctx: &Context, batch: Vec<Report>) -> Vec<Report> {
    match statement(ctx, &batch).await {
        Ok(answers) => {
            for (report, answer) in batch.into_iter().zip(answers) {
                report.answer(match answer {
                    Settled::Recorded => Settlement::Recorded,
                    Settled::Fenced => Settlement::Fenced,
                });
            }
            Vec::new()
        }
        Err(StoreError::Unavailable(_)) => try_again_while_trusted(ctx, batch),
        Err(_) => send_singly(ctx, batch).await,
    }
}

/// The database refused the batch: one report of it may be at fault, and must not take the others
/// with it.
async fn send_singly(ctx: &Context, batch: Vec<Report>) -> Vec<Report> {
    let mut again = Vec::new();
    for mut report in batch {
        let mut answer = statement(ctx, std::slice::from_ref(&report)).await;
        if matches!(&answer, Err(error) if !matches!(error, StoreError::Unavailable(_))) {
            // What differs from row to row is the text a plugin wrote.
            report.drop_texts();
            answer = statement(ctx, std::slice::from_ref(&report)).await;
        }
        match answer.map(|answers| answers.first().copied()) {
            Ok(Some(Settled::Recorded)) => report.answer(Settlement::Recorded),
            Ok(_) => report.answer(Settlement::Fenced),
            Err(StoreError::Unavailable(_)) => again.extend(try_again_while_trusted(ctx, vec![report])),
            Err(error) => {
                report.refusals += 1;
                if report.refusals < REFUSALS_MAX {
                    again.extend(try_again_while_trusted(ctx, vec![report]));
                } else {
                    tracing::error!(sequence = report.hold.claim.event.0, %error, "a report was refused");
                    report.answer(Settlement::Unknown);
                }
            }
        }
    }
    again
}

async fn statement(ctx: &Context, batch: &[Report]) -> StoreResult<Vec<Settled>> {
    let ends: Vec<_> = batch
        .iter()
        .filter_map(|report| match &report.content {
            Content::Acknowledge(end) => Some((**end).clone()),
            Content::Release => None,
        })
        .collect();
    if !ends.is_empty() {
        return ctx.ask("acknowledge", ctx.store.acknowledge(&ends)).await;
    }
    let claims: Vec<_> = batch.iter().map(|report| report.hold.claim).collect();
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    ctx.ask("release", ctx.store.release(&claims)).await
}

fn try_again_while_trusted(ctx: &Context, batch: Vec<Report>) -> Vec<Report> {
    let now = ctx.clock.since_boot();
    let (again, over): (Vec<_>, Vec<_>) = batch.into_iter().partition(|report| report.hold.is_trusted(now));
    over.into_iter().for_each(|report| report.answer(Settlement::Unknown));
    again
}

impl Report {
    fn answer(self, settlement: Settlement) {
        // Nobody waits any more when the relay ends.
        let _ = self.reply.send(settlement);
    }

    fn drop_texts(&mut self) {
        if let Content::Acknowledge(end) = &mut self.content {
            tracing::error!(
                sequence = end.claim.event.0,
                "the database refused the texts of a result; it is recorded without them"
            );
            end.record.code = String::new();
            end.record.message = "the database refused the texts of this result".to_owned();
            end.record.reference = None;
        }
    }
}
