//! The state machine of a delivery as one pure function: what to write for an outcome.

use std::time::Duration;

use super::{HostFailure, Outcome, RetryPolicy, Timestamp};

/// What is known of the attempt that ended.
#[derive(Clone, Debug)]
pub struct AttemptFacts {
    /// From 1, counted when claimed.
    pub attempt: u32,
    /// First claim since the delivery last became pending by routing, redrive or redeliver.
    pub first_claimed_at: Timestamp,
    /// It was deferred before the lane's latest success: the destination can take others, so its
    /// `unavailable` says something about the event.
    pub deferred_before_success: bool,
    /// It was sent to see whether its paused lane's destination takes events again.
    pub is_probe: bool,
    /// A canary's word: it says nothing of what the lane's own component can deliver.
    pub is_canarys: bool,
    /// Another host has applied a newer config: this host's judgement of the lane is its own.
    pub config_is_superseded: bool,
    /// Its plugin was replaced while it ran: what it says of the lane is not of what runs now.
    pub is_replaced: bool,
}

/// A destination's rules for failures.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub retry: RetryPolicy,
}

/// What to write to the delivery, and what it means for its lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub write: Write,
    pub lane: LaneEffect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Delivered, or found to be delivered before.
    Delivered,
    Dead(DeadReason),
    /// Pending again, due after this wait.
    Retry(Duration),
    /// Pending again, due now behind the others; the attempt is given back.
    Defer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadReason {
    Rejected,
    Conflict,
    PayloadTooLarge,
    AttemptsExhausted,
    MaxAge,
    /// Attempts used up, and the last claim ended by expiry (written by the claim statement).
    AttemptsExhaustedUnknown,
    /// `expires_at` passed before a claim (written by the claim statement).
    Expired,
}

impl DeadReason {
    /// The text kept in `disposition`: what operators filter and alert on.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Conflict => "conflict",
            Self::PayloadTooLarge => "payload too large",
            Self::AttemptsExhausted => "attempts exhausted",
            Self::MaxAge => "max age reached",
            Self::AttemptsExhaustedUnknown => "attempts exhausted, last outcome unknown",
            Self::Expired => "expired",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneEffect {
    /// Nothing to tell the lane beyond that its destination answered.
    Answered,
    Succeeded,
    /// A canary's success: the destination takes events, but the lane's own component has not shown that.
    CanarySucceeded,
    /// The destination answered that it never wants this event (counted by `stop_after_rejections`).
    Rejected,
    /// The destination can't take anything now.
    Pause {
        after: Option<Duration>,
    },
    /// Stop for all hosts until an operator or a changed config acts.
    Stop,
    /// Stop on this host only.
    StopHere,
    /// The host failed, so nothing was learned of the destination.
    Unknown,
    /// The destination was never asked, because the event can't be sent at all, or its answer was not
    /// waited for: another event may ask it.
    NotAsked,
}

/// Decides what an outcome means. `now` is the database's time as this host estimates it, `jitter`
/// a number in 0..1; both are arguments so that a failed run can be replayed exactly.
pub fn decide(
    facts: &AttemptFacts,
    outcome: &Outcome,
    policy: &Policy,
    now: Timestamp,
    jitter: f64,
) -> Verdict {
    let retry = |after| retry_or_die(facts, policy, now, after, jitter);
    match outcome {
        Outcome::Delivered(_) | Outcome::Duplicate(_) => {
            let lane = if facts.is_canarys { LaneEffect::CanarySucceeded } else { LaneEffect::Succeeded };
            verdict(Write::Delivered, lane)
        }
        Outcome::Rejected(_) => {
            // The answer is the destination's; whether the plugin was right to send this is the new one's.
            let lane = if facts.is_replaced { LaneEffect::Answered } else { LaneEffect::Rejected };
            verdict(Write::Dead(DeadReason::Rejected), lane)
        }
        Outcome::Conflict(_) => verdict(Write::Dead(DeadReason::Conflict), LaneEffect::Answered),
        Outcome::Retry { after, .. } => verdict(retry(*after), LaneEffect::Answered),
        Outcome::Other(_) => verdict(retry(None), LaneEffect::Answered),
        Outcome::RateLimited { after, .. } | Outcome::Unavailable { after, .. } => {
            let pause = LaneEffect::Pause { after: *after };
            match facts.deferred_before_success {
                false => verdict(defer_or_die(facts, policy, now), pause),
                // The event may be at fault, yet the lane of a probe is paused because others met
                // the same: a probe that is refused is no reason to send it all the others.
                true if facts.is_probe => verdict(retry(*after), pause),
                true => verdict(retry(*after), LaneEffect::Answered),
            }
        }
        Outcome::Gone(_) | Outcome::Misconfigured(_) => {
            let lane = if facts.config_is_superseded { LaneEffect::StopHere } else { LaneEffect::Stop };
            verdict(defer_or_die(facts, policy, now), if_current(facts, lane))
        }
        Outcome::Host(failure, _) => match failure {
            HostFailure::Trap
            | HostFailure::OutOfMemory
            | HostFailure::Deadline
            | HostFailure::LostLease
            | HostFailure::BadOutput
            | HostFailure::WrongBatchLength => verdict(retry(None), LaneEffect::Unknown),
            // A restart says nothing of the destination, so a probe of it must not lengthen its pause.
            HostFailure::Interrupted => verdict(retry(None), LaneEffect::NotAsked),
            HostFailure::PayloadTooLarge => {
                verdict(Write::Dead(DeadReason::PayloadTooLarge), LaneEffect::NotAsked)
            }
            HostFailure::PayloadUnreadable => verdict(retry(None), LaneEffect::NotAsked),
            HostFailure::Load | HostFailure::Configure => {
                verdict(defer_or_die(facts, policy, now), if_current(facts, LaneEffect::StopHere))
            }
        },
    }
}

/// A replaced plugin stops nothing: the one that runs now finds out for itself.
fn if_current(facts: &AttemptFacts, stop: LaneEffect) -> LaneEffect {
    if facts.is_replaced { LaneEffect::NotAsked } else { stop }
}

fn verdict(write: Write, lane: LaneEffect) -> Verdict {
    Verdict { write, lane }
}

fn retry_or_die(
    facts: &AttemptFacts,
    policy: &Policy,
    now: Timestamp,
    after: Option<Duration>,
    jitter: f64,
) -> Write {
    if facts.attempt >= policy.retry.max_attempts {
        Write::Dead(DeadReason::AttemptsExhausted)
    } else if is_too_old(facts, policy, now) {
        Write::Dead(DeadReason::MaxAge)
    } else {
        Write::Retry(policy.retry.wait(facts.attempt, after, jitter))
    }
}

fn defer_or_die(facts: &AttemptFacts, policy: &Policy, now: Timestamp) -> Write {
    if is_too_old(facts, policy, now) { Write::Dead(DeadReason::MaxAge) } else { Write::Defer }
}

fn is_too_old(facts: &AttemptFacts, policy: &Policy, now: Timestamp) -> bool {
    now.since(facts.first_claimed_at) >= policy.retry.max_age
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Detail, Receipt};

