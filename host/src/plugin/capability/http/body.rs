//! A response's body on its way to the guest: bounded in bytes and time, and the connection given
//! back at its end.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};
use wasmtime_wasi_http::Error;

use super::pool::Checkout;

/// What is read of a body nobody wants, to be able to use its connection again.
const DRAIN_BYTES_MAX: usize = 64 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

pub struct ResponseBody {
    incoming: Incoming,
    bytes_max: u64,
    bytes_left: u64,
    trailer_bytes_max: usize,
    /// The whole exchange must be over by then.
    total: Pin<Box<Sleep>>,
    between: Duration,
    between_ends: Option<Pin<Box<Sleep>>>,
    /// Taken when the body ends, well or badly.
    connection: Option<Checkout>,
}

impl ResponseBody {
    pub fn new(
        incoming: Incoming,
        connection: Checkout,
        bytes_max: u64,
        trailer_bytes_max: usize,
        total_left: Duration,
        between: Duration,
    ) -> Self {
        let mut body = Self {
            incoming,
            bytes_max,
            bytes_left: bytes_max,
            trailer_bytes_max,
            total: Box::pin(sleep(total_left)),
            between,
            between_ends: None,
            connection: Some(connection),
        };
        if body.incoming.is_end_stream() {
            body.give_back();
        }
        body
    }

    fn give_back(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.give_back();
        }
    }

    fn fail(&mut self, error: Error) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        // Dropping the connection closes it: what it still sends is of no use to anyone.
        self.connection = None;
        Poll::Ready(Some(Err(error)))
    }

    fn admit(&mut self, frame: &Frame<Bytes>) -> Result<(), Error> {
        if let Some(data) = frame.data_ref() {
            let bytes = data.len() as u64;
            let too_many = Error::HttpResponseBodySize(Some(self.bytes_max));
            self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(too_many)?;
        }
        if let Some(trailers) = frame.trailers_ref() {
            let bytes: usize = trailers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
            if bytes > self.trailer_bytes_max {
                return Err(Error::HttpResponseTrailerSectionSize(u32::try_from(bytes).ok()));
            }
        }
        Ok(())
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let body = self.get_mut();
        if body.total.as_mut().poll(cx).is_ready() {
            return body.fail(Error::HttpResponseTimeout);
        }
        match Pin::new(&mut body.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                body.between_ends = None;
                match body.admit(&frame) {
                    Ok(()) => Poll::Ready(Some(Ok(frame))),
                    Err(error) => body.fail(error),
                }
            }
            Poll::Ready(Some(Err(error))) => {
                let parsing = error.is_parse();
                body.fail(if parsing { Error::HttpProtocolError } else { Error::HttpResponseIncomplete })
            }
            Poll::Ready(None) => {
                body.give_back();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let between = body.between;
                let ends = body.between_ends.get_or_insert_with(|| Box::pin(sleep(between)));
                match ends.as_mut().poll(cx) {
                    Poll::Ready(()) => body.fail(Error::ConnectionReadTimeout),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// A guest that only looks at the status drops the body unread. A short one is read out, because a
/// connection with an unread body can't be used again.
pub struct DrainOnDrop(Option<ResponseBody>);

impl DrainOnDrop {
    pub fn new(body: ResponseBody) -> Self {
        Self(Some(body))
    }
}

impl Body for DrainOnDrop {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for DrainOnDrop {
    fn drop(&mut self) {
        let Some(body) = self.0.take() else { return };
        let is_short = body.size_hint().lower() <= DRAIN_BYTES_MAX as u64;
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if body.connection.is_some() && is_short {
            runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(body)));
        }
    }
}

async fn drain(mut body: ResponseBody) {
    let mut bytes_left = DRAIN_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let Some(left) = bytes_left.checked_sub(bytes) else { return };
        bytes_left = left;
    }
}
