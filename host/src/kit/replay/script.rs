//! The answers in turn, and what was asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde::Deserialize;

use crate::domain::Timestamp;
use crate::kit::case::{Behave, Step};
use crate::plugin::offline::{Answer, Answers, BodyFault, Sent};

/// Requests of one event that are kept; further ones are counted.
const REQUESTS_KEPT: usize = 32;
/// The same of what was not there.
const UNREACHED_KEPT: usize = 32;

/// What both components are told.
#[derive(Clone, Debug)]
pub struct Answering {
    answers: Arc<Vec<Step>>,
    /// What time it is for them.
    pub wall: Timestamp,
}

/// What one component asked of the world in one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    pub requests: Vec<Sent>,
    /// Of all requests, also those that are not kept.
    pub request_count: usize,
    /// `net broker:4222`, `sockets 10.0.0.1:80`, and origins that are not granted.
    pub unreached: Vec<String>,
}

impl Answering {
    /// Each in turn for each event, the last again and again; without any, 200.
    pub fn new(answers: Vec<Step>, wall: Timestamp) -> Self {
        let answers = if answers.is_empty() { vec![Step::status(200)] } else { answers };
        Self { answers: Arc::new(answers), wall }
    }
}

/// An answer on the command line: a status, or what a server does in place of answering.
pub fn read_answer(text: &str) -> Result<Step, String> {
    let behaving = |behave| Ok(Step::behaving(behave));
    match text {
        "refuse" => behaving(Behave::Refuse),
        "reset" => behaving(Behave::Reset),
        "silent" => behaving(Behave::Silent),
        status => match status.parse() {
            Ok(status) if (200..=599).contains(&status) => Ok(Step::status(status)),
            _ => Err("write a status from 200 to 599, or refuse, reset or silent".to_owned()),
        },
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    server: Vec<Step>,
}

/// A file with the `[[server]]` of a case.
pub fn read_answers(path: &Path) -> Result<Vec<Step>, String> {
    let wrong = |why: String| format!("{}: {}", path.display(), why.trim_end());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let file: File = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    for step in &file.server {
        if !(200..=599).contains(&step.status) {
            return Err(wrong(format!("the status {} is no answer; they go from 200 to 599", step.status)));
        }
    }
    Ok(file.server)
}

pub struct Script {
    answering: Answering,
    heard: Mutex<Heard>,
}

impl Script {
    pub fn new(answering: Answering) -> Self {
        Self { answering, heard: Mutex::default() }
    }

    /// What was asked since the last event; the answers begin anew.
    pub fn take(&self) -> Heard {
        let mut heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        heard.unreached.sort_unstable();
        heard.unreached.dedup();
        heard
    }
}

impl Answers for Script {
    fn answer(&self, request: Sent) -> Answer {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = &self.answering.answers;
        let turn = heard.request_count.min(answers.len() - 1);
        heard.request_count += 1;
        if heard.requests.len() < REQUESTS_KEPT {
            heard.requests.push(request);
        }
        answer(&answers[turn])
    }

    fn unreached(&self, capability: &'static str, what: &str) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.unreached.len() < UNREACHED_KEPT {
            heard.unreached.push(format!("{capability} {what}"));
        }
    }
}

fn answer(step: &Step) -> Answer {
    let response = |fault| Answer::Response {
        status: step.status,
        headers: BTreeMap::clone(&step.headers).into_iter().collect(),
        body: Bytes::from(step.body.clone()),
        fault,
    };
    match step.behave {
        Behave::Well => response(None),
        Behave::Cut => response(Some(BodyFault::Cut)),
        Behave::Drip => response(Some(BodyFault::Stalled)),
        Behave::Huge => response(Some(BodyFault::TooLarge)),
        Behave::Silent => Answer::Silent,
        Behave::Reset => Answer::Reset,
        Behave::Refuse => Answer::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(url: &str) -> Sent {
        Sent {
            method: "POST".into(),
            url: url.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            body_bytes: 0,
            body_sha256: String::new(),
        }
    }

    fn status(answer: &Answer) -> u16 {
        match answer {
            Answer::Response { status, .. } => *status,
            other => panic!("{other:?} has no status"),
        }
    }

    #[test]
    fn answers_come_in_turn_and_begin_anew_with_each_event() {
        let steps = ["503", "201"].map(|text| read_answer(text).unwrap());
        let script = Script::new(Answering::new(steps.to_vec(), Timestamp(0)));
        for _ in 0..2 {
            let told: Vec<_> = (0..3).map(|_| status(&script.answer(sent("http://a/")))).collect();
            assert_eq!(told, [503, 201, 201]);
            script.unreached("net", "b:1");
            script.unreached("net", "b:1");
            let heard = script.take();
            assert_eq!((heard.requests.len(), heard.unreached), (3, vec!["net b:1".to_owned()]));
        }
        assert_eq!(script.take(), Heard::default());
    }

    #[test]
    fn requests_without_end_are_counted_and_not_kept() {
        let script = Script::new(Answering::new(Vec::new(), Timestamp(0)));
        (0..1_000).for_each(|_| drop(script.answer(sent("http://a/"))));
        let heard = script.take();
        assert_eq!((heard.request_count, heard.requests.len()), (1_000, REQUESTS_KEPT));
    }

    #[test]
    fn what_is_no_answer_is_told_what_is_one() {
        assert_eq!(answer(&read_answer("reset").unwrap()), Answer::Reset);
        for text in ["100", "600", "ok", ""] {
            assert!(read_answer(text).unwrap_err().contains("200 to 599"), "{text}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_answers(&path)
        };
        let steps = read("[[server]]\nstatus = 429\nheaders = { retry-after = \"7\" }\n").unwrap();
        assert_eq!(status(&answer(&steps[0])), 429);
        assert!(read("[[serve]]\nstatus = 200\n").unwrap_err().contains("serve"));
        assert!(read("[[server]]\nstatus = 7\n").unwrap_err().contains("200 to 599"));
    }
}
