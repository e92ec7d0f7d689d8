//! Signatures of webhooks, judged by libraries that know nothing of Outhaul. `cargo xtask test` makes
//! the environment they live in.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

/// A request as a receiver got it.
#[derive(Clone, Debug)]
pub struct Request {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Request {
    fn to_json_line(&self) -> String {
        let headers: serde_json::Map<String, serde_json::Value> = self
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().expect("a header in ASCII").into()))
            .collect();
        serde_json::json!({ "headers": headers, "body": STANDARD.encode(&self.body) }).to_string()
    }
}

/// `--hmac whsec_…` or `--ed25519 BASE64` for each key that must verify.
pub fn arguments(flag: &str, keys: &[&str]) -> Vec<String> {
    keys.iter().flat_map(|key| [flag.to_owned(), key.to_string()]).collect()
}

/// Every request verifies under every key.
pub fn assert_verified(requests: &[Request], arguments: &[String]) {
    let output = verify(requests, arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    assert_eq!(text.trim(), format!("verified {} requests", requests.len()), "{complaints}");
}

/// No request verifies.
pub fn assert_refused(requests: &[Request], arguments: &[String]) {
    let output = verify(requests, arguments);
    let complaints = String::from_utf8_lossy(&output.stderr);
    let expected = format!("{n} of {n} requests do not verify", n = requests.len());
    assert!(!output.status.success() && complaints.contains(&expected), "{complaints}");
}

fn verify(requests: &[Request], arguments: &[String]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("verifiers/standard_webhooks.py");
    let mut child = Command::new(python())
        .arg(script)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut input = child.stdin.take().expect("a pipe");
    for request in requests {
        writeln!(input, "{}", request.to_json_line()).expect("the verifier reads");
    }
    drop(input);
    child.wait_with_output().expect("the verifier ends")
}

/// Without the independent libraries nothing is shown, so a test that needs them fails.
fn python() -> PathBuf {
    let folder = std::env::var_os("OUTHAUL_VERIFIERS").map(PathBuf::from).unwrap_or_else(|| {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace");
        workspace.join("target/verifiers")
    });
    let python = folder.join("bin/python");
    assert!(python.exists(), "{} is missing; run  cargo xtask test  once, which makes it", python.display());
    python
}
