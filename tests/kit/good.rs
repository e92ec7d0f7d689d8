//! What ships passes.

use outhaul::kit::project;
use outhaul::kit::report::Verdict;
use outhaul_tests::guests::guest;

use crate::harness::{folder, no_settings, passed, run};

/// The cases over HTTP, and those that hold for every plugin.
const OVER_HTTP: usize = 20;
const FOR_ALL: usize = 8;

#[tokio::test]
async fn the_http_plugin_passes() {
    let report = run(guest("http"), folder("plugins/http/cases"), no_settings()).await;
    let own = std::fs::read_dir(folder("plugins/http/cases")).unwrap().count() - 1;
    assert_eq!(passed(&report), FOR_ALL + OVER_HTTP + 1 + own);
}

#[tokio::test]
async fn the_log_plugin_passes_and_is_told_which_cases_do_not_apply() {
    let report = run(guest("log"), folder("plugins/log/cases"), no_settings()).await;
    let own = std::fs::read_dir(folder("plugins/log/cases")).unwrap().count();
    assert_eq!(passed(&report), FOR_ALL + own);
    let skipped = report.tests.iter().filter(|test| matches!(test.verdict, Verdict::NotApplicable(_)));
    assert_eq!(skipped.count(), OVER_HTTP + 1, "and it takes no batches");
}

#[tokio::test]
async fn the_plugins_that_keep_a_ledger_pass() {
    for plugin in ["stock-ledger", "sql-table"] {
        let cases = folder(&format!("plugins/{plugin}/cases"));
        let own = std::fs::read_dir(&cases).unwrap().count() - 1;
        let report = run(guest(plugin), cases, no_settings()).await;
        assert_eq!(passed(&report), FOR_ALL + 1 + own, "{plugin}: and it takes batches");
    }
}

#[tokio::test]
async fn every_template_passes() {
    for language in project::languages() {
        let cases = folder(&format!("plugins/templates/{language}/cases"));
        let report = run(guest(&format!("template-{language}")), cases, no_settings()).await;
        let passed = passed(&report);
        assert!(passed > FOR_ALL + OVER_HTTP, "{language}: only {passed} cases applied");
    }
}
