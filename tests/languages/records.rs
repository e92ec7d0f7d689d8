//! What the host's JSON log would show, for the whole test process.

use std::io;
use std::sync::{Mutex, Once};

use serde_json::Value;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Capture;

impl io::Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.lock().expect("the test's own lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Capture {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}

/// From now on, records are kept. To be called before the plugin is loaded.
pub fn keep() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let filter = EnvFilter::new("outhaul::guest=info");
        tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(|| Capture).init();
    });
}

/// The level and the text of each line that a destination's plugin wrote.
pub fn of(destination: &str) -> Vec<(String, String)> {
    let written = WRITTEN.lock().expect("the test's own lock");
    let lines = std::str::from_utf8(&written).expect("the log is UTF-8").lines();
    let records = lines.map(|line| serde_json::from_str::<Value>(line).expect("each line is a record"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    records
        .filter(|record| record["fields"]["destination"] == destination)
        .map(|record| (text(&record["level"]), text(&record["fields"]["text"])))
        .collect()
}
