//! The cases every plugin must pass, whatever it delivers to: of answers, of payloads, of what may not
//! leak from one event to the next. Each is run on warm instances and on recycled ones.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, json};

use super::case::{Behave, Event, Step};
use super::expect::excerpt;
use super::report::Verdict;
use super::rig::{Instances, Lane, Rig, SHORT_CALL, Setup, told};
use super::server::Request;
use crate::domain::Outcome;
use crate::plugin::LoadProblem;

pub const SETTINGS: &str = "settings it does not know are refused or ignored, and configure never traps";

pub async fn unknown_setting(rig: &Rig) -> Verdict {
    let settings: Map<_, _> =
        [("no-such-setting-exists".to_owned(), json!([{ "é\"\\": null }]))].into_iter().collect();
    match rig.load(&Setup { settings: &settings, ..Setup::new(Instances::Warm) }).await {
        Ok(_) => Verdict::Passed,
        Err(error) => match error.problem {
            LoadProblem::Settings(_) => Verdict::Passed,
            other => Verdict::Failed(format!("it should name the setting: {other}")),
        },
    }
}

/// A case of payloads and texts: delivered, or rejected for good.
pub struct Odd {
    pub name: &'static str,
    pub event: fn() -> Event,
}

pub const ODD: [Odd; 5] = [
    Odd { name: "an empty payload", event: || with_payload(b"") },
    Odd { name: "a payload of all 256 bytes", event: || with_payload(&(0..=255).collect::<Vec<u8>>()) },
    Odd {
        name: "a payload in many scripts",
        event: || with_payload("{\"it\":\"é ß 中文 🚀 \\u0000\"}".as_bytes()),
    },
    Odd { name: "a payload of 1 MiB", event: || with_payload(&vec![b'7'; 1 << 20]) },
    Odd { name: "texts in many scripts and of the full length", event: long_texts },
];

fn with_payload(payload: &[u8]) -> Event {
    // Of its own ID: the same one with other content is a conflict for whoever keeps a ledger.
    let id = format!("payload-of-{}", payload.len());
    Event { id, payload_base64: Some(STANDARD.encode(payload)), ..Event::default() }
}

fn long_texts() -> Event {
    let most = |text: &str| text.repeat(255 / text.len());
    Event {
        id: most("é"),
        tenant: most("中"),
        topic: format!("order.{}", "x".repeat(249)),
        key: Some(most("🚀")),
        headers: [("X-Ünïcode".to_owned(), "line\nbreak".to_owned()), (most("h"), most("\"\\"))].into(),
        content_type: "text/plain; charset=utf-8".to_owned(),
        ..Event::default()
    }
}

pub async fn odd(rig: &Rig, odd: &Odd, instances: Instances) -> Result<(), String> {
    let lane = ready(rig, &Setup::new(instances), &[Step::status(200)]).await?;
    for _ in 0..2 {
        let (outcome, _) = lane.send(&(odd.event)()).await;
        let is_fine = outcome.is_success() || matches!(outcome, Outcome::Rejected(_));
        ensure(is_fine, "it is delivered, or rejected because it never can be", &outcome)?;
    }
    Ok(())
}

/// What an answer, or the lack of one, may mean.
pub struct Answer {
    pub name: &'static str,
    pub steps: fn() -> Vec<Step>,
    pub sane: fn(&Outcome) -> bool,
    /// What a sane outcome is, for whoever reads that it was none.
    pub because: &'static str,
}

fn statuses<const N: usize>(statuses: [u16; N]) -> Vec<Step> {
    statuses.into_iter().map(Step::status).collect()
}

fn is_temporary(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Retry { .. } | Outcome::RateLimited { .. } | Outcome::Unavailable { .. } | Outcome::Other(_)
    )
}

fn is_own_failure(outcome: &Outcome) -> bool {
    !outcome.is_success() && !matches!(outcome, Outcome::Host(..))
}

