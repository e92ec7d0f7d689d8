//! `outhaul plugin test` with a real broker behind it.

use std::path::Path;
use std::sync::Arc;

use outhaul::clock::{SharedClock, SystemClock};
use outhaul::kit::report::{Tested, Verdict};
use outhaul::kit::suite::{self, Plan};
use outhaul::plugin::{Runtime, RuntimeSettings};
use outhaul_tests::guests::{compiled, guest};
use serde_json::Map;

/// The general cases that hold for whatever speaks no HTTP: those of loading, payloads, memory and batches.
const FOR_ALL: usize = 9;

/// Every case passes or does not apply, and those that must apply did.
pub async fn passes(plugin: &str, broker: &str) {
    let clock: SharedClock = Arc::new(SystemClock);
    let mut settings = RuntimeSettings::new(Arc::new(SystemClock));
    settings.cache_dir = Some(compiled());
    let runtime = Runtime::new(settings).expect("the runtime starts");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("plugins").join(plugin).join("cases");
    let own = std::fs::read_dir(&cases).expect("it has cases").count() - 1;
    let net = [("broker".to_owned(), broker.to_owned())].into();
    let plan = Plan { component: guest(plugin), cases, settings: Map::new(), net, sql: Default::default() };
    let report = suite::run(&runtime, &clock, &plan, &mut |_: &Tested| {})
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
    let mut text = Vec::new();
    report.tests.iter().for_each(|test| test.print(&mut text).expect("memory takes it"));
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(report.failures(), 0, "\n{text}");
    let passed = report.tests.iter().filter(|test| test.verdict == Verdict::Passed).count();
    assert_eq!(passed, FOR_ALL + own, "\n{text}");
}
