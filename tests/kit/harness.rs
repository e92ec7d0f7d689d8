//! One run of the cases, as `outhaul plugin test` makes it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use outhaul::clock::{SharedClock, SystemClock};
use outhaul::kit::report::{Report, Tested, Verdict};
use outhaul::kit::suite::{self, Plan};
use outhaul::plugin::{Runtime, RuntimeSettings};
use serde_json::{Map, Value};

static CACHE: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder for compiled components"));

pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut settings = RuntimeSettings::new(Arc::new(SystemClock));
    settings.cache_dir = Some(CACHE.path().to_owned());
    Runtime::new(settings).expect("the runtime starts")
});

pub async fn run(component: PathBuf, cases: PathBuf, settings: Value) -> Report {
    let clock: SharedClock = Arc::new(SystemClock);
    let Value::Object(settings) = settings else { panic!("settings are an object") };
    let plan = Plan { component, cases, settings, net: Default::default(), sql: Default::default() };
    suite::run(&RUNTIME, &clock, &plan, &mut |_: &Tested| {})
        .await
        .unwrap_or_else(|error| panic!("{error:#}"))
}

/// Why nothing could be run.
pub async fn error(plan: &Plan) -> String {
    let clock: SharedClock = Arc::new(SystemClock);
    match suite::run(&RUNTIME, &clock, plan, &mut |_: &Tested| {}).await {
        Ok(report) => panic!("it ran: {}", report.summary()),
        Err(error) => format!("{error:#}"),
    }
}

/// A folder of the repository.
pub fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace").join(path)
}

/// Every case passed, or does not apply, with how many applied.
pub fn passed(report: &Report) -> usize {
    let mut text = Vec::new();
    report.tests.iter().for_each(|test| test.print(&mut text).expect("memory takes it"));
    assert_eq!(report.failures(), 0, "\n{}", String::from_utf8_lossy(&text));
    report.tests.iter().filter(|test| test.verdict == Verdict::Passed).count()
}

/// What was said of the failed case whose name holds `name`.
pub fn failure<'a>(report: &'a Report, name: &str) -> &'a str {
    let failed = report.tests.iter().filter_map(|test| match &test.verdict {
        Verdict::Failed(why) => Some((test.name.as_str(), why.as_str())),
        Verdict::Passed | Verdict::NotApplicable(_) => None,
    });
    let failed: Vec<_> = failed.collect();
    let found = failed.iter().find(|(failed, _)| failed.contains(name));
    found.map_or_else(|| panic!("{name:?} did not fail; failed: {failed:#?}"), |(_, why)| why)
}

pub fn no_settings() -> Value {
    Value::Object(Map::new())
}