pub const ANSWERS: [Answer; 16] = [
    Answer {
        name: "200, 201, 202 and 204 are a success",
        steps: || statuses([200, 201, 202, 204]),
        sane: Outcome::is_success,
        because: "the receiver has it",
    },
    Answer {
        name: "a redirect is not followed and no success",
        steps: || {
            let redirect = |status| Step::status(status).header("location", "/elsewhere");
            [301, 302, 303, 307, 308].map(redirect).to_vec()
        },
        sane: is_own_failure,
        because: "nothing was accepted yet",
    },
    Answer {
        name: "400, 404, 405, 413, 415 and 422 are no success",
        steps: || statuses([400, 404, 405, 413, 415, 422]),
        sane: is_own_failure,
        because: "the receiver refused it",
    },
    Answer {
        name: "401 and 403 are not held against the event",
        steps: || statuses([401, 403]),
        sane: |outcome| matches!(outcome, Outcome::Misconfigured(_)) || is_temporary(outcome),
        because: "a rotated credential must not kill a backlog; say misconfigured",
    },
    Answer {
        name: "408 and 425 are worth another attempt",
        steps: || statuses([408, 425]),
        sane: is_temporary,
        because: "the receiver asks for it",
    },
    Answer {
        name: "409 is never delivered",
        steps: || statuses([409]),
        sane: |outcome| !matches!(outcome, Outcome::Delivered(_) | Outcome::Host(..)),
        because: "at most it is a duplicate, if the receiver means that by it",
    },
    Answer {
        name: "410 is no success",
        steps: || statuses([410]),
        sane: is_own_failure,
        because: "the receiver is gone",
    },
    Answer {
        name: "429 costs no event",
        steps: || statuses([429]),
        sane: is_temporary,
        because: "the receiver only asks for fewer requests; say rate-limited",
    },
    Answer {
        name: "500, 502, 503, 504 and 599 cost no event",
        steps: || statuses([500, 502, 503, 504, 599]),
        sane: is_temporary,
        because: "the fault is the receiver's and may pass; say retry or unavailable",
    },
    Answer {
        name: "a refused connection is temporary and certain",
        steps: || vec![Step::behaving(Behave::Refuse)],
        sane: |outcome| is_temporary(outcome) && !outcome.is_uncertain(),
        because: "nothing left; say unavailable, without maybe-applied",
    },
    Answer {
        name: "a connection reset before the answer may have been applied",
        steps: || vec![Step::behaving(Behave::Reset)],
        sane: |outcome| is_temporary(outcome) && outcome.is_uncertain(),
        because: "the request left and no answer came; say retry with maybe-applied",
    },
    Answer {
        name: "no answer at all ends before the call's budget does",
        steps: || vec![Step::behaving(Behave::Silent)],
        sane: |outcome| is_temporary(outcome) && outcome.is_uncertain(),
        because: "give the request a timeout below budget-ms, and say retry with maybe-applied",
    },
    Answer {
        name: "an answer that drips without end ends before the call's budget does",
        steps: || vec![Step::behaving(Behave::Drip)],
        sane: |outcome| outcome.is_success() || is_temporary(outcome),
        because: "the status is known; stop reading before budget-ms is over",
    },
    Answer {
        name: "an answer cut short is a success by its status, or may have been applied",
        steps: || vec![Step::behaving(Behave::Cut)],
        sane: |outcome| outcome.is_success() || (is_temporary(outcome) && outcome.is_uncertain()),
        because: "the receiver answered 200 before the connection ended",
    },
    Answer {
        name: "an answer of 8 MiB costs no memory and no event",
        steps: || vec![Step::behaving(Behave::Huge)],
        sane: |outcome| outcome.is_success() || (is_temporary(outcome) && outcome.is_uncertain()),
        because: "read only the beginning; the receiver answered 200",
    },
    Answer {
        name: "Retry-After is passed on",
        steps: || [429, 503].map(|status| Step::status(status).header("retry-after", "7")).to_vec(),
        sane: |outcome| {
            is_temporary(outcome) && super::rig::wish(outcome).is_none_or(|wish| wish.as_secs() == 7)
        },
        because: "the receiver asked for 7 seconds; set after-ms to 7000 or leave it out",
    },
];

