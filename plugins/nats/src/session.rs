//! One connection that is logged in, and what is published over it.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::{Published, Tally};
use outhaul_plugin::net::{ConnectError, Connection, Error, Pipe, Streams};
use outhaul_plugin::{Event, Failure, Receipt};
use serde_json::{Value, json};

use crate::answer::{self, ApiError};
use crate::message;
use crate::protocol::{self, Info, Op};
use crate::settings::{Mode, Settings};

/// What logs in: fields of `CONNECT`, made for a server's nonce.
pub type Credentials = serde_json::Map<String, Value>;

pub struct Session<P = Streams> {
    connection: Connection<P>,
    info: Info,
    /// Answers arrive at `INBOX.NUMBER`.
    inbox: String,
    /// Of the next answer; never used twice, so that a late answer is not taken for another's.
    number: u64,
    /// A stream took something over this connection.
    has_stored: bool,
}

/// Why a login failed; the next credentials may do better.
#[derive(Debug, PartialEq)]
pub enum LoginError {
    Refused(String),
    Failed(Error),
    /// This server is none to talk to; another may be.
    Unfit(Box<Failure>),
    /// There are no credentials to log in with.
    Without(Box<Failure>),
}

impl LoginError {
    /// Whether it is about who logs in: every server of the cluster would say the same.
    pub fn is_of_credentials(&self) -> bool {
        match self {
            Self::Refused(text) => answer::is_of_login(&answer::login_refused(text)),
            Self::Without(_) => true,
            Self::Failed(_) | Self::Unfit(_) => false,
        }
    }

    pub fn failure(self) -> Failure {
        match self {
            Self::Refused(text) => answer::login_refused(&text),
            Self::Failed(error) => error.into(),
            Self::Unfit(failure) | Self::Without(failure) => *failure,
        }
    }
}

impl From<Error> for LoginError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Nothing was said by us yet. A server that is full says so after INFO, in the clear still.
fn secure<P: Pipe>(
    connection: &mut Connection<P>,
    info: &Info,
    start: impl FnOnce() -> Result<(), ConnectError>,
) -> Result<(), LoginError> {
    let unfit = |failure| LoginError::Unfit(Box::new(failure));
    if !(info.tls_required || info.tls_available) {
        return Err(unfit(answer::no_tls()));
    }
    farewell(connection)?;
    match connection.start_tls(start) {
        Ok(()) => Ok(()),
        Err(failure) => match farewell(connection) {
            // Its word came just now.
            Err(refused @ LoginError::Refused(_)) => Err(refused),
            _ => Err(unfit(failure)),
        },
    }
}

/// An error if the server says, in what is here already, why it ends the connection. Whatever else was said must
/// not pass for protected.
fn farewell<P: Pipe>(connection: &mut Connection<P>) -> Result<(), LoginError> {
    let ended = connection.fill();
    match connection.parse(protocol::parse) {
        Ok(Some(Op::Err(text))) => Err(LoginError::Refused(text)),
        Ok(Some(other)) => {
            let error = Error::Protocol(format!("{other:?} in the clear, before TLS was started"));
            Err(LoginError::Unfit(Box::new(error.into())))
        }
        Ok(None) => Ok(ended?),
        Err(error) => Err(error.into()),
    }
}

