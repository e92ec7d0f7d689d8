//! The brokers' own clients, which know nothing of Outhaul: scripts in `clients/`, run by Python.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Bounds a test that fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// A message as a client got it.
#[derive(Clone, Debug, Deserialize)]
pub struct Got {
    /// Subject, stream or topic.
    pub place: String,
    pub headers: BTreeMap<String, String>,
    /// In base64.
    payload: String,
}

impl Got {
    pub fn payload(&self) -> Vec<u8> {
        STANDARD.decode(&self.payload).expect("base64")
    }

    pub fn id(&self) -> &str {
        &self.headers["Outhaul-Event-Id"]
    }
}

fn command(script: &str, arguments: &[&str]) -> Command {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python());
    command.arg(tests.join("brokers/clients").join(script)).args(arguments).stdin(Stdio::null());
    command
}

/// What a script prints.
pub fn run(script: &str, arguments: &[&str]) -> String {
    let output = command(script, arguments).output().expect("Python starts");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {arguments:?}: {complaints}");
    String::from_utf8(output.stdout).expect("scripts print text")
}

/// The messages a script prints, a line each.
pub fn read(script: &str, arguments: &[&str]) -> Vec<Got> {
    run(script, arguments).lines().map(parsed).collect()
}

fn parsed(line: &str) -> Got {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// A client that goes on listening. What it prints is read at once, so that it never waits for the test.
pub struct Listener {
    child: Child,
    lines: Receiver<String>,
}

impl Listener {
    /// Returns once the script has printed `ready`.
    pub fn start(script: &str, arguments: &[&str]) -> Self {
        let mut child = command(script, arguments).stdout(Stdio::piped()).spawn().expect("Python starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let listener = Self { child, lines };
        assert_eq!(listener.line(), "ready");
        listener
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the client goes on and has something to say")
    }

    /// The next messages.
    pub fn take(&self, count: usize) -> Vec<Got> {
        (0..count).map(|_| parsed(&self.line())).collect()
    }

    /// Messages until so many different events have come.
    pub fn take_events(&self, count: usize) -> Vec<Got> {
        let (mut got, mut ids) = (Vec::<Got>::new(), BTreeSet::new());
        while ids.len() < count {
            got.extend(self.take(1));
            ids.extend(got.last().map(|message| message.id().to_owned()));
        }
        got
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Without the independent clients nothing is shown, so a test that needs them fails.
fn python() -> PathBuf {
    let python = tools().join("brokers/bin/python");
    assert!(python.exists(), "{} is missing; run  cargo xtask test  once, which makes it", python.display());
    python
}

/// What the tests' set-up has installed.
pub fn tools() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    target.join("tools")
}
