//! One connection that is taken in, and what is published over it.

use std::collections::BTreeMap;
use std::time::Duration;

use broker::{Published, Tally};
use outhaul_plugin::net::{Connection, Error, Pipe, Streams};
use outhaul_plugin::{Event, Failure};

use crate::protocol::{self, Connect, Limits, Packet};
use crate::settings::{Qos, Settings, Version};
use crate::{answer, message};

pub struct Session<P = Streams> {
    connection: Connection<P>,
    version: Version,
    limits: Limits,
    /// Of the last message; never 0.
    id: u16,
}

/// Why a client was not taken in; the next password may do better.
#[derive(Debug, PartialEq)]
pub enum LoginError {
    Refused { code: u8, reason: String },
    Failed(Error),
    Unfit(Box<Failure>),
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
        hello: &Connect,
    ) -> Result<Self, LoginError> {
        let version = settings.version;
        connection.queue(&protocol::connect(version, hello))?;
        let limits = match connection.frame(|bytes| protocol::parse(version, bytes))? {
            Packet::Connected { code: 0, limits, .. } => limits,
            Packet::Connected { code, reason, .. } | Packet::Disconnected { code, reason } => {
                return Err(LoginError::Refused { code, reason });
            }
            other => return Err(Error::Protocol(format!("{other:?} instead of CONNACK")).into()),
        };
        let wanted = if settings.qos == Qos::ExactlyOnce { 2 } else { 1 };
        if limits.qos_max < wanted {
            return Err(LoginError::Unfit(Box::new(answer::no_qos(limits.qos_max))));
        }
        if settings.retain && !limits.retain {
            return Err(LoginError::Unfit(Box::new(answer::no_retain())));
        }
        Ok(Self { connection, version, limits, id: 0 })
    }

    pub fn allow(&mut self, time: Duration) {
        self.connection.allow(time);
    }

    fn next(&mut self) -> Result<Packet, Error> {
        let version = self.version;
        ended(self.connection.frame(|bytes| protocol::parse(version, bytes))?)
    }

    /// Reads what came meanwhile; an error if that was a farewell.
    pub fn refresh(&mut self) -> Result<(), Error> {
        self.connection.fill()?;
        let version = self.version;
        while let Some(packet) = self.connection.parse(|bytes| protocol::parse(version, bytes))? {
            ended(packet)?;
        }
        Ok(())
    }

    /// A broker ends a client that says nothing for one and a half of its keep-alives.
    pub fn ping(&mut self) -> Result<(), Error> {
        self.connection.queue(protocol::PING)?;
        while self.next()? != Packet::Pong {}
        Ok(())
    }

    pub fn leave(&mut self) -> Result<(), Error> {
        self.connection.send(protocol::DISCONNECT)
    }

    pub fn publish(&mut self, settings: &Settings, events: &[Event]) -> Published {
        let mut tally = Tally::of(events.len());
        match self.send(settings, events, &mut tally) {
            Ok(()) => tally.done(),
            Err(error) => tally.cut(error, self.connection.sent()),
        }
    }

    /// As many at once as the broker takes; each answer makes room for another.
    fn send(&mut self, settings: &Settings, events: &[Event], tally: &mut Tally) -> Result<(), Error> {
        let mut waiting = events.iter().enumerate();
        let mut under_way = BTreeMap::new();
        loop {
            while under_way.len() < usize::from(self.limits.receive_max) {
                let Some((index, event)) = waiting.next() else { break };
                if let Some((id, topic)) = self.queue(settings, index, event, tally)? {
                    under_way.insert(id, (index, topic));
                }
            }
            if under_way.is_empty() {
                return Ok(());
            }
            self.settle(&mut under_way, tally)?;
        }
    }

    fn queue(
        &mut self,
        settings: &Settings,
        index: usize,
        event: &Event,
        tally: &mut Tally,
    ) -> Result<Option<(u16, String)>, Error> {
        let id = self.id % u16::MAX + 1;
        let made = message::compose(settings, event).and_then(|message| {
            let bytes = protocol::publish(self.version, settings.qos, id, &message);
            match self.limits.packet_max {
                Some(most) if bytes.len() > most as usize => Err(answer::too_large(bytes.len(), most)),
                _ => Ok((bytes, message.topic)),
            }
        });
        let (bytes, topic) = match made {
            Ok(made) => made,
            Err(failure) => {
                tally.settle(index, Err(failure));
                return Ok(None);
            }
        };
        self.id = id;
        tally.begin(index, self.connection.position());
        self.connection.queue(&bytes)?;
        Ok(Some((id, topic)))
    }

    /// One answer. Of QoS 2 the first asks for a second step, unless it is a refusal.
    fn settle(
        &mut self,
        under_way: &mut BTreeMap<u16, (usize, String)>,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let (id, code, reason) = match self.next()? {
            Packet::Received { id, code, .. } if code < 0x80 => {
                return self.connection.queue(&protocol::release(id));
            }
            Packet::Acknowledged { id, code, reason }
            | Packet::Received { id, code, reason }
            | Packet::Completed { id, code, reason } => (id, code, reason),
            _ => return Ok(()),
        };
        if let Some((index, topic)) = under_way.remove(&id) {
            tally.settle(index, answer::outcome(&topic, code, &reason));
        }
        Ok(())
    }
}

fn ended(packet: Packet) -> Result<Packet, Error> {
    match packet {
        Packet::Disconnected { code, reason } => {
            Err(Error::Lost(format!("the broker says {}", answer::told(code, &reason))))
        }
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests;
