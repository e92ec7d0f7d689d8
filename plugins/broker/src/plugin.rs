//! A destination that keeps one session with its broker.

use std::time::{Duration, Instant};

use outhaul_plugin::net::{Error, Link};
use outhaul_plugin::{
    Batch, Check, Close, ConfigureError, Describe, Description, Destination, Event, Failure, Outcome, Tick,
};
use serde::de::DeserializeOwned;

use crate::Published;

/// How long `check` may take: it has no budget of its own.
pub const CHECK_TIME: Duration = Duration::from_secs(5);
/// How often an idle session is looked at.
const TICK: Duration = Duration::from_secs(10);
/// How long looking at it may take.
const TICK_TIME: Duration = Duration::from_secs(2);

/// A protocol, spoken over one session.
pub trait Broker: Sized + 'static {
    type Settings: DeserializeOwned;
    /// A connection that is logged in.
    type Session;

    fn describe() -> Description;

    /// Once for each instance. Looks at the secrets too, so that a missing grant shows here.
    fn configure(settings: Self::Settings) -> Result<Self, ConfigureError>;

    /// Connects and logs in.
    fn open(&self, time: Duration) -> Result<Self::Session, Failure>;

    /// Sends all events, then waits for what the broker says of each.
    fn publish(&self, session: &mut Self::Session, events: &[Event], time: Duration) -> Published;

    /// Whether what the settings name is there. Must not have lasting effects.
    fn check(&self, session: &mut Self::Session, time: Duration) -> Result<(), Failure>;

    /// Reads and answers what came while nobody asked, without waiting for more. An error if the
    /// session has ended.
    fn refresh(&self, session: &mut Self::Session, time: Duration) -> Result<(), Error>;

    /// Whatever a session needs that nobody uses, so that it is not closed as idle.
    fn keep_alive(&self, session: &mut Self::Session, time: Duration) -> Result<(), Error> {
        self.refresh(session, time)
    }

    /// Says farewell, without waiting for an answer.
    fn leave(&self, session: &mut Self::Session);
}

pub struct Plugin<B: Broker> {
    broker: B,
    link: Link<B::Session>,
}

impl<B: Broker> Plugin<B> {
    fn publish(&mut self, events: &[Event]) -> Vec<Outcome> {
        let times = events.iter().map(|event| event.time_for_a_request(None));
        let time = times.min().unwrap_or_default();
        let began = Instant::now();
        let left = || time.saturating_sub(began.elapsed());
        let broker = &self.broker;
        // It may have ended while nobody used it.
        if self.link.current().is_some_and(|session| broker.refresh(session, left()).is_err()) {
            self.link.drop_session();
        }
        let session = match self.link.session(|| broker.open(left())) {
            Ok(session) => session,
            Err(failure) => return events.iter().map(|_| Err(failure.clone())).collect(),
        };
        let published = broker.publish(session, events, left());
        if published.is_broken {
            self.link.drop_session();
        }
        published.outcomes
    }
}

impl<B: Broker> Destination for Plugin<B> {
    type Settings = B::Settings;

    fn configure(settings: B::Settings) -> Result<Self, ConfigureError> {
        Ok(Self { broker: B::configure(settings)?, link: Link::default() })
    }

    fn deliver(&mut self, event: Event) -> Outcome {
        let mut outcomes = self.publish(std::slice::from_ref(&event));
        outcomes.pop().expect("one event has one outcome")
    }
}

impl<B: Broker> Batch for Plugin<B> {
    fn deliver_batch(&mut self, events: Vec<Event>) -> Vec<Outcome> {
        self.publish(&events)
    }
}

impl<B: Broker> Describe for Plugin<B> {
    fn describe() -> Description {
        B::describe()
    }
}

impl<B: Broker> Check for Plugin<B> {
    fn check(&mut self) -> Result<(), Failure> {
        let began = Instant::now();
        let session = self.link.session(|| self.broker.open(CHECK_TIME))?;
        self.broker.check(session, CHECK_TIME.saturating_sub(began.elapsed()))
    }
}

impl<B: Broker> Tick for Plugin<B> {
    fn tick(&mut self) -> Duration {
        let broker = &self.broker;
        if self.link.current().is_some_and(|session| broker.keep_alive(session, TICK_TIME).is_err()) {
            // The next event opens another.
            self.link.drop_session();
        }
        TICK
    }
}

impl<B: Broker> Close for Plugin<B> {
    fn close(&mut self) {
        if let Some(mut session) = self.link.drop_session() {
            self.broker.leave(&mut session);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
