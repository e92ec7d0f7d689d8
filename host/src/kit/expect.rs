//! A plugin's own case, run and compared.

use std::fmt::Write as _;

use super::case::{self, Behave, Case, Expect, ExpectRequest};
use super::report::Verdict;
use super::rig::{Instances, Lane, OWN_SHORT_CALL, Rig, Setup, told, wish};
use super::server::Request;
use crate::domain::Outcome;
use crate::plugin::LoadProblem;

/// Twice on a warm instance and twice on fresh ones: it comes to the same.
pub async fn run(rig: &Rig, case: &Case) -> Verdict {
    for instances in Instances::BOTH {
        let is = |behave| case.server.iter().any(|step| step.behave == behave);
        let is_slow = is(Behave::Silent) || is(Behave::Drip);
        let mut setup =
            Setup { settings: &case.settings, is_refused: is(Behave::Refuse), ..Setup::new(instances) };
        if is_slow {
            setup.call = OWN_SHORT_CALL;
        }
        rig.server.play(&case.server);
        let lane = match (rig.load(&setup).await, &case.expect.settings) {
            (Ok(_), Some(pointer)) => {
                return Verdict::Failed(format!(
                    "configure: expected a problem with {pointer}, and it took the settings"
                ));
            }
            (Err(error), expected) => return refused(&error.problem, expected.as_deref()),
            (Ok(lane), None) => lane,
        };
        for round in ["first", "second"] {
            rig.server.play(&case.server);
            let problems = one(&lane, case).await;
            if !problems.is_empty() {
                let place = format!("{round} event, instances {}", instances.as_str());
                return Verdict::Failed(format!("{} ({place})", problems.join("\n")));
            }
        }
    }
    Verdict::Passed
}

fn refused(problem: &LoadProblem, expected: Option<&str>) -> Verdict {
    let Some(pointer) = expected else {
        return Verdict::Failed(format!("it does not load: {problem}"));
    };
    match problem {
        LoadProblem::Settings(text) if names(text, pointer) => Verdict::Passed,
        other => {
            let whole = if pointer.is_empty() { "the settings as a whole" } else { pointer };
            Verdict::Failed(format!("configure: expected a problem with {whole}, got: {other}"))
        }
    }
}

/// The host's words hold one problem after the other, each behind its pointer if it has one.
fn names(text: &str, pointer: &str) -> bool {
    let mut problems = text.trim_start_matches("settings: ").split("; ");
    match pointer {
        "" => problems.any(|problem| !problem.starts_with('/')),
        _ => problems.any(|problem| problem.starts_with(&format!("{pointer}: "))),
    }
}

async fn one(lane: &Lane<'_>, case: &Case) -> Vec<String> {
    let (outcome, requests) = lane.send(&case.event).await;
    let mut problems = of_outcome(&case.expect, &outcome);
    if let Some(expected) = case.expect.requests
        && expected != requests.len()
    {
        problems.push(format!("requests: expected {expected}, got {}", requests.len()));
    }
    if let Some(expected) = &case.expect.request {
        match requests.last() {
            Some(request) => problems.extend(of_request(expected, request)),
            None => problems.push("request: the server got none".to_owned()),
        }
    }
    if !problems.is_empty() {
        problems.push(format!("the outcome was {}", told(&outcome)));
    }
    problems
}

fn of_outcome(expect: &Expect, outcome: &Outcome) -> Vec<String> {
    let mut problems = Vec::new();
    let mut differ = |what: &str, expected: &str, got: &str| {
        problems.push(format!("{what}: expected {expected}, got {got}"));
    };
    let detail = outcome.detail();
    if let Some(expected) = &expect.outcome
        && !expected.words().iter().any(|word| word == outcome.kind())
    {
        differ("outcome", &expected.words().join(" or "), outcome.kind());
    }
    let code = detail.map_or("none", |detail| &detail.code);
    if let Some(expected) = &expect.code
        && expected != code
    {
        differ("code", expected, code);
    }
    let message = detail.map_or("", |detail| &detail.message);
    if let Some(expected) = &expect.message
        && !message.contains(expected)
    {
        differ("message", &format!("one with {expected:?}"), &format!("{message:?}"));
    }
    if let Ok(Some(expected)) = case::after(expect)
        && wish(outcome) != Some(expected)
    {
        differ("after", &format!("{expected:?}"), &format!("{:?}", wish(outcome)));
    }
    if let Some(expected) = expect.maybe_applied
        && expected != outcome.is_uncertain()
    {
        differ("maybe_applied", &expected.to_string(), &outcome.is_uncertain().to_string());
    }
    let reference = match outcome {
        Outcome::Delivered(receipt) | Outcome::Duplicate(receipt) => receipt.reference.as_deref(),
        _ => None,
    };
    if let Some(expected) = &expect.reference
        && Some(expected.as_str()) != reference
    {
        differ("reference", expected, reference.unwrap_or("none"));
    }
    problems
}

