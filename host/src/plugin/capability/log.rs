//! `outhaul:log`, and the guest's standard output: text that ends as one field of one record.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::clock::SharedClock;
use crate::plugin::bindings::log;
use crate::plugin::state::GuestState;
use crate::plugin::stats::Stats;
use crate::plugin::text;

pub use crate::plugin::bindings::log::Level as LogLevel;

/// The most one write to standard output takes; a larger one comes in pieces.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// What Rust prints after the message of a panic: the words that matter stand before it.
const RUST_HINT: &str = "note: run with `RUST_BACKTRACE";

/// The log of one destination: its limits hold for all its instances together.
pub struct LaneLog {
    destination: String,
    line_bytes_max: usize,
    lines_per_second: u32,
    clock: SharedClock,
    stats: Arc<Stats>,
    rate: Mutex<Rate>,
}

#[derive(Default)]
struct Rate {
    /// Since boot.
    second: u64,
    lines: u32,
    dropped_since_written: u64,
}

impl LaneLog {
    pub fn new(
        destination: String,
        line_bytes_max: usize,
        lines_per_second: u32,
        clock: SharedClock,
        stats: Arc<Stats>,
    ) -> Self {
        Self { destination, line_bytes_max, lines_per_second, clock, stats, rate: Mutex::default() }
    }

    fn write(&self, level: LogLevel, event_id: &str, source: &'static str, line: &str) {
        let Some(dropped) = self.admit() else {
            self.stats.log_lines_dropped.add_one();
            return;
        };
        self.stats.log_lines.add_one();
        let text = text::line(line, self.line_bytes_max);
        record(level, &self.destination, event_id, source, &text, dropped);
    }

    /// How many lines were dropped since the last one written, or none if this one is too many.
    fn admit(&self) -> Option<u64> {
        let second = self.clock.since_boot().as_secs();
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.second != second {
            rate.second = second;
            rate.lines = 0;
        }
        if rate.lines >= self.lines_per_second {
            rate.dropped_since_written += 1;
            return None;
        }
        rate.lines += 1;
        Some(std::mem::take(&mut rate.dropped_since_written))
    }
}

/// The guest's text is a field's *value*, recorded as a string, so that every format escapes it:
/// it can't end its record and begin another.
fn record(level: LogLevel, destination: &str, event_id: &str, source: &str, text: &str, dropped: u64) {
    macro_rules! at {
        ($level:ident) => {
            tracing::event!(
                target: "outhaul::guest",
                tracing::Level::$level,
                destination,
                event_id,
                source,
                text,
                dropped_before = dropped,
                "plugin log"
            )
        };
    }
    match level {
        LogLevel::Trace => at!(TRACE),
        LogLevel::Debug => at!(DEBUG),
        LogLevel::Info => at!(INFO),
        LogLevel::Warn => at!(WARN),
        LogLevel::Error => at!(ERROR),
    }
}

/// The log of one instance: knows which event its call is about.
pub struct GuestLog {
    lane: Arc<LaneLog>,
    call: Mutex<CallLog>,
}

#[derive(Default)]
struct CallLog {
    event_id: String,
    /// What was printed since the last end of a line.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    last_error_line: Option<String>,
}

impl GuestLog {
    pub fn new(lane: Arc<LaneLog>) -> Self {
        Self { lane, call: Mutex::default() }
    }

    pub fn begin(&self, event_id: &str) {
        let mut call = self.call();
        call.event_id = event_id.to_owned();
        call.last_error_line = None;
    }

    /// Writes what was printed without an end of line.
    pub fn end(&self) {
        self.print(StdStream::Out, b"\n");
        self.print(StdStream::Err, b"\n");
    }

    /// The last line printed to standard error in this call: where languages put the reason of a
    /// panic or an uncaught exception.
    pub fn take_last_words(&self) -> Option<String> {
        self.end();
        self.call().last_error_line.take()
    }

    /// A standard stream whose lines become records.
    pub fn stream(self: &Arc<Self>, stream: StdStream) -> LineStream {
        LineStream { log: self.clone(), stream }
    }

    fn print(&self, stream: StdStream, bytes: &[u8]) {
        let line_bytes_max = self.lane.line_bytes_max;
        let mut call = self.call();
        let CallLog { event_id, stdout, stderr, last_error_line } = &mut *call;
        let (level, source, line) = match stream {
            StdStream::Out => (LogLevel::Info, "stdout", stdout),
            StdStream::Err => (LogLevel::Warn, "stderr", stderr),
        };
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            // One byte more than the limit is kept, so that the cut is seen and marked.
            let room = (line_bytes_max + 1).saturating_sub(line.len());
            line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() == piece.len() || line.is_empty() {
                continue;
            }
            let whole = String::from_utf8_lossy(line);
            self.lane.write(level, event_id, source, &whole);
            if matches!(stream, StdStream::Err) && !whole.starts_with(RUST_HINT) {
                *last_error_line = Some(text::line(&whole, line_bytes_max));
            }
            line.clear();
        }
    }

    fn call(&self) -> MutexGuard<'_, CallLog> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl log::Host for GuestState {
    fn log(&mut self, level: LogLevel, message: String) -> wasmtime::Result<()> {
        self.log.lane.write(level, &self.log.call().event_id, "log", &message);
        Ok(())
    }
}

#[derive(Clone, Copy)]
pub enum StdStream {
    Out,
    Err,
}

/// Standard output or error: gathers lines, keeps no more of one than its limit, never blocks and
/// never fails, so that a plugin that prints can't be stopped by its printing.
#[derive(Clone)]
pub struct LineStream {
    log: Arc<GuestLog>,
    stream: StdStream,
}

impl IsTerminal for LineStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LineStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 asks for this one, and the host offers 0.2.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for LineStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LineStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.print(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}
