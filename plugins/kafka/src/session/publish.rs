//! A batch over a session: in rounds, each partition's next records go to its leader, all leaders are
//! asked at once, and each answers for its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use broker::Published;
use outhaul_plugin::net::Error;
use outhaul_plugin::{Event, Failure};

use super::work::{Place, Work};
use super::{Dial, Session};
use crate::answer::{self, LEADER_NOT_AVAILABLE, Verdict};
use crate::partition;
use crate::peer::Asked;
use crate::protocol::PRODUCE;
use crate::protocol::produce::{self, Answer, Part};
use crate::record::{self, Composed};
use crate::settings::Settings;

/// Before the second try; the later ones wait longer.
const WAIT_MIN: Duration = Duration::from_millis(50);

impl<D: Dial> Session<D> {
    pub fn publish(&mut self, settings: &Settings, events: &[Event]) -> Published {
        let mut work = Work::of(events.len());
        if let Err(failure) = self.place(settings, events, &mut work) {
            work.settle_all(&failure);
        }
        while !work.lines.is_empty() {
            if let Err(failure) = self.round(settings, &mut work) {
                work.give_up_all(&failure);
            }
        }
        if work.has_doubt {
            // A batch under numbers that may be in the log would be taken for the one that has them.
            self.numbers = None;
        }
        work.done(self.refresh().is_err())
    }

    /// Finds each event's partition.
    fn place(&mut self, settings: &Settings, events: &[Event], work: &mut Work) -> Result<(), Failure> {
        let mut composed = Vec::new();
        for (index, event) in events.iter().enumerate() {
            match record::compose(settings, event) {
                Ok(one) => composed.push((index, one)),
                Err(failure) => work.settle(index, Err(failure)),
            }
        }
        let topics: BTreeSet<&str> = composed.iter().map(|(_, one)| one.topic.as_str()).collect();
        let topics: Vec<&str> = topics.into_iter().collect();
        let refused = self.know(&topics, settings.create_topics)?;
        self.turn = self.turn.wrapping_add(1);
        for (index, Composed { topic, record }) in composed {
            match self.partition(&topic, record.key.as_deref()) {
                Some(partition) => work.put(index, record, (topic, partition)),
                None => {
                    let failure = refused.get(&topic).cloned();
                    let failure = failure.unwrap_or_else(|| answer::no_topic(LEADER_NOT_AVAILABLE, &topic));
                    work.settle(index, Err(failure));
                }
            }
        }
        Ok(())
    }

    /// The key's, or the one whose turn it is among those that have a leader.
    fn partition(&self, topic: &str, key: Option<&[u8]>) -> Option<i32> {
        let leaders = &self.topics.get(topic).filter(|topic| !topic.leaders.is_empty())?.leaders;
        let partition = match key {
            Some(key) => partition::of_key(key, leaders.len()),
            None => {
                let led: Vec<usize> = (0..leaders.len()).filter(|&at| leaders[at].is_some()).collect();
                led.get(self.turn % led.len().max(1)).copied().unwrap_or(self.turn % leaders.len())
            }
        };
        i32::try_from(partition).ok()
    }

    /// An error ends all that is left.
    fn round(&mut self, settings: &Settings, work: &mut Work) -> Result<(), Failure> {
        if self.left().is_zero() {
            return Err(Error::TimedOut.into());
        }
        let numbers = self.numbers()?;
        let mut by_leader = BTreeMap::<i32, Vec<Place>>::new();
        for place in work.seal(numbers, settings.compression) {
            match self.leader(&place) {
                Some(leader) => by_leader.entry(leader).or_default().push(place),
                None => work.again(&place, answer::failed(LEADER_NOT_AVAILABLE, &place.0, ""), false),
            }
        }
        let mut asked = Vec::new();
        // What is sent to those that are there is under way while the others are dialled.
        let mut by_leader: Vec<(i32, Vec<Place>)> = by_leader.into_iter().collect();
        by_leader.sort_by_key(|(leader, _)| self.turn_of(*leader));
        for (leader, places) in by_leader {
            if let Some(request) = self.send(leader, &places, work) {
                asked.push((leader, request, places));
            }
        }
        for (leader, request, places) in asked {
            self.hear(leader, request, &places, work);
        }
        self.follow(settings, work);
        Ok(())
    }

    fn leader(&self, place: &Place) -> Option<i32> {
        let leaders = &self.topics.get(&place.0)?.leaders;
        *leaders.get(usize::try_from(place.1).ok()?)?
    }

    /// Asks one leader to store these batches.
    fn send(&mut self, leader: i32, places: &[Place], work: &mut Work) -> Option<Asked> {
        let left = self.left();
        let peer = match self.peer(leader) {
            Ok(peer) => peer,
            // Another broker may lead in its place.
            Err(failure @ Failure::Unavailable(_)) => {
                self.doubt(places);
                places.iter().for_each(|place| work.again(place, failure.clone(), false));
                return None;
            }
            Err(failure) => {
                places.iter().for_each(|place| work.give_up(place, failure.clone()));
                return None;
            }
        };
        let muted = peer.muted_for();
        if muted > left / 2 {
            places.iter().for_each(|place| work.give_up(place, answer::throttled(muted)));
            return None;
        }
        let parts = work.lines.iter().filter(|(place, _)| places.contains(place));
        let parts = parts.filter_map(|((topic, partition), line)| {
            let sealed = line.batch.as_ref()?.sealed.as_ref()?;
            Some((topic.as_str(), *partition, sealed.bytes.as_slice()))
        });
        let parts: Vec<Part> = parts.collect();
        let sent = peer.send(PRODUCE, &produce::request(&parts, timeout_ms(left)));
        match sent {
            Ok(asked) => Some(asked),
            Err((asked, error)) => {
                let may_have_left = peer.may_have_left(asked);
                self.broke(leader, places, &error, may_have_left, work);
                None
            }
        }
    }

