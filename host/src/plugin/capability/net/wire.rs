//! A connection whose two halves stay while TLS is put between them and the network.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::plugin::capability::dial::Transport;

pub struct Wire {
    /// None while TLS is being started over it, and after that failed.
    transport: Mutex<Option<Box<dyn Transport>>>,
    /// How much was received that the guest has not read.
    unread_bytes: AtomicUsize,
    /// What the guest wrote is still on its way out.
    is_writing: AtomicBool,
}

impl Wire {
    pub fn over(transport: Box<dyn Transport>) -> Arc<Self> {
        Arc::new(Self {
            transport: Mutex::new(Some(transport)),
            unread_bytes: AtomicUsize::new(0),
            is_writing: AtomicBool::new(false),
        })
    }

    pub fn half(self: &Arc<Self>) -> Half {
        Half(self.clone())
    }

    pub fn set_unread(&self, bytes: usize) {
        self.unread_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn set_writing(&self, is_writing: bool) {
        self.is_writing.store(is_writing, Ordering::Relaxed);
    }

    /// Takes the transport out, to be wrapped. The connection is ended if that would mix what was said in
    /// the clear with what is protected.
    pub fn take(&self) -> Result<Box<dyn Transport>, String> {
        let transport = self.lock().take();
        match (transport, self.unread_bytes.load(Ordering::Relaxed)) {
            (None, _) => Err("the connection has ended".to_owned()),
            (Some(_), bytes @ 1..) => {
                Err(format!("{bytes} bytes that came in the clear were not read before TLS was started"))
            }
            (Some(_), 0) if self.is_writing.load(Ordering::Relaxed) => {
                Err("what the plugin wrote was not flushed before it started TLS".to_owned())
            }
            (Some(transport), 0) => Ok(transport),
        }
    }

    pub fn put(&self, transport: Box<dyn Transport>) {
        *self.lock() = Some(transport);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Transport>>> {
        self.transport.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One direction of a wire; it ends with the last of them.
pub struct Half(Arc<Wire>);

impl Half {
    pub fn wire(&self) -> &Arc<Wire> {
        &self.0
    }

    fn with<T>(
        &self,
        poll: impl FnOnce(Pin<&mut Box<dyn Transport>>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match self.0.lock().as_mut() {
            Some(transport) => poll(Pin::new(transport)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncRead for Half {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|transport| transport.poll_read(context, buffer))
    }
}

impl AsyncWrite for Half {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|transport| transport.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|transport| transport.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|transport| transport.poll_shutdown(context))
    }
}