fn of_request(expect: &ExpectRequest, request: &Request) -> Vec<String> {
    let mut problems = Vec::new();
    let mut compare = |what: &str, expected: Option<&String>, got: Option<&str>| {
        if let Some(expected) = expected
            && Some(expected.as_str()) != got
        {
            problems.push(format!("request's {what}: expected {expected:?}, got {got:?}"));
        }
    };
    compare("method", expect.method.as_ref(), Some(&request.method));
    compare("path", expect.path.as_ref(), Some(&request.path));
    for (name, value) in &expect.headers {
        compare(&format!("header {name}"), Some(value), request.header(name));
    }
    if let Ok(Some(expected)) = case::body(expect)
        && expected != request.body
    {
        problems.push(format!(
            "request's body: expected {}, got {}",
            excerpt(&expected),
            excerpt(&request.body)
        ));
    }
    problems
}

/// Bytes as a person reads them.
pub fn excerpt(bytes: &[u8]) -> String {
    const MOST: usize = 200;
    let mut text = format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(MOST)]));
    if bytes.len() > MOST {
        let _ = write!(text, " … ({} bytes)", bytes.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Detail, Receipt};

    fn expect(text: &str) -> Expect {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn an_outcome_is_compared_in_every_part_that_is_written() {
        let detail = Detail { maybe_applied: true, ..Detail::new("http-503", "it is down") };
        let outcome = Outcome::Retry { detail, after: Some(std::time::Duration::from_secs(7)) };
        let good = "outcome = [\"other\", \"retry\"]\ncode = \"http-503\"\nmessage = \"down\"\nafter = \"7s\"\nmaybe_applied = true";
        assert_eq!(of_outcome(&expect(good), &outcome), Vec::<String>::new());
        for (wrong, word) in [
            ("outcome = \"gone\"", "expected gone, got retry"),
            ("code = \"http-500\"", "http-500"),
            ("message = \"up\"", "up"),
            ("after = \"8s\"", "8s"),
            ("maybe_applied = false", "maybe_applied"),
            ("reference = \"/1\"", "got none"),
        ] {
            let problems = of_outcome(&expect(wrong), &outcome);
            assert!(problems.len() == 1 && problems[0].contains(word), "{wrong}: {problems:?}");
        }
        let delivered = Outcome::Delivered(Receipt { reference: Some("/1".into()) });
        assert!(of_outcome(&expect("reference = \"/1\""), &delivered).is_empty());
    }

    #[test]
    fn a_settings_problem_is_found_by_its_whole_pointer() {
        let text = "settings: /url: it is none; /most: too large";
        assert!(names(text, "/url") && names(text, "/most"));
        assert!(!names(text, "/mos") && !names(text, "/url/0") && !names(text, ""));
        assert!(names("settings: missing field `url`", ""));
    }

    #[test]
    fn a_request_is_compared_in_every_part_that_is_written() {
        let request = Request {
            method: "POST".into(),
            path: "/a".into(),
            headers: vec![("x-a".into(), "1".into())],
            body: b"b".to_vec(),
        };
        let parse = |text: &str| toml::from_str::<ExpectRequest>(text).unwrap();
        let good = "method = \"POST\"\npath = \"/a\"\nbody = \"b\"\nheaders = { X-A = \"1\" }";
        assert!(of_request(&parse(good), &request).is_empty());
        for wrong in ["method = \"PUT\"", "path = \"/\"", "body = \"c\"", "headers = { y = \"1\" }"] {
            assert_eq!(of_request(&parse(wrong), &request).len(), 1, "{wrong}");
        }
    }
}
