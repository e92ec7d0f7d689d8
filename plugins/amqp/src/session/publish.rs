//! A batch over a session: all sent, then each confirmed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use broker::{Published, Tally};
use outhaul_plugin::net::{Error, Pipe};
use outhaul_plugin::{Event, Failure, Receipt};

use super::{Said, Session};
use crate::answer;
use crate::message::{self, Message};
use crate::method::{self, CHANNEL, Closing, Method};
use crate::settings::{Settings, Unroutable};
use crate::wire::{self, FRAME_OVERHEAD, Kind};

/// How long the confirmations of what a broker took before it blocked us may take.
const BLOCKED_TIME: Duration = Duration::from_secs(1);

impl<P: Pipe> Session<P> {
    pub fn publish(&mut self, settings: &Settings, events: &[Event]) -> Published {
        let mut batch = Batch {
            settings,
            events,
            tally: Tally::of(events.len()),
            sent: Vec::new(),
            first_tag: 1,
            returned: BTreeMap::new(),
        };
        if let Some(reason) = &self.blocked {
            let failure = answer::blocked(reason);
            (0..events.len()).for_each(|index| batch.tally.settle(index, Err(failure.clone())));
            return batch.tally.done();
        }
        match self.publish_all(&mut batch) {
            Ok(()) => batch.tally.done(),
            Err(error) => {
                let error = self.explain(error);
                batch.tally.cut(error, self.connection.sent())
            }
        }
    }

    /// In a round, all that has no outcome is sent, then confirmed. Another one follows if a message that
    /// is too large took the channel with it, and all the messages that were under way.
    fn publish_all(&mut self, batch: &mut Batch) -> Result<(), Error> {
        let mut left: Vec<usize> = (0..batch.events.len()).collect();
        while !left.is_empty() {
            if !self.is_channel_open {
                self.open_channel()?;
            }
            (batch.first_tag, batch.sent) = (self.tag, Vec::new());
            for index in left {
                self.queue(batch, index)?;
            }
            self.connection.flush()?;
            self.confirm(batch)?;
            left = batch.tally.open().collect();
        }
        Ok(())
    }

    fn queue(&mut self, batch: &mut Batch, index: usize) -> Result<(), Error> {
        let settings = batch.settings;
        let composed =
            message::compose(settings, &batch.events[index]).and_then(|message| self.fits(message));
        let message = match composed {
            Ok(message) => message,
            Err(failure) => {
                batch.tally.settle(index, Err(failure));
                return Ok(());
            }
        };
        batch.tally.begin(index, self.connection.position());
        batch.sent.push(index);
        self.tag += 1;
        let mandatory = settings.unroutable != Unroutable::Accept;
        let mut bytes = method::publish(&settings.exchange, &message.routing_key, mandatory);
        wire::write_frame(&mut bytes, Kind::Header, CHANNEL, &message.header);
        for piece in message.body.chunks(self.frame_max - FRAME_OVERHEAD) {
            wire::write_frame(&mut bytes, Kind::Body, CHANNEL, piece);
        }
        self.connection.queue(&bytes)
    }

