//! A broker by script, for tests of a plugin's session without a host.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Error, Pipe};

/// Says one thing after the other, whatever it hears.
#[derive(Debug, Default)]
pub struct Script {
    /// What it says next; nothing at all where it would say an empty piece.
    pub says: VecDeque<Result<Vec<u8>, Error>>,
    /// How much it takes at a time; any amount after these.
    pub rooms: VecDeque<usize>,
    pub heard: Vec<u8>,
}

impl Script {
    pub fn saying(says: &[&[u8]]) -> Self {
        Self { says: says.iter().map(|piece| Ok(piece.to_vec())).collect(), ..Self::default() }
    }
}

impl Pipe for Script {
    fn allow(&mut self, _: Duration) {}

    fn read(&mut self) -> Result<Vec<u8>, Error> {
        self.says.pop_front().unwrap_or(Ok(Vec::new()))
    }

    fn room(&mut self) -> Result<usize, Error> {
        Ok(self.rooms.pop_front().unwrap_or(usize::MAX))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.heard.extend(bytes);
        Ok(())
    }

    /// Time is over once it has nothing more to say.
    fn wait(&mut self, for_room: bool) -> Result<(), Error> {
        if for_room || !self.says.is_empty() { Ok(()) } else { Err(Error::TimedOut) }
    }
}
