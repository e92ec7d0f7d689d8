//! One fault a test: the case that finds it, and what it says.

use outhaul::kit::report::Report;
use outhaul_tests::guests::guest;
use serde_json::json;

use crate::harness::{failure, folder, no_settings, passed, run};

async fn sloppy(fault: &str) -> Report {
    let settings = json!({ "url": "{{server}}", "fault": fault });
    run(guest("sloppy"), folder("tests/guests/sloppy/cases"), settings).await
}

#[tokio::test]
async fn without_a_fault_it_passes() {
    passed(&sloppy("none").await);
}

#[tokio::test]
async fn a_plugin_that_believes_every_answer_is_told_which_it_should_not() {
    let report = sloppy("believes-every-answer").await;
    assert!(failure(&report, "400, 404").contains("400 drew it: the receiver refused it\ngot delivered"));
    assert!(failure(&report, "a redirect").contains("301"));
    assert!(failure(&report, "500, 502").contains("say retry or unavailable"));
}

#[tokio::test]
async fn a_plugin_that_rejects_for_the_destinations_faults_is_told_to_wait() {
    assert!(failure(&sloppy("rejects-an-outage").await, "500, 502").contains("got rejected"));
    let report = sloppy("rejects-at-a-wrong-credential").await;
    assert!(failure(&report, "401 and 403").contains("say misconfigured"));
    assert!(failure(&sloppy("gives-up-at-once").await, "a refused").contains("say unavailable"));
}

#[tokio::test]
async fn a_plugin_that_leaves_the_timeout_to_the_host_is_told_to_have_its_own() {
    let report = sloppy("waits-for-ever").await;
    let why = failure(&report, "no answer at all");
    assert!(why.contains("budget-ms") && why.contains("got deadline"), "{why}");
}

#[tokio::test]
async fn a_plugin_that_hides_a_lost_answer_is_told_to_say_maybe_applied() {
    let report = sloppy("is-always-certain").await;
    assert!(failure(&report, "reset before").contains("maybe-applied"));
    assert!(failure(&report, "no answer at all").contains("maybe-applied"));
}

#[tokio::test]
async fn a_plugin_that_gets_the_unit_of_a_wish_wrong_is_told() {
    assert!(failure(&sloppy("takes-seconds-for-milliseconds").await, "Retry-After").contains("7000"));
}

#[tokio::test]
async fn a_plugin_that_follows_redirects_is_told_where_it_went() {
    assert!(failure(&sloppy("follows-redirects").await, "a redirect").contains("/elsewhere"));
}

#[tokio::test]
async fn state_that_leaks_between_events_is_shown() {
    let report = sloppy("sends-the-last-one-too").await;
    assert!(failure(&report, "one after the other").contains("alpha-7f3a91"));
    assert!(failure(&report, "an event that failed").contains("alpha-7f3a91"));
    let report = sloppy("counts-in-the-path").await;
    assert!(failure(&report, "the same event twice").contains("first POST /1, then POST /2"));
}

#[tokio::test]
async fn a_plugin_that_can_not_take_some_payload_is_told_which() {
    let why = sloppy("takes-text-for-granted").await;
    let why = failure(&why, "all 256 bytes");
    assert!(why.contains("got trap") && why.contains("text"), "{why}");
    assert!(failure(&sloppy("retries-what-it-can-not-take").await, "an empty payload").contains("got retry"));
}

#[tokio::test]
async fn memory_that_grows_with_the_events_is_found() {
    assert!(failure(&sloppy("hoards").await, "64 events").contains("instances"));
}

#[tokio::test]
async fn a_batch_that_sends_one_event_for_all_is_found() {
    let report = sloppy("sends-a-batchs-first-only").await;
    assert!(failure(&report, "a batch of eight").contains("is in 8 of 8 requests"));
}

#[tokio::test]
async fn configure_that_traps_is_found() {
    let report = sloppy("panics-at-settings").await;
    let why = failure(&report, "settings it does not know");
    assert!(why.contains("a setting nobody knows"), "{why}");
}

#[tokio::test]
async fn a_component_that_does_not_load_is_told_why_and_nothing_else_is_tried() {
    let report = run(guest("http"), folder("tests/guests/sloppy/cases"), no_settings()).await;
    let why = failure(&report, "it loads");
    assert!(why.contains("url") && why.contains("--settings"), "{why}");
    assert_eq!(report.tests.len(), 1);
}

#[tokio::test]
async fn a_case_that_is_not_met_says_what_was_expected_and_what_came() {
    let cases = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(cases.path().join(file), text).unwrap();
    write("settings.toml", "[settings]\nurl = \"{{server}}\"\n");
    write(
        "busy.toml",
        "name = \"busy\"\n[[server]]\nstatus = 429\n[expect]\noutcome = \"retry\"\n[expect.request]\npath = \"/x\"\n",
    );
    write("url.toml", "settings = { url = \"ftp://x\" }\n[expect]\nsettings = \"/method\"\n");
    let report = run(guest("http"), cases.path().to_owned(), no_settings()).await;
    let why = failure(&report, "busy.toml: busy");
    assert!(why.contains("outcome: expected retry, got rate-limited"), "{why}");
    assert!(why.contains("request's path: expected \"/x\", got Some(\"/\")"), "{why}");
    assert!(failure(&report, "url.toml").contains("/url"));
}

#[tokio::test]
async fn a_case_that_can_not_be_read_is_no_plugins_fault() {
    let cases = tempfile::tempdir().unwrap();
    std::fs::write(cases.path().join("a.toml"), "[expect]\noutcom = \"retry\"\n").unwrap();
    let plan = outhaul::kit::suite::Plan {
        component: guest("log"),
        cases: cases.path().to_owned(),
        settings: Default::default(),
        net: Default::default(),
        sql: Default::default(),
    };
    let error = crate::harness::error(&plan).await;
    assert!(error.contains("a.toml") && error.contains("outcom"), "{error}");
}