    fn facts() -> AttemptFacts {
        AttemptFacts {
            attempt: 1,
            first_claimed_at: Timestamp::from_secs(100),
            deferred_before_success: false,
            is_probe: false,
            is_canarys: false,
            config_is_superseded: false,
            is_replaced: false,
        }
    }

    fn judge(facts: &AttemptFacts, outcome: Outcome, at_secs: i64) -> (Write, LaneEffect) {
        let Verdict { write, lane } =
            decide(facts, &outcome, &Policy::default(), Timestamp::from_secs(at_secs), 0.5);
        (write, lane)
    }

    fn no() -> Detail {
        Detail::new("no", "refused")
    }

    fn unavailable() -> Outcome {
        Outcome::Unavailable { detail: no(), after: None }
    }

    #[test]
    fn each_outcome_has_its_own_verdict() {
        let half = Duration::from_millis(500);
        let receipt = Receipt::default;
        for (outcome, write, lane) in [
            (Outcome::Delivered(receipt()), Write::Delivered, LaneEffect::Succeeded),
            (Outcome::Duplicate(receipt()), Write::Delivered, LaneEffect::Succeeded),
            (Outcome::Retry { detail: no(), after: None }, Write::Retry(half), LaneEffect::Answered),
            (Outcome::Other(no()), Write::Retry(half), LaneEffect::Answered),
            (unavailable(), Write::Defer, LaneEffect::Pause { after: None }),
            (
                Outcome::RateLimited { detail: no(), after: Some(half) },
                Write::Defer,
                LaneEffect::Pause { after: Some(half) },
            ),
            (Outcome::Rejected(no()), Write::Dead(DeadReason::Rejected), LaneEffect::Rejected),
            (Outcome::Conflict(no()), Write::Dead(DeadReason::Conflict), LaneEffect::Answered),
            (Outcome::Gone(no()), Write::Defer, LaneEffect::Stop),
            (Outcome::Misconfigured(no()), Write::Defer, LaneEffect::Stop),
            (Outcome::Host(HostFailure::Trap, no()), Write::Retry(half), LaneEffect::Unknown),
            (Outcome::Host(HostFailure::Deadline, no()), Write::Retry(half), LaneEffect::Unknown),
            (Outcome::Host(HostFailure::Interrupted, no()), Write::Retry(half), LaneEffect::NotAsked),
            (Outcome::Host(HostFailure::Load, no()), Write::Defer, LaneEffect::StopHere),
            (Outcome::Host(HostFailure::Configure, no()), Write::Defer, LaneEffect::StopHere),
            (
                Outcome::Host(HostFailure::PayloadTooLarge, no()),
                Write::Dead(DeadReason::PayloadTooLarge),
                LaneEffect::NotAsked,
            ),
            (Outcome::Host(HostFailure::PayloadUnreadable, no()), Write::Retry(half), LaneEffect::NotAsked),
        ] {
            assert_eq!(judge(&facts(), outcome.clone(), 101), (write, lane), "{outcome:?}");
        }
    }

