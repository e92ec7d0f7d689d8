//! A cluster as one producer sees it: its brokers, who leads which partition, and the producer's numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use outhaul_plugin::Failure;
use outhaul_plugin::net::{Connection, Error, Pipe};

use crate::answer::{self, LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION};
use crate::login::Login;
use crate::peer::Peer;
use crate::protocol::metadata::Metadata;
use crate::protocol::{INIT_PRODUCER_ID, producer_id};

use numbers::Numbers;

/// Partitions may be added to a topic, and lead elsewhere, without a word.
const METADATA_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// A topic that was made a moment ago is not yet known to every broker.
const WAIT: Duration = Duration::from_millis(100);
const TRIES_FOR_TOPICS: u32 = 5;
/// How often one that is being made is asked for.
const TRIES_FOR_NEW_TOPICS: u32 = 20;
const TRIES_FOR_NUMBERS: u32 = 20;

/// What a session needs of the world outside.
pub trait Dial {
    type Pipe: Pipe;

    /// A connection to this broker; without an address, to the one that the settings have next.
    fn dial(&self, address: Option<&str>) -> Result<Connection<Self::Pipe>, Failure>;

    /// One for each key of the password, newest first; one that is none if the settings have no login.
    fn logins(&self) -> Result<Vec<Option<Login>>, Failure>;

    /// Visible characters that nobody can guess.
    fn nonce(&self) -> String;

    fn pause(&self, time: Duration);
}

pub struct Session<D: Dial> {
    dial: D,
    client_id: String,
    /// Until when the call that is under way may take, and how long that was when it began.
    until: Instant,
    time: Duration,
    /// Of the cluster's brokers by their numbers: those that we talk to.
    peers: BTreeMap<i32, Peer<D::Pipe>>,
    /// The broker that was dialled first, of which nobody knows which one it is.
    seed: Option<Peer<D::Pipe>>,
    addresses: BTreeMap<i32, String>,
    /// The addresses that this call has dialled in vain, and why.
    unreached: BTreeMap<String, Failure>,
    /// Those that did not answer when they were dialled or asked last.
    suspects: BTreeSet<String>,
    topics: BTreeMap<String, Topic>,
    /// None before the first batch, and after one whose fate is unknown.
    numbers: Option<Numbers>,
    /// Which partition the next batch of events without a key goes to; not the same for every instance.
    turn: usize,
}

struct Topic {
    /// Of each partition.
    leaders: Vec<Option<i32>>,
    known_since: Instant,
    /// One of its leaders was not reached or hung: another may lead meanwhile.
    is_doubtful: bool,
}