    fn hear(&mut self, leader: i32, asked: Asked, places: &[Place], work: &mut Work) {
        let Some(peer) = self.peers.get_mut(&leader) else { return };
        let heard = peer.answer(asked).and_then(|answer| produce::parse(&answer).map_err(Error::Protocol));
        let produced = match heard {
            Ok(produced) => produced,
            Err(error) => return self.broke(leader, places, &error, true, work),
        };
        peer.mute(produced.throttle_ms);
        for place in places {
            let answer = produced
                .partitions
                .iter()
                .find(|answer| (answer.topic.as_str(), answer.partition) == (place.0.as_str(), place.1));
            match answer {
                Some(answer) => self.heed_answer(place, answer, work),
                None => {
                    let error = Error::Protocol(format!("no word of partition {} of {}", place.1, place.0));
                    work.again(place, error.into(), true);
                }
            }
        }
    }

    /// The connection ended before the answer. Once the time is up there is no other try.
    fn broke(&mut self, leader: i32, places: &[Place], error: &Error, may_be_stored: bool, work: &mut Work) {
        self.leave(leader, error);
        self.doubt(places);
        for place in places {
            let failure = Failure::from(error.clone());
            work.batch(place).may_be_stored |= may_be_stored;
            match error {
                Error::TimedOut => work.give_up(place, failure),
                _ => work.again(place, failure, may_be_stored),
            }
        }
    }

    /// Who leads there is asked before anything else is sent there.
    fn doubt(&mut self, places: &[Place]) {
        for (topic, _) in places {
            if let Some(topic) = self.topics.get_mut(topic) {
                topic.is_doubtful = true;
            }
        }
    }

    fn heed_answer(&mut self, place: &Place, answer: &Answer, work: &mut Work) {
        let batch = work.batch(place);
        let (is_first, is_in_doubt) = (batch.tries == 0, batch.may_be_stored);
        let has_fault = answer.at_fault.iter().any(|(nth, _)| batch.holds(*nth));
        let failure = || answer::failed(answer.error, &answer.topic, &answer.text);
        match answer::verdict(answer) {
            Verdict::Stored => {
                let offset = Some(answer.base_offset).filter(|offset| *offset >= 0);
                work.stored(place, self.numbers.as_mut(), offset);
            }
            Verdict::Duplicate if !is_first => work.stored(place, self.numbers.as_mut(), None),
            Verdict::Again { may_be_stored } => work.again(place, failure(), may_be_stored),
            // Whatever the broker did not store of a batch that it may have stored is not known to be lost.
            Verdict::Renumber | Verdict::Duplicate | Verdict::Split | Verdict::Mend if is_in_doubt => {
                work.give_up(place, failure());
            }
            Verdict::Renumber | Verdict::Duplicate => {
                self.numbers = None;
                work.again(place, failure(), false);
            }
            Verdict::Mend if has_fault => work.mend(place, &answer.at_fault),
            Verdict::Mend => work.split(place, |_| answer::at_fault(&answer.topic, &answer.text)),
            Verdict::Split => work.split(place, |bytes| answer::too_large(&answer.topic, bytes)),
            Verdict::Failed { failure, may_be_stored } => {
                batch.may_be_stored |= may_be_stored;
                work.give_up(place, failure);
            }
        }
    }

    /// Looks where the leaders are now of what has to be sent again.
    fn follow(&mut self, settings: &Settings, work: &mut Work) {
        let again = work.lines.iter_mut().filter_map(|(place, line)| {
            let batch = line.batch.as_mut()?;
            let failure = batch.again.take()?;
            Some((place.clone(), failure, batch.tries))
        });
        let again: Vec<(Place, Failure, u32)> = again.collect();
        let Some(tries) = again.iter().map(|(_, _, tries)| *tries).max() else { return };
        let wait = WAIT_MIN * 2_u32.pow(tries - 1);
        if wait >= self.left() {
            again.into_iter().for_each(|(place, failure, _)| work.give_up(&place, failure));
            return;
        }
        self.dial.pause(wait);
        let topics: BTreeSet<&str> = again.iter().map(|(place, _, _)| place.0.as_str()).collect();
        let topics: Vec<&str> = topics.into_iter().collect();
        match self.learn_anew(&topics, settings.create_topics) {
            Ok(learned) => {
                for topic in learned.topics.iter().filter(|topic| topic.error != 0) {
                    // The next round finds no leader, and says so.
                    self.topics.remove(&topic.name);
                }
            }
            Err(failure) => again.iter().for_each(|(place, ..)| work.give_up(place, failure.clone())),
        }
    }
}

/// The broker gives up before we do, and says so.
fn timeout_ms(left: Duration) -> i32 {
    i32::try_from((left - left / 10).as_millis()).unwrap_or(i32::MAX).max(1)
}