pub async fn answer(rig: &Rig, answer: &Answer, instances: Instances) -> Result<(), String> {
    let steps = (answer.steps)();
    let is = |behave| steps.iter().any(|step: &Step| step.behave == behave);
    let mut setup = Setup { is_refused: is(Behave::Refuse), ..Setup::new(instances) };
    if is(Behave::Silent) || is(Behave::Drip) {
        setup.call = SHORT_CALL;
    }
    let lane = ready(rig, &setup, &steps).await?;
    for step in &steps {
        rig.server.play(std::slice::from_ref(step));
        let (outcome, requests) = lane.send(&Event::default()).await;
        let because = match step.behave {
            Behave::Well => format!("{} drew it: {}", step.status, answer.because),
            _ => answer.because.to_owned(),
        };
        ensure((answer.sane)(&outcome), &because, &outcome)?;
        if matches!(step.status, 300..=399) && requests.len() > 1 {
            return Err(format!("{} was followed to {:?}", step.status, requests[1].path));
        }
    }
    // Whatever happened, the next event finds everything in order.
    setup.is_refused = false;
    let lane = if is(Behave::Refuse) { ready(rig, &setup, &[]).await? } else { lane };
    rig.server.play(&[Step::status(200)]);
    let (outcome, _) = lane.send(&Event::default()).await;
    ensure(outcome.is_success(), "the event after it is delivered", &outcome)
}

/// Texts that appear in one event and must not appear in another's request.
const MARKS: [&str; 2] = ["alpha-7f3a91", "bravo-9c21d4"];

fn marked(mark: &str) -> Event {
    Event {
        id: format!("id-{mark}"),
        key: Some(format!("key-{mark}")),
        headers: [("x-mark".to_owned(), format!("header-{mark}"))].into(),
        payload: Some(format!("{{\"mark\":\"{mark}\"}}")),
        ..Event::default()
    }
}

pub const REPEATED: &str = "the same event twice makes the same request";

pub async fn repeated(rig: &Rig, instances: Instances) -> Result<(), String> {
    let lane = ready(rig, &Setup::new(instances), &[Step::status(200)]).await?;
    let (_, first) = lane.send(&marked(MARKS[0])).await;
    let (_, second) = lane.send(&marked(MARKS[0])).await;
    same(&first, &second)
}

pub const MIXED: &str = "nothing of one event shows in the request of another, one after the other";

pub async fn mixed(rig: &Rig, instances: Instances) -> Result<(), String> {
    let lane = ready(rig, &Setup::new(instances), &[Step::status(200)]).await?;
    let [alpha, bravo] = MARKS;
    let (_, first) = lane.send(&marked(alpha)).await;
    for mark in [bravo, alpha, bravo, alpha] {
        let (outcome, requests) = lane.send(&marked(mark)).await;
        ensure(outcome.is_success(), "each of two events in turn is delivered", &outcome)?;
        let other = if mark == alpha { bravo } else { alpha };
        unmarked(&requests, other)?;
        if mark == alpha {
            same(&first, &requests)?;
        }
    }
    Ok(())
}

pub const AFTER_FAILURE: &str = "nothing of an event that failed shows in the next one's request";

pub async fn after_failure(rig: &Rig, instances: Instances) -> Result<(), String> {
    let [alpha, bravo] = MARKS;
    let lane = ready(rig, &Setup::new(instances), &[]).await?;
    for status in [500, 400, 429] {
        rig.server.play(&[Step::status(status)]);
        lane.send(&marked(alpha)).await;
        rig.server.play(&[Step::status(200)]);
        let (outcome, requests) = lane.send(&marked(bravo)).await;
        ensure(outcome.is_success(), &format!("the event after a {status} is delivered"), &outcome)?;
        unmarked(&requests, alpha)?;
    }
    Ok(())
}

pub const TOGETHER: &str = "events delivered at the same time do not mix";

pub async fn together(rig: &Rig, instances: Instances) -> Result<(), String> {
    let setup = Setup { concurrency: 4, ..Setup::new(instances) };
    let lane = ready(rig, &setup, &[Step::status(200)]).await?;
    let events: Vec<Event> = (0..8).map(|number| marked(MARKS[number % 2])).collect();
    let outcomes = futures_util::future::join_all(events.iter().map(|event| lane.deliver(event))).await;
    for outcome in &outcomes {
        ensure(outcome.is_success(), "each of eight events at once is delivered", outcome)?;
    }
    let mixed = rig.server.take().into_iter().find(|it| MARKS.iter().all(|mark| holds(it, mark)));
    mixed.map_or(Ok(()), |request| Err(format!("one request holds both events: {}", shown(&request))))
}

