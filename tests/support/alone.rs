//! Tests that measure their own process: each runs once more in one where no other test runs.

use std::process::Stdio;

use tokio::process::Command;

const ALONE: &str = "OUTHAUL_ALONE";

/// Whether this process runs one test only.
pub fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs the test with this full name in a process of its own, and passes on what it printed.
pub async fn run_alone(name: &str) {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own path"));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.expect("the test program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // A name that is none runs nothing, and that is a success too.
    assert!(text.contains("1 passed"), "no test is called {name}: {text}");
    print!("{text}");
}

/// What this process holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub mappings: usize,
    pub resident_bytes: usize,
}

impl Held {
    pub fn now() -> Self {
        let read =
            |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).expect("the kernel tells");
        let resident_pages: usize =
            read("statm").split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
        Self { mappings: read("maps").lines().count(), resident_bytes: resident_pages * 4096 }
    }
}