    /// A larger message would cost the channel, or the connection, and all that is under way on it.
    fn fits<'a>(&self, message: Message<'a>) -> Result<Message<'a>, Failure> {
        let header_max = self.frame_max - FRAME_OVERHEAD;
        if message.header.len() > header_max {
            return Err(answer::headers_too_large(message.header.len(), header_max));
        }
        match self.body_max.filter(|&most| message.body.len() > most) {
            Some(most) => Err(answer::larger_than(message.body.len(), most)),
            None => Ok(message),
        }
    }

    /// Until all that was sent has its outcome, or the channel is closed.
    fn confirm(&mut self, batch: &mut Batch) -> Result<(), Error> {
        while batch.tally.open().next().is_some() {
            let was_blocked = self.blocked.is_some();
            match self.next() {
                Ok(Said::Method(Method::Ack { tag, multiple })) => batch.confirmed(tag, multiple, true),
                Ok(Said::Method(Method::Nack { tag, multiple })) => batch.confirmed(tag, multiple, false),
                Ok(Said::Method(Method::ChannelClose(closing))) => return self.closed(batch, &closing),
                Ok(Said::Returned { message_id: Some(id), text }) => batch.returned(&id, text),
                Ok(_) => {}
                // It has read nothing more since; what it had read before is confirmed by now.
                Err(Error::TimedOut)
                    if was_blocked && self.connection.sent() == self.connection.position() =>
                {
                    let failure =
                        answer::blocked(self.blocked.as_deref().unwrap_or_default()).maybe_applied();
                    batch.settle_all(&failure);
                }
                Err(error) => return Err(error),
            }
            if !was_blocked && self.blocked.is_some() {
                self.connection.allow(self.until.saturating_duration_since(Instant::now()).min(BLOCKED_TIME));
            } else if was_blocked && self.blocked.is_none() {
                self.connection.allow(self.until.saturating_duration_since(Instant::now()));
            }
        }
        Ok(())
    }

    /// A message that is too large is found by its size, and the others are sent again: of them nobody
    /// knows which the broker took before.
    fn closed(&mut self, batch: &mut Batch, closing: &Closing) -> Result<(), Error> {
        if let Some((bytes, most)) = answer::too_large(closing) {
            self.body_max = Some(most);
            if batch.reject_larger(most) {
                return Ok(());
            }
            return Err(Error::Protocol(format!("no message has {bytes} bytes: {}", closing.text)));
        }
        let failure = answer::channel_closed(batch.settings, closing);
        let is_only_one = batch.sent.len() == 1;
        batch.settle_all(&if is_only_one { failure } else { failure.maybe_applied() });
        Ok(())
    }

    /// A broker that blocks us while we write lets us wait, and says so in what we have not read yet.
    fn explain(&mut self, error: Error) -> Error {
        if error != Error::TimedOut {
            return error;
        }
        while let Ok(Some(_)) = self.here() {}
        match &self.blocked {
            Some(reason) => Error::Lost(format!("the broker takes no messages now: {reason}")),
            None => error,
        }
    }
}

/// The events of one call that are under way.
struct Batch<'a> {
    settings: &'a Settings,
    events: &'a [Event],
    tally: Tally,
    /// Those of this round; the first has the tag `first_tag`.
    sent: Vec<usize>,
    first_tag: u64,
    /// Events that no queue takes, with the broker's words.
    returned: BTreeMap<usize, String>,
}

impl Batch<'_> {
    /// All up to this tag, or this alone. Tags before the first are of an earlier batch.
    fn confirmed(&mut self, tag: u64, multiple: bool, is_taken: bool) {
        let Some(last) = tag.checked_sub(self.first_tag).and_then(|place| usize::try_from(place).ok()) else {
            return;
        };
        let first = if multiple { 0 } else { last };
        for place in first..=last.min(self.sent.len().saturating_sub(1)) {
            let Some(&index) = self.sent.get(place) else { return };
            let outcome = match (is_taken, self.returned.get(&index)) {
                (false, _) => Err(answer::nacked(&self.routing_key(index))),
                (true, Some(text)) => answer::unroutable(self.settings, &self.routing_key(index), text),
                (true, None) => Ok(Receipt::delivered()),
            };
            self.tally.settle(index, outcome);
        }
    }

    fn routing_key(&self, index: usize) -> String {
        message::compose(self.settings, &self.events[index])
            .map(|message| message.routing_key)
            .unwrap_or_default()
    }

    /// The confirmation of it follows.
    fn returned(&mut self, id: &str, text: String) {
        if let Some(index) = self.events.iter().position(|event| event.dedup_id == id) {
            self.returned.insert(index, text);
        }
    }

    fn settle_all(&mut self, failure: &Failure) {
        let open: Vec<usize> = self.tally.open().collect();
        open.into_iter().for_each(|index| self.tally.settle(index, Err(failure.clone())));
    }

    /// Whether there was one.
    fn reject_larger(&mut self, most: usize) -> bool {
        let open: Vec<usize> = self.tally.open().collect();
        let mut is_one = false;
        for index in open {
            let bytes =
                message::compose(self.settings, &self.events[index]).map_or(0, |message| message.body.len());
            if bytes > most {
                self.tally.settle(index, Err(answer::larger_than(bytes, most)));
                is_one = true;
            }
        }
        is_one
    }
}
