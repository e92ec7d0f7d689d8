//! The host's two streams as one pipe.

use std::time::Duration;

use super::{Error, Pipe};
use crate::bindings::destination::wasi::io::poll::Pollable;
use crate::bindings::destination::wasi::io::streams::{InputStream, OutputStream, StreamError};
use crate::deadline::Deadline;

const READ_BYTES: u64 = 64 << 10;
/// Until the first `allow`.
const FIRST: Duration = Duration::from_secs(5);

pub struct Streams {
    deadline: Deadline,
    // Before the streams they belong to: fields are dropped in order.
    readable: Pollable,
    writable: Pollable,
    input: InputStream,
    output: OutputStream,
}

impl Streams {
    pub(super) fn new(input: InputStream, output: OutputStream) -> Self {
        let (readable, writable) = (input.subscribe(), output.subscribe());
        Self { deadline: Deadline::after(FIRST), readable, writable, input, output }
    }
}

fn ended(error: StreamError) -> Error {
    match error {
        StreamError::Closed => Error::Closed,
        StreamError::LastOperationFailed(error) => Error::Lost(error.to_debug_string()),
    }
}

impl Pipe for Streams {
    fn allow(&mut self, time: Duration) {
        self.deadline = Deadline::after(time);
    }

    fn read(&mut self) -> Result<Vec<u8>, Error> {
        self.input.read(READ_BYTES).map_err(ended)
    }

    fn room(&mut self) -> Result<usize, Error> {
        let room = self.output.check_write().map_err(ended)?;
        Ok(usize::try_from(room).unwrap_or(usize::MAX))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.output.write(bytes).map_err(ended)
    }

    fn wait(&mut self, for_room: bool) -> Result<(), Error> {
        if self.deadline.has_passed() {
            return Err(Error::TimedOut);
        }
        match for_room {
            true => self.deadline.wait(&[&self.readable, &self.writable]),
            false => self.deadline.wait(&[&self.readable]),
        }
        Ok(())
    }
}