impl<D: Dial> Session<D> {
    /// Dials the broker that the settings name, and asks it for the others.
    pub fn open(dial: D, client_id: &str, time: Duration) -> Result<Self, Failure> {
        let turn = dial.nonce().bytes().map(usize::from).sum();
        let mut session = Self {
            dial,
            client_id: client_id.to_owned(),
            until: Instant::now() + time,
            time,
            peers: BTreeMap::new(),
            seed: None,
            addresses: BTreeMap::new(),
            unreached: BTreeMap::new(),
            suspects: BTreeSet::new(),
            topics: BTreeMap::new(),
            numbers: None,
            turn,
        };
        session.seed = Some(session.connect(None, time)?);
        match session.learn(&[], false) {
            Ok(_) => Ok(session),
            // A broker that wants a login says nothing to whoever has none.
            Err(error @ (Error::Closed | Error::Lost(_))) if session.dial.logins()? == [None] => {
                Err(session.missing_login(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Begins a call, which may take so long.
    pub fn allow(&mut self, time: Duration) {
        (self.until, self.time) = (Instant::now() + time, time);
        self.unreached.clear();
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// A broker that moved is dialled anew.
    fn heed(&mut self, learned: &Metadata) {
        let addresses = &self.addresses;
        self.peers.retain(|broker, _| learned.brokers.get(broker) == addresses.get(broker));
        self.addresses.clone_from(&learned.brokers);
        self.suspects.retain(|address| learned.brokers.values().any(|known| known == address));
        for topic in learned.topics.iter().filter(|topic| topic.error == 0) {
            let known =
                Topic { leaders: topic.leaders.clone(), known_since: Instant::now(), is_doubtful: false };
            self.topics.insert(topic.name.clone(), known);
        }
    }

    /// Knows these topics, or why one is not to be had.
    fn know(&mut self, topics: &[&str], create: bool) -> Result<BTreeMap<String, Failure>, Failure> {
        let is_known = |name: &str| {
            let topic = self.topics.get(name).filter(|topic| !topic.is_doubtful);
            topic.is_some_and(|topic| topic.known_since.elapsed() < METADATA_AGE_MAX)
        };
        let mut unknown: Vec<&str> = topics.iter().copied().filter(|name| !is_known(name)).collect();
        let mut refused = BTreeMap::new();
        let mut tries = if create { TRIES_FOR_NEW_TOPICS } else { TRIES_FOR_TOPICS };
        while !unknown.is_empty() {
            let learned = self.learn_anew(&unknown, create)?;
            tries -= 1;
            refused.retain(|name: &String, _| !unknown.contains(&name.as_str()));
            for topic in learned.topics.into_iter().filter(|topic| topic.error != 0) {
                self.topics.remove(&topic.name);
                refused.insert(topic.name, topic.error);
            }
            let is_coming = |error: &i16| matches!(*error, UNKNOWN_TOPIC_OR_PARTITION | LEADER_NOT_AVAILABLE);
            unknown.retain(|name| refused.get(*name).is_some_and(is_coming));
            if tries == 0 || self.left() < WAIT * 2 {
                break;
            }
            if !unknown.is_empty() {
                self.dial.pause(WAIT);
            }
        }
        let failure = |(name, error): (String, i16)| {
            let failure = answer::no_topic(error, &name);
            (name, failure)
        };
        Ok(refused.into_iter().map(failure).collect())
    }

    /// The producer's numbers; the cluster gives them. One that has just begun has none yet.
    fn numbers(&mut self) -> Result<&mut Numbers, Failure> {
        let mut tries = TRIES_FOR_NUMBERS;
        while self.numbers.is_none() {
            let given = self.ask_any(|peer| {
                let answer = peer.ask(INIT_PRODUCER_ID, &producer_id::request())?;
                producer_id::parse(&answer).map_err(Error::Protocol)
            });
            tries -= 1;
            match given.map_err(Failure::from)? {
                Ok(given) => self.numbers = Some(Numbers::of(given)),
                Err(error) if answer::is_passing(error) && tries > 0 && self.left() > WAIT * 2 => {
                    self.dial.pause(WAIT);
                }
                Err(error) => return Err(answer::no_producer_id(error)),
            }
        }
        Ok(self.numbers.as_mut().expect("they are there now"))
    }

    /// Whether the topic, if there is one to look for, is there, and the brokers can be reached.
    pub fn check(&mut self, topic: Option<&str>, create: bool) -> Result<(), Failure> {
        // What a check creates is a lasting effect, so it only looks.
        let refused = self.know(topic.as_slice(), false)?;
        let will_be = |failure: &Failure| {
            create && matches!(failure, Failure::Misconfigured(detail) if detail.code == "no-topic")
        };
        if let Some(failure) = refused.into_values().find(|failure| !will_be(failure)) {
            return Err(failure);
        }
        let mut brokers: Vec<i32> = self.addresses.keys().copied().collect();
        brokers.sort_by_key(|broker| self.turn_of(*broker));
        let mut down = Vec::new();
        for broker in &brokers {
            match self.peer(*broker) {
                Ok(_) => {}
                // The others lead its partitions meanwhile.
                Err(failure @ Failure::Unavailable(_)) => down.push(failure),
                Err(failure) => return Err(failure),
            }
        }
        if down.len() < brokers.len() { Ok(()) } else { Err(down.swap_remove(0)) }
    }

    /// Keeps the connections that nobody uses, as far as they last.
    pub fn keep_alive(&mut self) -> Result<(), Error> {
        let left = self.left();
        let is_alive = |peer: &mut Peer<D::Pipe>| {
            peer.allow(left);
            peer.keep_alive().is_ok()
        };
        self.peers.retain(|_, peer| is_alive(peer));
        self.seed.take_if(|seed| !is_alive(seed));
        self.refresh()
    }

    /// Leaves the connections that have ended; an error if there is no other.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.peers.retain(|_, peer| peer.refresh().is_ok());
        self.seed.take_if(|seed| seed.refresh().is_err());
        if self.seed.is_none() && self.peers.is_empty() { Err(Error::Closed) } else { Ok(()) }
    }
}

mod numbers;
mod publish;
mod reach;
#[cfg(test)]
mod tests;
mod work;