pub const BATCH: &str = "a batch of eight events is delivered whole, and each of it once";

/// Only for a plugin that exports `batch`.
pub async fn batch(rig: &Rig, instances: Instances) -> Result<(), String> {
    let lane = ready(rig, &Setup::new(instances), &[Step::status(200)]).await?;
    // Who takes no such payload at all rejects each of them.
    let (alone, _) = lane.send(&marked("batch-of-one")).await;
    let is_fine = |outcome: &Outcome| match alone {
        Outcome::Rejected(_) => matches!(outcome, Outcome::Rejected(_)),
        _ => outcome.is_success(),
    };
    let events: Vec<Event> = (0..8).map(|number| marked(&format!("batch-{number}-of-8"))).collect();
    for outcome in &lane.deliver_batch(&events).await {
        ensure(is_fine(outcome), "each event of a batch has an outcome of its own", outcome)?;
    }
    let requests = rig.server.take();
    let times = |mark: &str| requests.iter().filter(|request| holds(request, mark)).count();
    for number in 0..8 {
        // A destination may take several events in one request, and none where it is no HTTP server.
        let mark = format!("batch-{number}-of-8");
        if !requests.is_empty() && times(&mark) != 1 {
            return Err(format!("the event {mark:?} is in {} of {} requests", times(&mark), requests.len()));
        }
    }
    Ok(())
}

pub const STEADY: &str = "64 events of 256 KiB are taken by one instance, whose memory does not grow";

pub async fn steady(rig: &Rig) -> Result<(), String> {
    let lane = ready(rig, &Setup::new(Instances::Warm), &[Step::status(200)]).await?;
    let event = with_payload(&vec![b'1'; 256 << 10]);
    for _ in 0..64 {
        let (outcome, _) = lane.send(&event).await;
        if matches!(outcome, Outcome::Host(..)) {
            return Err(format!("the host had to end it: {}", told(&outcome)));
        }
    }
    match lane.plugin.stats().instances_created {
        1 => Ok(()),
        more => Err(format!("it took {more} instances; memory that grew past its mark costs the instance")),
    }
}

async fn ready<'a>(rig: &'a Rig, setup: &Setup<'_>, script: &[Step]) -> Result<Lane<'a>, String> {
    rig.server.play(script);
    rig.load(setup).await.map_err(|error| format!("it does not load: {}", error.problem))
}

fn ensure(is_fine: bool, because: &str, outcome: &Outcome) -> Result<(), String> {
    if is_fine { Ok(()) } else { Err(format!("{because}\ngot {}", told(outcome))) }
}

/// Times and signatures differ between requests; their places, and all else, do not.
fn same(first: &[Request], second: &[Request]) -> Result<(), String> {
    if first.len() != second.len() {
        return Err(format!("first {} requests, then {}", first.len(), second.len()));
    }
    for (first, second) in first.iter().zip(second) {
        let names = |request: &Request| -> BTreeSet<String> {
            request.headers.iter().map(|(name, _)| name.clone()).collect()
        };
        let line = |request: &Request| format!("{} {}", request.method, request.path);
        if line(first) != line(second) {
            return Err(format!("first {}, then {}", line(first), line(second)));
        }
        if names(first) != names(second) {
            return Err(format!("first the headers {:?}, then {:?}", names(first), names(second)));
        }
        if first.body != second.body {
            return Err(format!("first the body {}, then {}", excerpt(&first.body), excerpt(&second.body)));
        }
    }
    Ok(())
}

fn unmarked(requests: &[Request], mark: &str) -> Result<(), String> {
    let leaked = requests.iter().find(|request| holds(request, mark));
    leaked.map_or(Ok(()), |request| Err(format!("{mark:?} of another event is in {}", shown(request))))
}

fn holds(request: &Request, mark: &str) -> bool {
    let in_headers = request.headers.iter().any(|(_, value)| value.contains(mark));
    in_headers || request.path.contains(mark) || String::from_utf8_lossy(&request.body).contains(mark)
}

fn shown(request: &Request) -> String {
    format!("{} {} with the body {}", request.method, request.path, excerpt(&request.body))
}
