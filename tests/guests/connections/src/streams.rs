//! Bytes over two `wasi:io` streams, without blocking calls where both directions are at work.

use crate::bindings::wasi::io::poll;
use crate::bindings::wasi::io::streams::{InputStream, OutputStream, StreamError};

/// Sends `bytes` while it reads as many; what came back and how the reading ended.
pub fn echo(input: &InputStream, output: &OutputStream, bytes: &[u8]) -> Result<String, String> {
    let (readable, writable) = (input.subscribe(), output.subscribe());
    let (mut sent, mut received) = (0, Vec::new());
    while received.len() < bytes.len() {
        let waiting = if sent < bytes.len() { vec![&readable, &writable] } else { vec![&readable] };
        poll::poll(&waiting);
        if sent < bytes.len() {
            let room = output.check_write().map_err(|error| told("write", error))? as usize;
            let piece = &bytes[sent..bytes.len().min(sent + room)];
            if !piece.is_empty() {
                output.write(piece).map_err(|error| told("write", error))?;
                sent += piece.len();
            }
        }
        match input.read(64 << 10) {
            Ok(more) => received.extend(more),
            Err(error) => return Err(format!("{} after {} bytes", told("read", error), received.len())),
        }
    }
    output.blocking_flush().map_err(|error| told("flush", error))?;
    Ok(format!("echoed={} same={}", received.len(), received == bytes))
}

/// Everything until the other side ends.
pub fn read_to_end(input: &InputStream) -> Result<Vec<u8>, String> {
    let mut received = Vec::new();
    loop {
        match input.blocking_read(64 << 10) {
            Ok(more) => received.extend(more),
            Err(StreamError::Closed) => return Ok(received),
            Err(error) => return Err(format!("{} after {} bytes", told("read", error), received.len())),
        }
    }
}

pub fn told(what: &str, error: StreamError) -> String {
    match error {
        StreamError::Closed => format!("{what}: closed"),
        StreamError::LastOperationFailed(error) => format!("{what}: {}", error.to_debug_string()),
    }
}
