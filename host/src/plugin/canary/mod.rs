//! Two components behind one destination: the stable one, and a canary that gets a share of the
//! deliveries. What the canary says is believed where it costs its own deliveries time; it stops no
//! lane, pauses none, vouches for none, and makes no dead letter.

mod share;
mod tally;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

pub use share::Share;
use tally::Tally;
pub use tally::{Compared, Numbers};

use super::{BatchLimits, Call, Deliver, Runtime};
use crate::clock::SharedClock;
use crate::domain::{Detail, HostFailure, Outcome};

pub struct Canary {
    destination: String,
    stable: Arc<dyn Deliver>,
    canary: Arc<dyn Deliver>,
    share: Share,
    /// Why it gets nothing, if so.
    off: Mutex<Option<String>>,
    tally: Arc<Tally>,
    clock: SharedClock,
}

/// A call with its place in the batch it came in.
type Placed = (usize, Call);

impl Canary {
    pub fn new(
        runtime: &Runtime,
        destination: &str,
        stable: Arc<dyn Deliver>,
        canary: Arc<dyn Deliver>,
        share: Share,
    ) -> Self {
        Self::with_clock(runtime.inner.clock.clone(), destination, stable, canary, share)
    }

    fn with_clock(
        clock: SharedClock,
        destination: &str,
        stable: Arc<dyn Deliver>,
        canary: Arc<dyn Deliver>,
        share: Share,
    ) -> Self {
        let off = Mutex::new(canary.unready());
        let tally = Arc::default();
        Self { destination: destination.to_owned(), stable, canary, share, off, tally, clock }
    }

    /// Goes on counting where `before` is, if that compares the same two components.
    pub fn continuing(mut self, before: &Self) -> Self {
        let digests =
            |of: &Self| (of.stable.component_digest().to_owned(), of.canary.component_digest().to_owned());
        if digests(&self) == digests(before) {
            self.tally = before.tally.clone();
        }
        self
    }

    pub fn share(&self) -> Share {
        self.share
    }

    /// Why the canary gets no deliveries, if so.
    pub fn off(&self) -> Option<String> {
        self.switch().clone()
    }

    pub fn canary_digest(&self) -> &str {
        self.canary.component_digest()
    }

    /// What came of both.
    pub fn compared(&self) -> Compared {
        self.tally.compared()
    }

    fn switch(&self) -> MutexGuard<'_, Option<String>> {
        self.off.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last attempt is the stable component's: a canary that only ever fails makes no dead letter.
    fn is_for_canary(&self, call: &Call) -> bool {
        // A probe finds out whether the lane's own component can deliver again.
        if call.is_probe || !self.share.holds(&call.event) || self.switch().is_some() {
            return false;
        }
        if call.is_last_attempt {
            self.tally.hand_over(1);
        }
        !call.is_last_attempt
    }

    async fn ask_stable(&self, calls: Vec<Placed>) -> Vec<(usize, Outcome)> {
        let (places, calls): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
        let begun = self.clock.since_boot();
        let outcomes = send(&*self.stable, calls, false).await;
        self.tally.stable(&outcomes, self.since(begun));
        places.into_iter().zip(outcomes).collect()
    }

    /// Asks the canary, and then the stable component for what the canary may not decide.
    async fn ask_canary(&self, calls: Vec<Placed>) -> Vec<(usize, Outcome)> {
        let begun = self.clock.since_boot();
        // Half of the time stays for the stable component.
        let of_canary = calls.iter().map(|(_, call)| Call { budget: call.budget / 2, ..call.clone() });
        let outcomes = send(&*self.canary, of_canary.collect(), true).await;
        let took = self.since(begun);
        self.tally.canary(&outcomes, took);
        let (mut ended, mut handed_over, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for ((place, call), outcome) in calls.into_iter().zip(outcomes) {
            self.switch_off_if_broken(&outcome);
            // What waits for another attempt may expire before it, and be a dead letter.
            let may_expire = call.event.expires_at.is_some()
                && matches!(outcome, Outcome::Retry { .. } | Outcome::Other(_) | Outcome::Host(..));
            if !is_for_stable(&outcome) && !may_expire {
                ended.push((place, outcome));
                continue;
            }
            self.tell_handed_over(&call, &outcome);
            let is_in_doubt = outcome.is_uncertain();
            handed_over.push((place, is_in_doubt));
            again.push(Call {
                budget: call.budget.saturating_sub(took),
                uncertain_before: call.uncertain_before || is_in_doubt,
                ..call
            });
        }
        self.tally.hand_over(again.len());
        let second = send(&*self.stable, again, false).await;
        let second = handed_over.into_iter().zip(second);
        ended.extend(second.map(|((place, is_in_doubt), outcome)| (place, doubted(outcome, is_in_doubt))));
        ended
    }

    /// A canary that can't deliver at all gets nothing more until it, or the lane, is given a new start.
    fn switch_off_if_broken(&self, outcome: &Outcome) {
        let is_broken = matches!(
            outcome,
            Outcome::Gone(_)
                | Outcome::Misconfigured(_)
                | Outcome::Host(HostFailure::Load | HostFailure::Configure, _)
        );
        if !is_broken {
            return;
        }
        let why = format!("it says {}: {}", outcome.kind(), message(outcome));
        let mut switch = self.switch();
        if switch.is_none() {
            tracing::error!(
                destination = self.destination,
                why,
                "the canary is off; its share goes to the stable component"
            );
            *switch = Some(why);
        }
    }

    fn tell_handed_over(&self, call: &Call, outcome: &Outcome) {
        tracing::info!(
            destination = self.destination,
            event = call.event.id,
            outcome = outcome.kind(),
            detail = message(outcome),
            "the canary's answer is not final; the stable component is asked"
        );
    }

    fn since(&self, begun: Duration) -> Duration {
        self.clock.since_boot().saturating_sub(begun)
    }
}

#[async_trait]
impl Deliver for Canary {
    async fn deliver(&self, call: Call) -> Outcome {
        let mut outcomes = self.deliver_batch(vec![call]).await;
        outcomes.pop().expect("one call has one outcome")
    }

