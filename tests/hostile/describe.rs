//! Plugins that say nothing usable of themselves: they deliver all the same, and the reason is known.

use std::time::Duration;

use outhaul::plugin::Deliver;
use outhaul_tests::guests::guest;

use crate::lane::{Lane, call, reference, spec};

/// The component with another misdeed written over the one in its data.
fn saying(folder: &tempfile::TempDir, misdeed: &str) -> std::path::PathBuf {
    let mut bytes = std::fs::read(guest("hostile-exports")).unwrap();
    let known = b"describe-misdeed=none...........";
    let at = bytes.windows(known.len()).position(|window| window == known).expect("the misdeed's place");
    let mut new = format!("describe-misdeed={misdeed}").into_bytes();
    new.resize(known.len(), b'.');
    bytes[at..at + known.len()].copy_from_slice(&new);
    let path = folder.path().join(format!("{misdeed}.wasm"));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[tokio::test]
async fn a_plugin_that_traps_hangs_or_overflows_in_describe_delivers_and_the_reason_is_known() {
    let folder = tempfile::tempdir().unwrap();
    for (misdeed, words) in [
        ("traps", "it will not say"),
        ("spins", "300 ms"),
        ("hangs", "300 ms"),
        ("hugename", "1 to 128 bytes"),
        ("hugeschema", "at most 262144"),
        ("manyneeds", "1000 needs"),
        ("notaschema", "not a JSON object"),
    ] {
        let mut spec = spec("hostile-exports");
        spec.component = saying(&folder, misdeed);
        if matches!(misdeed, "spins" | "hangs") {
            spec.limits.call = Duration::from_millis(300);
        }
        let lane = Lane::load(spec).await;
        let problem = lane.plugin.description().expect_err(misdeed);
        assert!(problem.starts_with("describe") && problem.contains(words), "{misdeed}: {problem}");
        assert!(lane.plugin.ungranted().is_empty());
        assert_eq!(lane.plugin.unready(), None);
        assert_eq!(reference(&lane.call("ok").await), "one, calls=1 ticks=0 payload=2", "{misdeed}");
        assert_eq!(lane.plugin.deliver(call("reject", &[])).await.kind(), "rejected");
    }
}
