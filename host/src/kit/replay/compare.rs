//! Where two components differ over one event.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Made;
use super::body;
use crate::domain::Outcome;
use crate::kit::rig::{told, wish};
use crate::plugin::offline::Sent;

/// Of a value in a difference; the rest is cut.
const SHOWN_CHARS: usize = 200;

/// Headers whose values are credentials: told to differ, and not shown.
const UNSHOWN: [&str; 5] = ["authorization", "cookie", "proxy-authorization", "x-api-key", "api-key"];

/// What it asked for that is not there.
const UNREACHED: &str = "unreached";

/// One thing that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `outcome`, `request 1 header content-type`, `request 1 body /total`.
    pub what: String,
    pub current: String,
    pub candidate: String,
}

impl Difference {
    pub fn new(what: impl Into<String>, current: &str, candidate: &str) -> Self {
        Self { what: what.into(), current: shown(current), candidate: shown(candidate) }
    }

    /// Of what comes of the event, and not of a request.
    pub fn is_of_outcome(&self) -> bool {
        !self.what.starts_with("request") && self.what != UNREACHED
    }
}

/// The headers `ignored` are not compared (names in lower case).
pub fn differences(current: &Made, candidate: &Made, ignored: &BTreeSet<String>) -> Vec<Difference> {
    let mut found = of_outcome(&current.outcome, &candidate.outcome);
    let (old, new) = (&current.heard, &candidate.heard);
    if old.request_count != new.request_count {
        let (old, new) = (old.request_count.to_string(), new.request_count.to_string());
        found.push(Difference::new("requests", &old, &new));
    }
    for (index, (old, new)) in old.requests.iter().zip(&new.requests).enumerate() {
        of_request(&format!("request {}", index + 1), old, new, ignored, &mut found);
    }
    if old.unreached != new.unreached {
        found.push(Difference::new(UNREACHED, &list(&old.unreached), &list(&new.unreached)));
    }
    found
}

/// What the host acts on. The words of a message are for people, and may change.
fn of_outcome(current: &Outcome, candidate: &Outcome) -> Vec<Difference> {
    let code = |outcome: &Outcome| outcome.detail().map(|detail| detail.code.clone());
    let facts = |outcome: &Outcome| (outcome.kind(), code(outcome), outcome.is_uncertain());
    let mut found = Vec::new();
    if facts(current) != facts(candidate) {
        found.push(Difference::new("outcome", &told(current), &told(candidate)));
    }
    let (old, new) = (wish(current), wish(candidate));
    if old != new {
        let told = |wish: Option<_>| {
            wish.map_or("none".to_owned(), |wish| humantime::format_duration(wish).to_string())
        };
        found.push(Difference::new("after", &told(old), &told(new)));
    }
    let (old, new) = (reference(current), reference(candidate));
    if old != new {
        found.push(Difference::new("reference", old.unwrap_or("none"), new.unwrap_or("none")));
    }
    found
}

fn reference(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Delivered(receipt) | Outcome::Duplicate(receipt) => receipt.reference.as_deref(),
        _ => None,
    }
}

fn of_request(name: &str, old: &Sent, new: &Sent, ignored: &BTreeSet<String>, found: &mut Vec<Difference>) {
    let mut differ = |what: &str, old: &str, new: &str| {
        if old != new {
            found.push(Difference::new(format!("{name} {what}"), old, new));
        }
    };
    differ("method", &old.method, &new.method);
    differ("url", &old.url, &new.url);
    let (olds, news) = (by_name(old), by_name(new));
    for header in olds.keys().chain(news.keys()).collect::<BTreeSet<_>>() {
        if ignored.contains(*header) {
            continue;
        }
        let value = |of: &BTreeMap<&str, Vec<&str>>| of.get(header).map(|values| values.join(", "));
        let (old, new) = (value(&olds), value(&news));
        let what = format!("header {header}");
        match UNSHOWN.contains(header) && old.is_some() && new.is_some() {
            true if old != new => differ(&what, "one value", "another value"),
            true => {}
            false => differ(&what, &hidden(header, old), &hidden(header, new)),
        }
    }
    for (place, old, new) in body::differences(old, new) {
        differ(format!("body {place}").trim_end(), &old, &new);
    }
}