    /// The canary's part of a batch is a batch if it takes them, and goes singly if not.
    fn batch_limits(&self) -> Option<BatchLimits> {
        self.stable.batch_limits()
    }

    async fn deliver_batch(&self, calls: Vec<Call>) -> Vec<Outcome> {
        let placed = calls.into_iter().enumerate();
        let (of_canary, of_stable): (Vec<Placed>, Vec<Placed>) =
            placed.partition(|(_, call)| self.is_for_canary(call));
        let (mut ended, more) = tokio::join!(self.ask_canary(of_canary), self.ask_stable(of_stable));
        ended.extend(more);
        ended.sort_by_key(|(place, _)| *place);
        ended.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// The stable one's; a call says itself which of the two it went to.
    fn component_digest(&self) -> &str {
        self.stable.component_digest()
    }

    fn unready(&self) -> Option<String> {
        self.stable.unready()
    }

    fn try_anew(&self) {
        self.stable.try_anew();
        self.canary.try_anew();
        *self.switch() = self.canary.unready();
    }
}

/// Hands calls to one component, in one call if it takes batches of this size. One outcome for each.
async fn send(component: &dyn Deliver, calls: Vec<Call>, is_canary: bool) -> Vec<Outcome> {
    calls.iter().for_each(|call| call.went_to.note(component.component_digest(), is_canary));
    let fits = |limits: BatchLimits| {
        let bytes: u64 = calls.iter().map(|call| call.payload.len() as u64).sum();
        calls.len() <= limits.events && bytes <= limits.bytes
    };
    let count = calls.len();
    if count <= 1 || !component.batch_limits().is_some_and(fits) {
        return join_all(calls.into_iter().map(|call| component.deliver(call))).await;
    }
    let outcomes = component.deliver_batch(calls).await;
    if outcomes.len() == count {
        return outcomes;
    }
    // Which is whose can't be known.
    let message = format!("{} outcomes came of a batch of {count}", outcomes.len());
    let unknown = Outcome::Host(HostFailure::WrongBatchLength, Detail::new("wrong-batch-length", message));
    vec![unknown; count]
}

/// Whether the stable component decides instead: all that would end the delivery, or say something of
/// the lane. What only costs this delivery an attempt is the canary's own.
fn is_for_stable(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Delivered(_) | Outcome::Duplicate(_) | Outcome::Retry { .. } | Outcome::Other(_) => false,
        Outcome::Rejected(_)
        | Outcome::Conflict(_)
        | Outcome::RateLimited { .. }
        | Outcome::Unavailable { .. }
        | Outcome::Gone(_)
        | Outcome::Misconfigured(_) => true,
        Outcome::Host(failure, _) => match failure {
            HostFailure::PayloadTooLarge | HostFailure::Load | HostFailure::Configure => true,
            HostFailure::Trap
            | HostFailure::OutOfMemory
            | HostFailure::Deadline
            | HostFailure::LostLease
            | HostFailure::Interrupted
            | HostFailure::BadOutput
            | HostFailure::WrongBatchLength
            | HostFailure::PayloadUnreadable => false,
        },
    }
}

/// The stable component's failure takes back no doubt that the canary left.
fn doubted(mut outcome: Outcome, is_in_doubt: bool) -> Outcome {
    if let Some(detail) = outcome.detail_mut() {
        detail.maybe_applied |= is_in_doubt;
    }
    outcome
}

fn message(outcome: &Outcome) -> &str {
    match outcome.detail() {
        Some(detail) if detail.message.is_empty() => &detail.code,
        Some(detail) => &detail.message,
        None => "",
    }
}
