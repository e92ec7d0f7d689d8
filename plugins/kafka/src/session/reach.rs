//! Reaching the cluster's brokers, in the time that there is. One that was not reached, or hung, is dialled
//! once in a call, and after the others in the next ones.

use std::time::Duration;

use outhaul_plugin::Failure;
use outhaul_plugin::net::Error;

use super::{Dial, Session};
use crate::answer::{self, LEADER_NOT_AVAILABLE};
use crate::peer::Peer;
use crate::protocol::METADATA;
use crate::protocol::metadata::{self, Metadata};

/// With less of the call's time left than this part of it, no broker is dialled: what was heard of the others
/// must be told before the call is over.
const DIALS_LEAVE: u32 = 4;
/// No single broker may use up more than this part of what is left by saying nothing.
const SHARE: u32 = 2;

impl<D: Dial> Session<D> {
    pub(super) fn missing_login(&self, error: Error) -> Failure {
        match self.connect(None, self.left()).ok().and_then(|mut peer| peer.wants_login()) {
            Some(offered) => answer::login_missing(&offered),
            None => error.into(),
        }
    }

    pub(super) fn connect(&self, address: Option<&str>, time: Duration) -> Result<Peer<D::Pipe>, Failure> {
        broker::log_in(self.dial.logins()?, time, |login, left| {
            let connection = self.dial.dial(address)?;
            let login = login.as_ref().map(|login| (login, self.dial.nonce()));
            Peer::open(connection, &self.client_id, login, left)
        })
    }

    /// As [`connect`](Self::connect), while there is time for it, and once in a call.
    fn reach(&mut self, address: Option<&str>) -> Result<Peer<D::Pipe>, Failure> {
        let name = address.unwrap_or_default();
        if let Some(failure) = self.unreached.get(name) {
            return Err(failure.clone());
        }
        let left = self.left();
        if left < self.time / DIALS_LEAVE {
            return Err(answer::no_time(name));
        }
        let reached = self.connect(address, left / SHARE);
        match &reached {
            Ok(_) => {
                self.suspects.remove(name);
            }
            Err(failure) => {
                self.unreached.insert(name.to_owned(), failure.clone());
                self.suspects.insert(name.to_owned());
            }
        }
        reached
    }

    /// The broker of this number, dialled if need be.
    pub(super) fn peer(&mut self, broker: i32) -> Result<&mut Peer<D::Pipe>, Failure> {
        if !self.peers.contains_key(&broker) {
            let address = self.addresses.get(&broker).cloned();
            let address = address.ok_or_else(|| answer::no_topic(LEADER_NOT_AVAILABLE, ""))?;
            let peer = self.reach(Some(&address))?;
            self.peers.insert(broker, peer);
            // It was for finding the others.
            self.seed = None;
        }
        let left = self.left();
        let peer = self.peers.get_mut(&broker).expect("it is there now");
        peer.allow(left);
        Ok(peer)
    }

    /// Which broker comes first, the least first: those that are connected, then those that nothing is known against.
    pub(super) fn turn_of(&self, broker: i32) -> (bool, bool) {
        let is_suspect = self.addresses.get(&broker).is_some_and(|address| self.suspects.contains(address));
        (!self.peers.contains_key(&broker), is_suspect)
    }

    /// Its connection is of no more use.
    pub(super) fn leave(&mut self, broker: i32, error: &Error) {
        self.peers.remove(&broker);
        if let (Error::TimedOut, Some(address)) = (error, self.addresses.get(&broker)) {
            self.suspects.insert(address.clone());
        }
    }

    /// Asks any broker that is there. One that does not answer is left, and the next is asked.
    pub(super) fn ask_any<T>(
        &mut self,
        mut ask: impl FnMut(&mut Peer<D::Pipe>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut last = Error::Closed;
        if let Some(mut seed) = self.seed.take() {
            seed.allow(self.left() / SHARE);
            match ask(&mut seed) {
                Ok(answer) => {
                    self.seed = Some(seed);
                    return Ok(answer);
                }
                Err(error) => last = error,
            }
        }
        while let Some((&broker, _)) = self.peers.first_key_value() {
            let share = self.left() / SHARE;
            let peer = self.peers.get_mut(&broker).expect("it was found there");
            peer.allow(share);
            match ask(peer) {
                Ok(answer) => return Ok(answer),
                Err(error) => last = error,
            }
            self.leave(broker, &last);
        }
        Err(last)
    }

    /// Asks the cluster for its brokers and these topics.
    pub(super) fn learn(&mut self, topics: &[&str], create: bool) -> Result<Metadata, Error> {
        let request = metadata::request(topics, create);
        let learned =
            self.ask_any(|peer| metadata::parse(&peer.ask(METADATA, &request)?).map_err(Error::Protocol))?;
        self.heed(&learned);
        Ok(learned)
    }

    /// The same, of whichever broker can be reached.
    pub(super) fn learn_anew(&mut self, topics: &[&str], create: bool) -> Result<Metadata, Failure> {
        let mut last = match self.learn(topics, create) {
            Ok(learned) => return Ok(learned),
            Err(error) => Failure::from(error),
        };
        // Nobody of those we talked to is there.
        let mut others: Vec<(bool, String)> = Vec::new();
        for address in self.addresses.values() {
            others.push((self.suspects.contains(address), address.clone()));
        }
        others.sort();
        let others = others.into_iter().map(|(_, address)| Some(address));
        for address in std::iter::once(None).chain(others) {
            match self.reach(address.as_deref()) {
                Ok(peer) => self.seed = Some(peer),
                Err(failure @ Failure::Unavailable(_)) => {
                    // That there is no time left for another says less than why there is none.
                    if !answer::is_no_time(&failure) {
                        last = failure;
                    }
                    continue;
                }
                Err(failure) => return Err(failure),
            }
            match self.learn(topics, create) {
                Ok(learned) => return Ok(learned),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }
}