fn hidden(header: &str, value: Option<String>) -> String {
    match value {
        None => "none".to_owned(),
        Some(_) if UNSHOWN.contains(&header) => "a value".to_owned(),
        Some(value) => value,
    }
}

fn by_name(sent: &Sent) -> BTreeMap<&str, Vec<&str>> {
    let mut by_name = BTreeMap::<_, Vec<_>>::new();
    sent.headers.iter().for_each(|(name, value)| by_name.entry(name.as_str()).or_default().push(&**value));
    by_name
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}…", &text[..cut]),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::domain::{Detail, Receipt};
    use crate::kit::replay::script::Heard;

    fn sent(headers: &[(&str, &str)], body: &str) -> Sent {
        use sha2::Digest;
        let hash = sha2::Sha256::digest(body.as_bytes());
        Sent {
            method: "POST".into(),
            url: "http://h/".into(),
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            body_bytes: body.len() as u64,
            body_sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    fn made(outcome: Outcome, requests: Vec<Sent>) -> Made {
        let heard = Heard { request_count: requests.len(), requests, unreached: Vec::new() };
        Made { outcome, heard }
    }

    fn delivered() -> Outcome {
        Outcome::Delivered(Receipt::default())
    }

    fn lines(old: &Made, new: &Made) -> Vec<String> {
        let ignored = BTreeSet::from(["user-agent".to_owned()]);
        let line = |it: Difference| format!("{}: {} → {}", it.what, it.current, it.candidate);
        differences(old, new, &ignored).into_iter().map(line).collect()
    }

    #[test]
    fn what_the_host_acts_on_is_compared_and_the_words_of_a_message_are_not() {
        let rejected =
            |code: &str, message: &str| made(Outcome::Rejected(Detail::new(code, message)), Vec::new());
        assert!(lines(&rejected("a", "one"), &rejected("a", "two")).is_empty());
        assert_eq!(
            lines(&rejected("a", "x"), &rejected("b", "x")),
            ["outcome: rejected (a: x) → rejected (b: x)"]
        );
        let retry = |after| {
            made(
                Outcome::Retry { detail: Detail::new("a", ""), after: Some(Duration::from_secs(after)) },
                vec![],
            )
        };
        assert_eq!(lines(&retry(7), &retry(60)), ["after: 7s → 1m"]);
        let receipt =
            |text: &str| made(Outcome::Delivered(Receipt { reference: Some(text.to_owned()) }), Vec::new());
        assert_eq!(lines(&receipt("1"), &made(delivered(), vec![])), ["reference: 1 → none"]);
        let mut uncertain = Detail::new("a", "x");
        uncertain.maybe_applied = true;
        assert_eq!(lines(&rejected("a", "x"), &made(Outcome::Rejected(uncertain), vec![])).len(), 1);
    }

    #[test]
    fn requests_are_compared_one_by_one_but_for_the_headers_to_ignore() {
        let old = sent(&[("a", "1"), ("user-agent", "x/1"), ("authorization", "Bearer old")], "{}");
        let mut new = sent(&[("b", "2"), ("user-agent", "x/2"), ("authorization", "Bearer new")], "{}");
        new.url = "http://h/v2".into();
        let lines = lines(&made(delivered(), vec![old.clone()]), &made(delivered(), vec![new, old]));
        assert_eq!(
            lines,
            [
                "requests: 1 → 2",
                "request 1 url: http://h/ → http://h/v2",
                "request 1 header a: 1 → none",
                "request 1 header authorization: one value → another value",
                "request 1 header b: none → 2",
            ]
        );
    }
}
