//! Guests that write more than they should, or something else than it seems.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock};

use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

use crate::lane::{Lane, hostile, reference, spec};

/// What the host's JSON log would show, for the whole test process.
static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Capture;

impl io::Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WRITTEN.lock().unwrap().extend_from_slice(bytes);
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

pub fn capture() -> MutexGuard<'static, Vec<u8>> {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| tracing_subscriber::fmt().json().with_writer(|| Capture).init());
    WRITTEN.lock().unwrap()
}

/// The records of one destination. Every line of the log must be a record of its own.
pub fn records(destination: &str) -> Vec<Value> {
    let written = capture();
    std::str::from_utf8(&written)
        .expect("the log is UTF-8")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
        .filter(|record| record["fields"]["destination"] == destination)
        .collect()
}

/// One line a second would let the test wait for time; none of these tests is that slow.
async fn lane(lines_per_second: u32) -> (Lane, String) {
    drop(capture());
    let mut spec = spec("hostile");
    spec.limits.log_lines_per_second = lines_per_second;
    let destination = spec.destination.clone();
    (Lane::load(spec).await, destination)
}

#[tokio::test]
async fn s28_a_forged_line_is_one_field_of_one_record() {
    let (lane, destination) = lane(1000).await;
    assert_eq!(reference(&lane.call_with("flood-log", &[("lines", "6")]).await), "");
    let records = records(&destination);
    assert_eq!(records.len(), 7);
    let texts: Vec<_> = records.iter().map(|record| record["fields"]["text"].as_str().unwrap()).collect();
    assert!((4093..=4096).contains(&texts[0].len()), "{}", texts[0].len());
    assert_eq!(texts[2], "first\n2026-01-01T00:00:00Z ERROR outhaul: forged second line");
    assert_eq!(texts[3], "\u{1b}[2J\u{1b}[31mred\u{1b}[0m");
    assert_eq!(texts[4], "{\"level\":\"ERROR\",\"message\":\"forged\"}");
    assert_eq!(texts[5], "nul\0inside");
    for record in &records {
        assert_ne!(record["level"], "ERROR");
        assert_eq!(record["fields"]["message"], "plugin log");
        assert_eq!(record["fields"]["event_id"], "event-1");
        assert_eq!(record["target"], "outhaul::guest");
    }
}

#[tokio::test]
async fn s28_lines_past_the_rate_are_dropped_counted_and_told() {
    let (lane, destination) = lane(5).await;
    for _ in 0..2 {
        assert_eq!(reference(&lane.call_with("flood-log", &[("lines", "20000")]).await), "");
    }
    let stats = lane.stats();
    assert_eq!(stats.log_lines + stats.log_lines_dropped, 2 * 20_001);
    let records = records(&destination);
    assert_eq!(records.len() as u64, stats.log_lines);
    let told: u64 = records.iter().map(|record| record["fields"]["dropped_before"].as_u64().unwrap()).sum();
    assert!(told <= stats.log_lines_dropped);
    // A call took longer than a second only on a very slow machine; then there are more windows.
    assert!(stats.log_lines < 500, "{} lines", stats.log_lines);
}

#[tokio::test]
async fn s28_standard_output_is_bounded_like_the_log() {
    let (lane, destination) = lane(1000).await;
    assert_eq!(reference(&lane.call_with("flood-stdout", &[("lines", "3")]).await), "");
    let records = records(&destination);
    let seen: Vec<_> = records
        .iter()
        .map(|record| {
            (record["fields"]["source"].as_str().unwrap(), record["fields"]["text"].as_str().unwrap())
        })
        .collect();
    let expected: Vec<_> = (0..3)
        .flat_map(|n| {
            [("stdout", format!("stdout {n}\u{1b}[31m\0")), ("stderr", format!("stderr {n}\u{1b}[31m\0"))]
        })
        .collect();
    assert_eq!(seen, expected.iter().map(|(source, text)| (*source, text.as_str())).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_flood_of_the_log_does_not_stop_another_lane() {
    let (flooding, _) = lane(5).await;
    let healthy = hostile(|_| {}).await;
    let plugin = flooding.plugin.clone();
    let flood = tokio::spawn(async move {
        use outhaul::plugin::Deliver;
        plugin.deliver(crate::lane::call("flood-log", &[("lines", "1000000000")])).await
    });
    while flooding.stats().log_lines_dropped < 1000 {
        tokio::task::yield_now().await;
    }
    for n in 1..=20 {
        assert_eq!(reference(&healthy.call("remember").await), format!("calls={n}"));
    }
    assert!(!flood.is_finished());
    flood.abort();
}
