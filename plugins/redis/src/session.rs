//! One connection that is logged in, and what is added over it.

use std::time::{Duration, Instant};

use broker::{Published, Tally};
use outhaul_plugin::net::{Connection, Error, Pipe, Streams};
use outhaul_plugin::{Event, Failure};

use crate::protocol::{self, Answer, command};
use crate::settings::{Settings, Trim};
use crate::{answer, entry};

/// The part of the time left that stays for the way of an answer.
const HEARING: u32 = 5;

const SCRIPT: &str = include_str!("add.lua");

pub struct Session<P = Streams> {
    connection: Connection<P>,
    /// The end of the time that was allowed last.
    until: Instant,
    /// The script's name at this server.
    script: String,
}

/// Why a login failed; the next password may do better.
#[derive(Debug, PartialEq, Eq)]
pub enum LoginError {
    Refused(String),
    Failed(Error),
}

impl From<Error> for LoginError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<P: Pipe> Session<P> {
    pub fn open(
        mut connection: Connection<P>,
        settings: &Settings,
        password: Option<&[u8]>,
    ) -> Result<Self, LoginError> {
        if let (Some(auth), Some(password)) = (&settings.auth, password) {
            let words: Vec<&[u8]> = match &auth.user {
                Some(user) => vec![b"AUTH", user.as_bytes(), password],
                None => vec![b"AUTH", password],
            };
            accepted(ask(&mut connection, &words)?)?;
        }
        if settings.database != 0 {
            accepted(ask(&mut connection, &[b"SELECT", settings.database.to_string().as_bytes()])?)?;
        }
        let script = accepted(load(&mut connection)?)?;
        Ok(Self { connection, until: Instant::now(), script })
    }

    pub fn allow(&mut self, time: Duration) {
        self.until = Instant::now() + time;
        self.connection.allow(time);
    }

    /// Redis says nothing of itself; what came is the end.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.connection.fill()
    }

    /// Keeps a connection from being closed as idle, and sees whether it was.
    pub fn ping(&mut self) -> Result<(), Error> {
        ask(&mut self.connection, &[b"PING"]).map(drop)
    }

    pub fn publish(&mut self, settings: &Settings, events: &[Event]) -> Published {
        let mut tally = Tally::of(events.len());
        match self.add(settings, events, &mut tally) {
            Ok(is_broken) => Published { is_broken, ..tally.done() },
            Err(error) => tally.cut(error, self.connection.sent()),
        }
    }

    /// All at once, then the answers in the same order. Returns whether another server should be looked for.
    fn add(&mut self, settings: &Settings, events: &[Event], tally: &mut Tally) -> Result<bool, Error> {
        let everything: Vec<usize> = (0..events.len()).collect();
        let unknown = self.run(settings, events, &everything, tally)?;
        if !unknown.is_empty() {
            // Somebody flushed the scripts. Nothing of these was done.
            match load(&mut self.connection)? {
                Answer::Error(text) => {
                    unknown.iter().for_each(|&index| tally.settle(index, Err(answer::failure("", &text))));
                }
                _ => {
                    for index in self.run(settings, events, &unknown, tally)? {
                        let failure = Failure::retry("noscript", "Redis lost the script again at once");
                        tally.settle(index, Err(failure));
                    }
                }
            }
        }
        self.replicated(settings, tally)?;
        Ok(tally.has(answer::is_of_the_server))
    }

    /// Runs the script for these events; returns those for which there was no script.
    fn run(
        &mut self,
        settings: &Settings,
        events: &[Event],
        wanted: &[usize],
        tally: &mut Tally,
    ) -> Result<Vec<usize>, Error> {
        let mut streams = Vec::with_capacity(wanted.len());
        for &index in wanted {
            let entry = entry::compose(settings, &events[index]);
            tally.begin(index, self.connection.position());
            self.connection.queue(&call(&self.script, settings, &entry))?;
            streams.push(entry.stream);
        }
        let mut unknown = Vec::new();
        for (&index, stream) in wanted.iter().zip(&streams) {
            let answer = self.connection.frame(protocol::parse)?;
            match answer::is_unknown_script(&answer) {
                true => unknown.push(index),
                false => tally.settle(index, answer::outcome(stream, answer)),
            }
        }
        Ok(unknown)
    }

    /// What is not on enough replicas yet does not count: the next attempt asks again, and adds nothing.
    fn replicated(&mut self, settings: &Settings, tally: &mut Tally) -> Result<(), Error> {
        let Some(replicas) = settings.replicas else { return Ok(()) };
        // Redis has to answer while there is time to hear it. 0 would be for ever.
        let left = self.until.saturating_duration_since(Instant::now());
        let timeout = replicas.timeout.min(left.saturating_sub(left / HEARING)).as_millis().max(1);
        let (count, timeout) = (replicas.count.to_string(), timeout.to_string());
        let (failure, ended) =
            match ask(&mut self.connection, &[b"WAIT", count.as_bytes(), timeout.as_bytes()]) {
                Ok(Answer::Number(have)) if have >= i64::from(replicas.count) => return Ok(()),
                Ok(Answer::Number(have)) => (answer::too_few_replicas(have, replicas.count), Ok(())),
                Ok(Answer::Error(text)) => (answer::failure("", &text).maybe_applied(), Ok(())),
                Ok(other) => cut_at_wait(Error::Protocol(format!("{other:?} to WAIT"))),
                Err(error) => cut_at_wait(error),
            };
        tally.revoke(&failure);
        ended
    }
}

/// The master has what was added, and nobody knows who else.
fn cut_at_wait(error: Error) -> (Failure, Result<(), Error>) {
    (Failure::from(error.clone()).maybe_applied(), Err(error))
}

fn ask<P: Pipe>(connection: &mut Connection<P>, words: &[&[u8]]) -> Result<Answer, Error> {
    connection.send(&command(words))?;
    connection.frame(protocol::parse)
}

fn load<P: Pipe>(connection: &mut Connection<P>) -> Result<Answer, Error> {
    ask(connection, &[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()])
}

fn accepted(answer: Answer) -> Result<String, LoginError> {
    match answer {
        Answer::Text(text) => Ok(text),
        Answer::Error(text) => Err(LoginError::Refused(text)),
        other => Err(Error::Protocol(format!("{other:?} at the login")).into()),
    }
}

fn call(script: &str, settings: &Settings, entry: &entry::Entry) -> Vec<u8> {
    let (entries, age) = match settings.trim {
        None => (0, 0),
        Some(Trim::Entries(entries)) => (entries, 0),
        Some(Trim::Age(age)) => (0, age.as_millis()),
    };
    let numbers = [settings.remember.as_millis().to_string(), entries.to_string(), age.to_string()];
    let mut words: Vec<&[u8]> = vec![
        b"EVALSHA",
        script.as_bytes(),
        b"2",
        entry.stream.as_bytes(),
        entry.seen.as_bytes(),
        entry.digest.as_bytes(),
    ];
    words.extend(numbers.iter().map(|number| number.as_bytes()));
    words.extend(entry.fields.iter().flat_map(|(name, value)| [name.as_bytes(), value]));
    command(&words)
}

#[cfg(test)]
mod tests;
