//! What an answer, or the lack of one, means for the delivery.

use std::fmt;
use std::time::Duration;

use crate::retry_after;
use crate::settings::Overrides;

/// The contract's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Delivered,
    Duplicate,
    Retry,
    RateLimited,
    Unavailable,
    Rejected,
    Conflict,
    Gone,
    Misconfigured,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::Delivered,
        Self::Duplicate,
        Self::Retry,
        Self::RateLimited,
        Self::Unavailable,
        Self::Rejected,
        Self::Conflict,
        Self::Gone,
        Self::Misconfigured,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Duplicate => "duplicate",
            Self::Retry => "retry",
            Self::RateLimited => "rate-limited",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Misconfigured => "misconfigured",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How an attempt ended. `after_ms` counts only for the kinds that have it in the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub kind: Kind,
    pub code: String,
    pub message: String,
    pub maybe_applied: bool,
    pub after_ms: Option<u64>,
    /// The receiver's own name for what it stored.
    pub reference: Option<String>,
}

impl Verdict {
    pub fn new(kind: Kind, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.into(),
            maybe_applied: false,
            after_ms: None,
            reference: None,
        }
    }

    pub fn maybe_applied(self) -> Self {
        Self { maybe_applied: true, ..self }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Name lookup, connection or TLS failed: the request never left.
    NotConnected,
    /// The operator's config does not allow the request.
    NotAllowed,
    /// The settings make a request that can't be sent.
    Unsendable,
    /// This event makes a request larger than the host sends.
    TooLarge,
    /// The request left, or a part of it, and no whole answer came back.
    NoAnswer,
}

impl Fault {
    pub fn verdict(self, code: &str, message: String) -> Verdict {
        match self {
            Self::NotConnected => Verdict::new(Kind::Unavailable, code, message),
            Self::NotAllowed | Self::Unsendable => Verdict::new(Kind::Misconfigured, code, message),
            Self::TooLarge => Verdict::new(Kind::Rejected, code, message),
            Self::NoAnswer => Verdict::new(Kind::Retry, code, message).maybe_applied(),
        }
    }
}

/// How long the request may take: what the operator set, but never so long that the host would end
/// the call first, for then nobody could say what happened.
pub fn request_timeout(setting: Option<Duration>, budget: Duration) -> Duration {
    let margin = (budget / 20).clamp(MARGIN_MIN, MARGIN_MAX).min(budget / 2);
    let most = budget - margin;
    setting.map_or(most, |setting| setting.min(most))
}

const MARGIN_MIN: Duration = Duration::from_millis(100);
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// What a receiver answered, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub location: Option<String>,
    /// The beginning of the body, for the person who reads the history.
    pub excerpt: String,
}

/// Judges an answer. `now` is in seconds since 1970, for a Retry-After that is a date.
pub fn of_answer(answer: &Answer, overrides: &Overrides, now: u64) -> Verdict {
    let kind = overrides.get(answer.status).unwrap_or_else(|| of_status(answer.status));
    let excerpt = answer.excerpt.trim();
    let message = match excerpt.is_empty() {
        true => format!("the receiver answered {}", answer.status),
        false => format!("the receiver answered {}: {excerpt}", answer.status),
    };
    Verdict {
        kind,
        code: format!("http-{}", answer.status),
        message,
        // A gateway that got no answer, or a broken one, can't tell whether the receiver acted.
        maybe_applied: matches!(answer.status, 502 | 504),
        after_ms: answer.retry_after.as_deref().and_then(|text| retry_after::parse_ms(text, now)),
        reference: answer.location.clone(),
    }
}

/// The default meaning of a status.
fn of_status(status: u16) -> Kind {
    match status {
        200..=299 => Kind::Delivered,
        400 | 413 | 415 | 422 => Kind::Rejected,
        // Not the event's fault: a rotated credential must not kill a backlog.
        401 | 403 => Kind::Misconfigured,
        410 => Kind::Gone,
        429 => Kind::RateLimited,
        502..=504 => Kind::Unavailable,
        _ => Kind::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(status: u16) -> Kind {
        of_answer(&Answer { status, ..Answer::default() }, &Overrides::default(), 0).kind
    }

    #[test]
    fn every_status_has_its_documented_meaning() {
        for status in 100..=599 {
            let expected = match status {
                200..=299 => Kind::Delivered,
                400 | 413 | 415 | 422 => Kind::Rejected,
                401 | 403 => Kind::Misconfigured,
                410 => Kind::Gone,
                429 => Kind::RateLimited,
                502..=504 => Kind::Unavailable,
                _ => Kind::Retry,
            };
            assert_eq!(judge(status), expected, "{status}");
        }
    }

    #[test]
    fn an_exact_override_wins_over_a_class_and_a_class_over_the_default() {
        let mut overrides = Overrides::default();
        overrides.insert_class(4, Kind::Rejected);
        overrides.insert(409, Kind::Duplicate);
        let judge = |status| of_answer(&Answer { status, ..Answer::default() }, &overrides, 0).kind;
        assert_eq!(judge(409), Kind::Duplicate);
        assert_eq!(judge(404), Kind::Rejected);
        assert_eq!(judge(429), Kind::Rejected);
        assert_eq!(judge(500), Kind::Retry);
    }

    #[test]
    fn the_wish_to_wait_and_the_body_reach_the_history() {
        let answer = Answer {
            status: 503,
            retry_after: Some("7".into()),
            location: None,
            excerpt: " down for maintenance\n".into(),
        };
        let verdict = of_answer(&answer, &Overrides::default(), 0);
        assert_eq!(verdict.after_ms, Some(7_000));
        assert_eq!(verdict.code, "http-503");
        assert_eq!(verdict.message, "the receiver answered 503: down for maintenance");
        assert!(!verdict.maybe_applied);
    }

    #[test]
    fn only_a_request_that_may_have_left_is_uncertain() {
        for (fault, kind, uncertain) in [
            (Fault::NotConnected, Kind::Unavailable, false),
            (Fault::NotAllowed, Kind::Misconfigured, false),
            (Fault::Unsendable, Kind::Misconfigured, false),
            (Fault::TooLarge, Kind::Rejected, false),
            (Fault::NoAnswer, Kind::Retry, true),
        ] {
            let verdict = fault.verdict("code", "message".into());
            assert_eq!((verdict.kind, verdict.maybe_applied), (kind, uncertain), "{fault:?}");
        }
    }

    #[test]
    fn the_request_ends_before_the_calls_budget_does() {
        let ms = Duration::from_millis;
        for (setting, budget, expected) in [
            (None, ms(10_000), ms(9_500)),
            (Some(ms(3_000)), ms(10_000), ms(3_000)),
            (Some(ms(60_000)), ms(10_000), ms(9_500)),
            (None, ms(60_000), ms(59_000)),
            (None, ms(1_000), ms(900)),
            (None, ms(100), ms(50)),
            (None, ms(0), ms(0)),
        ] {
            assert_eq!(request_timeout(setting, budget), expected, "{setting:?} {budget:?}");
        }
    }

    #[test]
    fn a_gateway_without_an_answer_leaves_the_effect_uncertain() {
        for (status, uncertain) in [(500, false), (502, true), (503, false), (504, true)] {
            let answer = Answer { status, ..Answer::default() };
            assert_eq!(of_answer(&answer, &Overrides::default(), 0).maybe_applied, uncertain, "{status}");
        }
    }
}
