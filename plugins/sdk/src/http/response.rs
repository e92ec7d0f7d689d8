//! The answer, read within bounds, and what it means.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::retry_after;
use crate::bindings::destination::wasi::http::types::{IncomingBody, IncomingResponse};
use crate::bindings::destination::wasi::io::streams::{InputStream, StreamError};
use crate::deadline::Deadline;
use crate::{Failure, Kind, Outcome, Receipt};

/// Of the answer's body, this much is shown to people.
const EXCERPT_BYTES: usize = 300;

/// A body that is read to its end leaves the connection usable. One that is longer, or slower than
/// this, costs more to wait for than a new connection does.
const DRAIN_BYTES: u64 = 256 << 10;
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// What the destination answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, Vec<u8>)>,
    /// The beginning, as much of it as the request said to keep.
    pub body: Vec<u8>,
    /// The body ended within that, and without an error.
    pub is_whole: bool,
}

impl Response {
    /// The first value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// The wish of `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_at(now_s())
    }

    fn retry_after_at(&self, now_s: u64) -> Option<Duration> {
        retry_after::parse_ms(self.header("retry-after")?, now_s).map(Duration::from_millis)
    }

    /// A gateway that got no answer, or a broken one, can't tell whether the receiver acted.
    pub fn is_uncertain(&self) -> bool {
        matches!(self.status, 502 | 504)
    }

    /// The beginning of the body, for the person who reads the history.
    pub fn excerpt(&self) -> String {
        let beginning = &self.body[..self.body.len().min(EXCERPT_BYTES)];
        String::from_utf8_lossy(beginning).trim().to_owned()
    }

    /// The outcome by [`Kind::of_status`].
    pub fn outcome(&self) -> Outcome {
        self.outcome_as(Kind::of_status(self.status))
    }

    /// The outcome where the destination gives this status another meaning.
    pub fn outcome_as(&self, kind: Kind) -> Outcome {
        let code = format!("http-{}", self.status);
        let message = match self.excerpt() {
            excerpt if excerpt.is_empty() => format!("the receiver answered {}", self.status),
            excerpt => format!("the receiver answered {}: {excerpt}", self.status),
        };
        let failure = match kind {
            Kind::Delivered => return Ok(self.receipt(Receipt::delivered())),
            Kind::Duplicate => return Ok(self.receipt(Receipt::duplicate())),
            Kind::Retry => Failure::retry(code, message),
            Kind::RateLimited => Failure::rate_limited(code, message),
            Kind::Unavailable => Failure::unavailable(code, message),
            Kind::Rejected => Failure::rejected(code, message),
            Kind::Conflict => Failure::conflict(code, message),
            Kind::Gone => Failure::gone(code, message),
            Kind::Misconfigured => Failure::misconfigured(code, message),
        };
        let failure = if self.is_uncertain() { failure.maybe_applied() } else { failure };
        Err(match self.retry_after() {
            Some(wait) => failure.after(wait),
            None => failure,
        })
    }

    fn receipt(&self, receipt: Receipt) -> Receipt {
        let receipt = receipt.with_attribute("status", self.status.to_string());
        match self.header("location") {
            Some(location) => receipt.with_reference(location),
            None => receipt,
        }
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Reads what is to be kept, and then some more for the connection's sake. The status is known already,
/// so nothing that goes wrong here is an error.
pub(super) fn read(
    response: IncomingResponse,
    deadline: &Deadline,
    bytes_max: usize,
    time_max: Option<Duration>,
) -> Response {
    let mut answer = Response { status: response.status(), ..Response::default() };
    answer.headers = response.headers().entries();
    if let Ok(body) = response.consume() {
        if let Ok(stream) = body.stream() {
            let patience = time_max.map(|time| deadline.or_sooner(time));
            let draining = deadline.or_sooner(DRAIN_TIME);
            let mut reader = Reader { stream, read: 0, ended: false };
            reader.keep(&mut answer.body, bytes_max, patience.as_ref().unwrap_or(deadline));
            answer.is_whole = reader.ended;
            reader.drain(&draining);
        }
        drop(IncomingBody::finish(body));
    }
    answer
}

struct Reader {
    stream: InputStream,
    read: u64,
    /// The body came to its end, and not by an error.
    ended: bool,
}

impl Reader {
    fn keep(&mut self, body: &mut Vec<u8>, bytes_max: usize, deadline: &Deadline) {
        while body.len() <= bytes_max && !deadline.has_passed() {
            let Some(bytes) = self.more(deadline) else { return };
            body.extend_from_slice(&bytes);
        }
        self.ended = false;
        body.truncate(bytes_max);
    }

    fn drain(&mut self, deadline: &Deadline) {
        while self.read < DRAIN_BYTES && !deadline.has_passed() && self.more(deadline).is_some() {}
    }

    /// None at the end, and at an error.
    fn more(&mut self, deadline: &Deadline) -> Option<Vec<u8>> {
        let readable = self.stream.subscribe();
        deadline.wait(&[&readable]);
        match self.stream.read(16 << 10) {
            Ok(bytes) => {
                self.read += bytes.len() as u64;
                Some(bytes)
            }
            Err(error) => {
                self.ended = matches!(error, StreamError::Closed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        Response { status, headers: headers.collect(), body: body.into(), is_whole: true }
    }

    #[test]
    fn the_wish_to_wait_and_the_body_reach_the_history() {
        let outcome = answer(503, &[("Retry-After", "7")], " down for maintenance\n").outcome();
        let Err(Failure::Unavailable(info)) = outcome else { panic!("{outcome:?}") };
        assert_eq!((info.code.as_str(), info.after_ms, info.maybe_applied), ("http-503", Some(7_000), false));
        assert_eq!(info.message, "the receiver answered 503: down for maintenance");
    }

    #[test]
    fn a_location_becomes_the_reference() {
        let outcome = answer(201, &[("location", "/orders/7")], "").outcome().unwrap();
        assert_eq!(outcome.reference.as_deref(), Some("/orders/7"));
        assert_eq!(outcome.attributes, [("status".to_owned(), "201".to_owned())]);
    }

    #[test]
    fn a_gateway_without_an_answer_leaves_the_effect_uncertain() {
        for (status, uncertain) in [(500, false), (502, true), (503, false), (504, true)] {
            assert_eq!(answer(status, &[], "").is_uncertain(), uncertain, "{status}");
        }
    }

    #[test]
    fn an_excerpt_is_cut_and_never_fails() {
        let long = answer(400, &[], &"é".repeat(400));
        assert!(long.excerpt().len() <= EXCERPT_BYTES + 2);
    }
}
