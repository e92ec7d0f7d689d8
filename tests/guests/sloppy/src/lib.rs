//! A destination with one fault, chosen by a setting: what the conformance cases must find.

use std::time::Duration;

use outhaul_plugin::http::{Error, Fault, Request, Response};
use outhaul_plugin::{Batch, ConfigureError, Destination, Event, Failure, Kind, Outcome, Receipt};
use serde_json::{Map, Value};

struct Sloppy {
    url: String,
    fault: String,
    last: Vec<u8>,
    hoard: Vec<Vec<u8>>,
    count: u32,
}

impl Destination for Sloppy {
    type Settings = Map<String, Value>;

    fn configure(settings: Map<String, Value>) -> Result<Self, ConfigureError> {
        let text = |name: &str| settings.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let fault = text("fault");
        assert!(fault != "panics-at-settings" || settings.len() <= 2, "a setting nobody knows");
        Ok(Self { url: text("url"), fault, last: Vec::new(), hoard: Vec::new(), count: 0 })
    }

    fn deliver(&mut self, event: Event) -> Outcome {
        self.count += 1;
        let mut body = event.payload.clone();
        let mut url = self.url.clone();
        let mut timeout = event.time_for_a_request(None);
        match self.fault.as_str() {
            "sends-the-last-one-too" => {
                body.extend_from_slice(&std::mem::replace(&mut self.last, body.clone()))
            }
            "counts-in-the-path" => url = format!("{url}/{}", self.count),
            "waits-for-ever" => timeout = Duration::from_secs(3_600),
            "takes-text-for-granted" => drop(String::from_utf8(body.clone()).expect("text")),
            "hoards" => self.hoard.extend((0..4).map(|_| body.clone())),
            "retries-what-it-can-not-take" if event.payload.is_empty() => {
                return Err(Failure::retry("empty", "it is empty"));
            }
            _ => {}
        }
        let answer = match Request::post(url).timeout(timeout).body(body).send() {
            Ok(answer) => answer,
            Err(Error { code, message, .. }) if self.fault == "is-always-certain" => {
                return Err(Failure::retry(code, message));
            }
            Err(Error { fault: Fault::NotConnected, code, message }) if self.fault == "gives-up-at-once" => {
                return Err(Failure::rejected(code, message));
            }
            Err(error) => return Err(error.into()),
        };
        self.judge(&answer)
    }
}

impl Batch for Sloppy {
    fn deliver_batch(&mut self, events: Vec<Event>) -> Vec<Outcome> {
        if self.fault == "sends-a-batchs-first-only" {
            let first = events[0].clone();
            return events.iter().map(|_| self.deliver(first.clone())).collect();
        }
        events.into_iter().map(|event| self.deliver(event)).collect()
    }
}

impl Sloppy {
    fn judge(&self, answer: &Response) -> Outcome {
        match self.fault.as_str() {
            "believes-every-answer" => Ok(Receipt::delivered()),
            "rejects-an-outage" if answer.status >= 500 => answer.outcome_as(Kind::Rejected),
            "rejects-at-a-wrong-credential" if answer.status == 401 => answer.outcome_as(Kind::Rejected),
            "takes-seconds-for-milliseconds" => {
                answer.outcome().map_err(|it| it.after(Duration::from_millis(7)))
            }
            "follows-redirects" if matches!(answer.status, 300..=399) => {
                let there = format!("{}/elsewhere", self.url);
                Request::post(there).send()?;
                Err(Failure::retry("redirected", "it was followed"))
            }
            _ => answer.outcome(),
        }
    }
}

outhaul_plugin::export!(Sloppy with batch);
