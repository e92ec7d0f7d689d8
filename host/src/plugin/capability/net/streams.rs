//! The two halves of a connection as `wasi:io` streams. Nothing reads ahead of the guest but one
//! buffer, and what is being written when an instance ends, ends with it.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::task::AbortOnDropHandle;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::Place;
use super::wire::Half;
use crate::plugin::stats::Stats;

const READ_BYTES_MAX: usize = 32 << 10;
/// The most one write takes; a guest is told with `check-write`.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// For the last word of a connection whose guest has closed it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How a stream ended. A failure is told once; after it the stream is closed.
enum End {
    Closed,
    Failed(io::Error),
}

impl End {
    fn tell(&mut self) -> StreamError {
        match std::mem::replace(self, Self::Closed) {
            Self::Closed => StreamError::Closed,
            Self::Failed(error) => StreamError::LastOperationFailed(error.into()),
        }
    }
}

fn now() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

pub struct Input {
    reads: Half,
    /// Read from the connection and not yet by the guest.
    buffer: BytesMut,
    end: Option<End>,
    stats: Arc<Stats>,
    _place: Arc<Place>,
}

impl Input {
    pub fn new(reads: Half, stats: Arc<Stats>, place: Arc<Place>) -> Self {
        Self { reads, buffer: BytesMut::new(), end: None, stats, _place: place }
    }

    /// Ready once there are bytes, or no more will come.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.buffer.is_empty() || self.end.is_some() {
            return Poll::Ready(());
        }
        self.buffer.reserve(READ_BYTES_MAX);
        // One read is wholly in the buffer or has not begun, so a future that is dropped loses none.
        match ready!(pin!(self.reads.read_buf(&mut self.buffer)).poll(context)) {
            Ok(0) => self.end = Some(End::Closed),
            Ok(bytes) => {
                self.stats.net_bytes_received.add(bytes as u64);
                self.reads.wire().set_unread(self.buffer.len());
            }
            Err(error) => self.end = Some(End::Failed(error)),
        }
        Poll::Ready(())
    }
}

#[async_trait::async_trait]
impl Pollable for Input {
    async fn ready(&mut self) {
        poll_fn(|context| self.poll_fill(context)).await;
    }
}

#[async_trait::async_trait]
impl InputStream for Input {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size > 0 {
            let _ = self.poll_fill(&mut now());
        }
        if !self.buffer.is_empty() || size == 0 && self.end.is_none() {
            let most = size.min(self.buffer.len());
            let read = self.buffer.split_to(most).freeze();
            self.reads.wire().set_unread(self.buffer.len());
            return Ok(read);
        }
        match &mut self.end {
            Some(end) => Err(end.tell()),
            None => Ok(Bytes::new()),
        }
    }
}

enum Writing {
    Idle(Half),
    /// What did not go out at once is written beside the guest, so that a guest that waits for the
    /// answer does not have to wait for its question too.
    Busy(AbortOnDropHandle<io::Result<Half>>),
    Ended(End),
}

pub struct Output {
    writing: Writing,
    /// The last `check-write`; a larger write is a fault of the guest.
    permitted: usize,
    stats: Arc<Stats>,
    _place: Arc<Place>,
}

impl Output {
    pub fn new(writes: Half, stats: Arc<Stats>, place: Arc<Place>) -> Self {
        Self { writing: Writing::Idle(writes), permitted: 0, stats, _place: place }
    }

    /// Ready once nothing is being written.
    fn poll_written(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Writing::Busy(task) = &mut self.writing {
            self.writing = match ready!(Pin::new(task).poll(context)) {
                Ok(written) => settled(written),
                Err(lost) => Writing::Ended(End::Failed(io::Error::other(lost))),
            };
        }
        Poll::Ready(())
    }
}

fn settled(written: io::Result<Half>) -> Writing {
    match written {
        Ok(writes) => Writing::Idle(writes),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Writing::Ended(End::Closed),
        Err(error) => Writing::Ended(End::Failed(error)),
    }
}

#[async_trait::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {
        poll_fn(|context| self.poll_written(context)).await;
    }
}

#[async_trait::async_trait]
impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > std::mem::take(&mut self.permitted) {
            return Err(StreamError::trap("it wrote more bytes than check-write permitted"));
        }
        let mut writes = match std::mem::replace(&mut self.writing, Writing::Ended(End::Closed)) {
            Writing::Idle(writes) if bytes.is_empty() => {
                self.writing = Writing::Idle(writes);
                return Ok(());
            }
            Writing::Idle(writes) => writes,
            other => {
                self.writing = other;
                return Err(StreamError::trap("it wrote before check-write permitted it"));
            }
        };
        let stats = self.stats.clone();
        writes.wire().set_writing(true);
        let mut write = Box::pin(async move {
            writes.write_all(&bytes).await?;
            // TLS keeps records until it is told to send them.
            writes.flush().await?;
            writes.wire().set_writing(false);
            stats.net_bytes_sent.add(bytes.len() as u64);
            Ok(writes)
        });
        self.writing = match write.as_mut().poll(&mut now()) {
            Poll::Ready(written) => settled(written),
            Poll::Pending => Writing::Busy(AbortOnDropHandle::new(tokio::spawn(write))),
        };
        match &mut self.writing {
            Writing::Ended(end) => Err(end.tell()),
            _ => Ok(()),
        }
    }

    /// Every write goes out as soon as it can.
    fn flush(&mut self) -> StreamResult<()> {
        match &mut self.writing {
            Writing::Ended(end) => Err(end.tell()),
            _ => Ok(()),
        }
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        let _ = self.poll_written(&mut now());
        self.permitted = match &mut self.writing {
            Writing::Idle(_) => WRITE_BYTES_MAX,
            Writing::Busy(_) => 0,
            Writing::Ended(end) => return Err(end.tell()),
        };
        Ok(self.permitted)
    }

    /// The guest drops the stream: what it wrote goes out, and then the end, which the other side
    /// sees while the guest may go on reading.
    async fn cancel(&mut self) {
        self.ready().await;
        if let Writing::Idle(writes) = &mut self.writing {
            let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, writes.shutdown()).await;
        }
    }
}