    #[test]
    fn the_last_attempt_that_fails_is_a_dead_letter() {
        let last = AttemptFacts { attempt: 12, ..facts() };
        let (write, _) = judge(&last, Outcome::Host(HostFailure::Trap, no()), 101);
        assert_eq!(write, Write::Dead(DeadReason::AttemptsExhausted));
        // A destination that is down burns no attempts, so it can't use them up either.
        assert_eq!(judge(&last, unavailable(), 101).0, Write::Defer);
    }

    #[test]
    fn max_age_ends_what_is_only_ever_deferred() {
        let week_secs = 7 * 86_400;
        assert_eq!(judge(&facts(), unavailable(), 100 + week_secs - 1).0, Write::Defer);
        assert_eq!(judge(&facts(), unavailable(), 100 + week_secs).0, Write::Dead(DeadReason::MaxAge));
    }

    #[test]
    fn one_event_that_always_draws_503_cannot_hold_its_lane() {
        let again = AttemptFacts { deferred_before_success: true, ..facts() };
        let (write, lane) = judge(&again, unavailable(), 101);
        assert!(matches!(write, Write::Retry(_)));
        assert_eq!(lane, LaneEffect::Answered);
    }

    #[test]
    fn a_refused_probe_keeps_its_lane_paused_even_where_its_event_may_be_at_fault() {
        let half = Duration::from_millis(500);
        let limited = Outcome::RateLimited { detail: no(), after: Some(half) };
        for (outcome, after) in [(unavailable(), None), (limited, Some(half))] {
            let probe = AttemptFacts { is_probe: true, ..facts() };
            let pause = LaneEffect::Pause { after };
            assert_eq!(judge(&probe, outcome.clone(), 101), (Write::Defer, pause));
            let again = AttemptFacts { deferred_before_success: true, ..probe };
            let (write, lane) = judge(&again, outcome, 101);
            assert!(matches!(write, Write::Retry(_)), "{write:?}");
            assert_eq!(lane, pause);
        }
    }

    #[test]
    fn a_canary_that_delivers_vouches_for_no_lane() {
        let canarys = AttemptFacts { is_canarys: true, ..facts() };
        for outcome in [Outcome::Delivered(Receipt::default()), Outcome::Duplicate(Receipt::default())] {
            assert_eq!(judge(&canarys, outcome, 101), (Write::Delivered, LaneEffect::CanarySucceeded));
        }
    }

    #[test]
    fn a_superseded_host_stops_only_itself() {
        let superseded = AttemptFacts { config_is_superseded: true, ..facts() };
        assert_eq!(judge(&superseded, Outcome::Gone(no()), 101).1, LaneEffect::StopHere);
    }

    #[test]
    fn a_plugin_that_was_replaced_while_it_ran_stops_nothing() {
        for config_is_superseded in [false, true] {
            let replaced = AttemptFacts { is_replaced: true, config_is_superseded, ..facts() };
            let refused = Outcome::Host(HostFailure::Configure, no());
            for outcome in [Outcome::Gone(no()), Outcome::Misconfigured(no()), refused] {
                assert_eq!(judge(&replaced, outcome, 101), (Write::Defer, LaneEffect::NotAsked));
            }
            let rejected = judge(&replaced, Outcome::Rejected(no()), 101);
            assert_eq!(rejected, (Write::Dead(DeadReason::Rejected), LaneEffect::Answered));
        }
    }
}
