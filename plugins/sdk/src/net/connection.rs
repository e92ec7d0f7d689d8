//! A connection with a buffer each way, for protocols whose parsers do no I/O.

use std::time::Duration;

use super::{ConnectError, Error, Streams};
use crate::Failure;

/// Queued bytes beyond this are sent without waiting for [`Connection::flush`].
const QUEUE_BYTES: usize = 64 << 10;

/// What a connection runs over: the host's streams, or in a test a script.
pub trait Pipe {
    /// From now on this much time is left to wait.
    fn allow(&mut self, time: Duration);

    /// The bytes that are there now; none is no end.
    fn read(&mut self) -> Result<Vec<u8>, Error>;

    /// How many bytes [`write`](Self::write) takes now.
    fn room(&mut self) -> Result<usize, Error>;

    /// Takes bytes, no more than there was [`room`](Self::room) for.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Waits until there is something to read or, if it is asked for, room to write.
    /// [`Error::TimedOut`] once the allowed time is over.
    fn wait(&mut self, for_room: bool) -> Result<(), Error>;
}

/// Reads ahead and writes behind. After an error it is of no more use.
pub struct Connection<P = Streams> {
    pipe: P,
    received: Vec<u8>,
    /// Of `received`, this much was taken already.
    taken: usize,
    queued: Vec<u8>,
    sent: u64,
}

impl<P: Pipe> Connection<P> {
    pub fn over(pipe: P) -> Self {
        Self { pipe, received: Vec::new(), taken: 0, queued: Vec::new(), sent: 0 }
    }

    pub fn pipe(&mut self) -> &mut P {
        &mut self.pipe
    }

    /// How much time all that follows may take together.
    pub fn allow(&mut self, time: Duration) {
        self.pipe.allow(time);
    }

    /// Puts bytes in line to be sent.
    pub fn queue(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.queued.extend_from_slice(bytes);
        if self.queued.len() < QUEUE_BYTES { Ok(()) } else { self.flush() }
    }

    /// Sends what is in line. What arrives meanwhile is read, so that two sides that both write can't
    /// wait for each other.
    pub fn flush(&mut self) -> Result<(), Error> {
        let queued = std::mem::take(&mut self.queued);
        let mut rest = &queued[..];
        while !rest.is_empty() {
            let room = self.pipe.room()?.min(rest.len());
            if room == 0 {
                self.fill()?;
                self.pipe.wait(true)?;
                continue;
            }
            let (piece, after) = rest.split_at(room);
            // Counted before: whoever asks wants to know what may have left.
            self.sent += piece.len() as u64;
            self.pipe.write(piece)?;
            rest = after;
        }
        self.queued = queued;
        self.queued.clear();
        Ok(())
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.queue(bytes)?;
        self.flush()
    }

    /// Starts TLS after a talk in the clear: sends what is in line, and has `start` (a
    /// [`TlsStart`](super::TlsStart)'s) make it. What came in the clear and was not taken by then might be
    /// anybody's, and must not pass for protected: it is an error.
    pub fn start_tls(&mut self, start: impl FnOnce() -> Result<(), ConnectError>) -> Result<(), Failure> {
        self.flush()?;
        while self.pipe.room()? == 0 {
            self.pipe.wait(true)?;
        }
        self.fill()?;
        match self.received.len() - self.taken {
            0 => Ok(start()?),
            bytes => {
                Err(Error::Protocol(format!("{bytes} bytes in the clear, before TLS was started")).into())
            }
        }
    }

    /// The place in the stream of the next byte to be queued. What begins at a place that [`sent`](Self::sent)
    /// has not passed has certainly not left.
    pub fn position(&self) -> u64 {
        self.sent + self.queued.len() as u64
    }

    /// How many bytes may have left.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Reads what is there, without waiting; an error if the other side has ended.
    pub fn fill(&mut self) -> Result<(), Error> {
        loop {
            let more = self.pipe.read()?;
            if more.is_empty() {
                return Ok(());
            }
            self.received.drain(..self.taken);
            self.taken = 0;
            self.received.extend(more);
        }
    }

    /// The next whole frame, if it is here already. `parse` is given all bytes received and not yet
    /// taken, and returns a frame and its length, or none if there is no whole one.
    pub fn parse<T>(
        &mut self,
        parse: impl FnOnce(&[u8]) -> Result<Option<(usize, T)>, String>,
    ) -> Result<Option<T>, Error> {
        let Some((length, frame)) = parse(&self.received[self.taken..]).map_err(Error::Protocol)? else {
            return Ok(None);
        };
        self.taken += length;
        if self.taken == self.received.len() {
            self.received.clear();
            self.taken = 0;
        }
        Ok(Some(frame))
    }

    /// Sends what is in line and waits for the next whole frame.
    pub fn frame<T>(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> Result<Option<(usize, T)>, String>,
    ) -> Result<T, Error> {
        self.flush()?;
        loop {
            if let Some(frame) = self.parse(&mut parse)? {
                return Ok(frame);
            }
            let before = self.received.len() - self.taken;
            if let Err(error) = self.fill() {
                // Many a broker says why before it ends the connection.
                return self.parse(&mut parse)?.ok_or(error);
            }
            if self.received.len() - self.taken == before {
                self.pipe.wait(false)?;
            }
        }
    }