impl<P: Pipe> Session<P> {
    /// The server speaks first, in the clear if the operator wants TLS to be started; `credentials` are made
    /// of what it says.
    pub fn open(
        mut connection: Connection<P>,
        start_tls: Option<impl FnOnce() -> Result<(), ConnectError>>,
        inbox: String,
        credentials: impl FnOnce(&Info) -> Result<Credentials, Failure>,
    ) -> Result<Self, LoginError> {
        let info = match connection.frame(protocol::parse)? {
            Op::Info(info) => *info,
            Op::Err(text) => return Err(LoginError::Refused(text)),
            other => return Err(Error::Protocol(format!("{other:?} instead of INFO")).into()),
        };
        if !info.headers {
            let message = format!("nats-server {} has no headers; update it to 2.2 or later", info.version);
            return Err(LoginError::Unfit(Box::new(Failure::misconfigured("server-too-old", message))));
        }
        if let Some(start) = start_tls {
            secure(&mut connection, &info, start)?;
        }
        let credentials = credentials(&info).map_err(|failure| LoginError::Without(Box::new(failure)))?;
        connection.queue(format!("CONNECT {}\r\n", connect(credentials)).as_bytes())?;
        connection.queue(format!("SUB {inbox}.* 1\r\nPING\r\n").as_bytes())?;
        let mut session = Self { connection, info, inbox, number: 0, has_stored: false };
        loop {
            match session.next() {
                Ok(Op::Pong) => return Ok(session),
                Ok(Op::Err(text)) => return Err(LoginError::Refused(text)),
                Ok(_) => {}
                // Some servers close without a word where they want TLS.
                Err(Error::Closed | Error::Lost(_)) if session.info.tls_required => {
                    return Err(LoginError::Refused("Secure Connection - TLS Required".to_owned()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub fn allow(&mut self, time: Duration) {
        self.connection.allow(time);
    }

    /// Waits for what the server says; its own questions are answered.
    fn next(&mut self) -> Result<Op, Error> {
        let op = self.connection.frame(protocol::parse)?;
        self.heed(&op)?;
        Ok(op)
    }

    fn heed(&mut self, op: &Op) -> Result<(), Error> {
        match op {
            Op::Ping => self.connection.queue(b"PONG\r\n"),
            Op::Info(info) => {
                self.info = (**info).clone();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Answers what came meanwhile. A server that is about to stop counts as ended.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.connection.fill()?;
        while let Some(op) = self.connection.parse(protocol::parse)? {
            self.heed(&op)?;
            if let Op::Err(text) = op {
                return Err(Error::Lost(text));
            }
        }
        if self.info.ldm { Err(Error::Closed) } else { self.connection.flush() }
    }

    pub fn publish(&mut self, settings: &Settings, events: &[Event]) -> Published {
        let mut batch = Batch::new(events.len());
        let published = match settings.mode {
            Mode::JetStream => self.store(settings, events, &mut batch),
            Mode::Core => self.hand_over(settings, events, &mut batch),
        };
        match published {
            Ok(()) => batch.tally.done(),
            Err(error) => batch.tally.cut(error, self.connection.sent()),
        }
    }

    /// JetStream: each message has a reply subject of its own, where the stream confirms it.
    fn store(&mut self, settings: &Settings, events: &[Event], batch: &mut Batch) -> Result<(), Error> {
        let first = self.number;
        self.number += events.len() as u64;
        for (index, event) in events.iter().enumerate() {
            let reply = format!("{}.{}", self.inbox, first + index as u64);
            self.queue(settings, index, event, Some(&reply), batch)?;
        }
        self.connection.flush()?;
        while batch.is_waiting() {
            match self.next()? {
                Op::Message(message) => {
                    let number =
                        self.number_of(&message.subject).and_then(|number| number.checked_sub(first));
                    let index = number.and_then(|number| usize::try_from(number).ok());
                    let Some(index) = index.filter(|&index| batch.tally.is_open(index)) else { continue };
                    match message.status {
                        Some(503) => batch.unanswered.push(index),
                        _ => {
                            let outcome = answer::outcome(&batch.subjects[&index], &message.payload);
                            self.has_stored |= outcome.is_ok();
                            batch.tally.settle(index, outcome);
                        }
                    }
                }
                Op::Err(text) => batch.refused(text)?,
                _ => {}
            }
        }
        self.explain(batch)
    }

    /// Core: the server has taken everything that came before a `PING` it answers.
    fn hand_over(&mut self, settings: &Settings, events: &[Event], batch: &mut Batch) -> Result<(), Error> {
        for (index, event) in events.iter().enumerate() {
            self.queue(settings, index, event, None, batch)?;
        }
        self.connection.queue(b"PING\r\n")?;
        loop {
            match self.next()? {
                Op::Pong => break,
                Op::Err(text) => batch.refused(text)?,
                _ => {}
            }
        }
        let taken: Vec<usize> = batch.tally.open().collect();
        taken.into_iter().for_each(|index| batch.tally.settle(index, Ok(Receipt::delivered())));
        Ok(())
    }

    fn queue(
        &mut self,
        settings: &Settings,
        index: usize,
        event: &Event,
        reply: Option<&str>,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let message = match message::compose(settings, event).and_then(|message| self.fits(message)) {
            Ok(message) => message,
            Err(failure) => {
                batch.tally.settle(index, Err(failure));
                return Ok(());
            }
        };
        batch.tally.begin(index, self.connection.position());
        let line = protocol::publish(&message.subject, reply, message.headers.len(), message.payload.len());
        batch.subjects.insert(index, message.subject);
        self.connection.queue(line.as_bytes())?;
        self.connection.queue(&message.headers)?;
        self.connection.queue(&message.payload)?;
        self.connection.queue(b"\r\n")
    }

    /// A larger message would cost the connection, and all that is under way on it.
    fn fits<'a>(&self, message: message::Message<'a>) -> Result<message::Message<'a>, Failure> {
        let (bytes, most) = (message.headers.len() + message.payload.len(), self.info.max_payload);
        if most == 0 || bytes <= most {
            return Ok(message);
        }
        let text = format!(
            "the message has {bytes} bytes with its headers, and the server takes {most}; raise max_payload"
        );
        Err(Failure::rejected("too-large", text))
    }

    fn number_of(&self, subject: &str) -> Option<u64> {
        subject.strip_prefix(&self.inbox)?.strip_prefix('.')?.parse().ok()
    }

    /// Nobody answered for these: because there is no stream, or none that can answer now.
    fn explain(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let mut known = BTreeMap::new();
        for index in std::mem::take(&mut batch.unanswered) {
            let subject = &batch.subjects[&index];
            if !known.contains_key(subject) {
                let found = self.find_stream(subject)?.map_err(|failure| match failure {
                    Failure::Misconfigured(detail) if detail.code == "no-jetstream" && self.has_stored => {
                        answer::out_of_reach(subject)
                    }
                    other => other,
                });
                known.insert(subject.clone(), found);
            }
            batch.tally.settle(
                index,
                Err(known[subject].clone().err().unwrap_or_else(|| answer::no_leader(subject))),
            );
        }
        Ok(())
    }

    /// Whether a stream takes the subject, and if not, why.
    pub fn find_stream(&mut self, subject: &str) -> Result<Result<(), Failure>, Error> {
        let found = self.ask("$JS.API.STREAM.NAMES", &json!({ "subject": subject }).to_string())?;
        Ok(found.and_then(|found| match found["streams"].as_array() {
            Some(streams) if !streams.is_empty() => Ok(()),
            _ => Err(answer::no_stream(subject)),
        }))
    }

    /// Whether this stream exists, or without a name, whether there is JetStream.
    pub fn find(&mut self, stream: Option<&str>) -> Result<Result<(), Failure>, Error> {
        let subject =
            stream.map_or_else(|| "$JS.API.INFO".to_owned(), |name| format!("$JS.API.STREAM.INFO.{name}"));
        Ok(self.ask(&subject, "")?.map(drop))
    }

    /// One question to JetStream's API, and its answer or refusal.
    fn ask(&mut self, subject: &str, payload: &str) -> Result<Result<Value, Failure>, Error> {
        let number = self.number;
        self.number += 1;
        let line = protocol::publish(subject, Some(&format!("{}.{number}", self.inbox)), 0, payload.len());
        self.connection.send(format!("{line}{payload}\r\n").as_bytes())?;
        loop {
            match self.next()? {
                Op::Message(message) if self.number_of(&message.subject) == Some(number) => {
                    if message.status == Some(503) {
                        return Ok(Err(answer::no_jetstream()));
                    }
                    let value: Value = serde_json::from_slice(&message.payload)
                        .map_err(|error| Error::Protocol(format!("the answer to {subject}: {error}")))?;
                    return Ok(match serde_json::from_value::<ApiError>(value["error"].clone()) {
                        Ok(error) => Err(error.failure(subject)),
                        Err(_) => Ok(value),
                    });
                }
                // Whoever may not ask still may publish: then nothing more can be said.
                Op::Err(text) if answer::denied_subject(&text) == Some(subject) => {
                    return Ok(Ok(json!({ "streams": ["unknown"] })));
                }
                Op::Err(text) => return Err(Error::Lost(text)),
                _ => {}
            }
        }
    }
}

/// The events of one call that are under way.
struct Batch {
    tally: Tally,
    subjects: BTreeMap<usize, String>,
    /// Events that nobody takes.
    unanswered: Vec<usize>,
}

impl Batch {
    fn new(events: usize) -> Self {
        Self { tally: Tally::of(events), subjects: BTreeMap::new(), unanswered: Vec::new() }
    }

    fn is_waiting(&self) -> bool {
        self.tally.open().any(|index| !self.unanswered.contains(&index))
    }

    /// A subject that the user may not publish to; anything else ends the session.
    fn refused(&mut self, text: String) -> Result<(), Error> {
        let Some(subject) = answer::denied_subject(&text) else { return Err(Error::Lost(text)) };
        let denied: Vec<usize> = self.tally.open().filter(|index| self.subjects[index] == subject).collect();
        denied.into_iter().for_each(|index| self.tally.settle(index, Err(answer::denied(subject))));
        Ok(())
    }
}

fn connect(credentials: Credentials) -> Value {
    let mut options = json!({
        "verbose": false,
        "pedantic": false,
        "echo": false,
        "headers": true,
        "no_responders": true,
        "protocol": 1,
        "lang": "outhaul",
        "name": "outhaul",
        "version": env!("CARGO_PKG_VERSION"),
    });
    options.as_object_mut().expect("it is one").extend(credentials);
    options
}

#[cfg(test)]
mod tests;