    /// The next line, without its end; one longer than `most` bytes is an error.
    pub fn line(&mut self, most: usize) -> Result<Vec<u8>, Error> {
        self.frame(|bytes| match bytes.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                Ok(Some((end + 1, bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]).to_vec())))
            }
            None if bytes.len() > most => Err(format!("a line of more than {most} bytes")),
            None => Ok(None),
        })
    }

    /// Exactly so many bytes.
    pub fn exactly(&mut self, length: usize) -> Result<Vec<u8>, Error> {
        self.frame(|bytes| Ok(bytes.get(..length).map(|bytes| (length, bytes.to_vec()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Script;

    fn saying(says: &[Result<&'static [u8], Error>]) -> Connection<Script> {
        let says = says.iter().map(|said| said.clone().map(<[u8]>::to_vec));
        Connection::over(Script { says: says.collect(), ..Script::default() })
    }

    #[test]
    fn lines_and_counted_bytes_are_found_however_they_arrive() {
        let mut whole = saying(&[Ok(b"one\r\ntwo\nabcrest")]);
        let mut torn =
            saying(&[Ok(b"o"), Ok(b""), Ok(b"ne\r"), Ok(b""), Ok(b"\ntw"), Ok(b"o\na"), Ok(b""), Ok(b"bcr")]);
        for connection in [&mut whole, &mut torn] {
            assert_eq!(connection.line(10).unwrap(), b"one");
            assert_eq!(connection.line(10).unwrap(), b"two");
            assert_eq!(connection.exactly(3).unwrap(), b"abc");
            assert_eq!(connection.exactly(0).unwrap(), b"");
        }
    }

    #[test]
    fn a_line_without_an_end_a_silence_and_an_end_are_errors() {
        let endless = saying(&[Ok(b"0123456789")]).line(5);
        assert_eq!(endless, Err(Error::Protocol("a line of more than 5 bytes".into())));
        assert_eq!(saying(&[Ok(b"half")]).line(10), Err(Error::TimedOut));
        assert_eq!(saying(&[Ok(b"half"), Err(Error::Closed)]).line(10), Err(Error::Closed));
        // What was said before the end is heard.
        let mut farewell =
            saying(&[Ok(b"one\ntwo\n"), Err(Error::Closed), Err(Error::Closed), Err(Error::Closed)]);
        assert_eq!(
            (farewell.line(10).unwrap(), farewell.line(10).unwrap()),
            (b"one".to_vec(), b"two".to_vec())
        );
        assert_eq!(farewell.line(10), Err(Error::Closed));
        // An end that nobody waited for shows before something is sent into the void.
        assert_eq!(saying(&[Err(Error::Closed)]).fill(), Err(Error::Closed));
    }

    #[test]
    fn what_is_queued_leaves_in_order_with_the_next_flush_or_once_it_is_much() {
        let mut connection = saying(&[]);
        connection.pipe.rooms = [2, 0, 1].into();
        connection.queue(b"abc").unwrap();
        connection.queue(b"def").unwrap();
        assert_eq!((connection.pipe.heard.len(), connection.sent(), connection.position()), (0, 0, 6));
        connection.flush().unwrap();
        assert_eq!((&connection.pipe.heard[..], connection.sent()), (&b"abcdef"[..], 6));
        connection.queue(&vec![7; QUEUE_BYTES]).unwrap();
        assert_eq!(connection.pipe.heard.len(), 6 + QUEUE_BYTES);
    }

    #[test]
    fn a_broker_that_answers_before_it_takes_more_is_read_meanwhile() {
        let mut connection = saying(&[Ok(b"ack\n")]);
        connection.pipe.rooms = [0].into();
        connection.send(b"x").unwrap();
        assert!(connection.pipe.says.is_empty(), "it was read while there was no room");
        assert_eq!(connection.line(10).unwrap(), b"ack");
    }

    #[test]
    fn tls_is_started_once_all_was_sent_and_nothing_waits_unread() {
        let mut connection = saying(&[Ok(b"ready\n")]);
        connection.queue(b"starttls\n").unwrap();
        assert_eq!(connection.line(10).unwrap(), b"ready");
        assert_eq!(connection.start_tls(|| Ok(())), Ok(()));
        let refused = connection.start_tls(|| Err(ConnectError::Tls("unknown root".into())));
        assert!(matches!(refused, Err(Failure::Misconfigured(detail)) if detail.message == "unknown root"));

        let mut injected = saying(&[Ok(b"ready\nforged\n")]);
        assert_eq!(injected.line(10).unwrap(), b"ready");
        let refused = injected.start_tls(|| panic!("it must not be started"));
        assert!(matches!(refused, Err(Failure::Unavailable(info)) if info.message.contains("7 bytes")));
    }

    #[test]
    fn what_did_not_leave_is_known_after_a_loss() {
        struct Breaking(usize);
        impl Pipe for Breaking {
            fn allow(&mut self, _: Duration) {}
            fn read(&mut self) -> Result<Vec<u8>, Error> {
                Ok(Vec::new())
            }
            fn room(&mut self) -> Result<usize, Error> {
                if self.0 == 0 { Err(Error::Lost("reset".into())) } else { Ok(3) }
            }
            fn write(&mut self, _: &[u8]) -> Result<(), Error> {
                self.0 -= 1;
                Ok(())
            }
            fn wait(&mut self, _: bool) -> Result<(), Error> {
                Err(Error::TimedOut)
            }
        }
        let mut connection = Connection::over(Breaking(2));
        let starts: Vec<u64> = (0..3)
            .map(|_| {
                let start = connection.position();
                connection.queue(b"four").unwrap();
                start
            })
            .collect();
        assert!(connection.flush().is_err());
        let maybe: Vec<bool> = starts.iter().map(|start| connection.sent() > *start).collect();
        assert_eq!(maybe, [true, true, false], "six bytes left");
    }
}
