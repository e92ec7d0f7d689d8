//! Debian's `docker-registry`, on a free port and a folder of its own, and a push to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::tls::Identity;

pub const WASM: &str = "application/wasm";
pub const USER: &str = "reader";
pub const PASSWORD: &str = "right-password";
/// Of the password, by bcrypt, which is the only form this registry reads.
const PASSWORD_HASH: &str = "$2b$05$abcdefghijklmnopqrstuuBO.kmgTJhdt40M5ZyHgFmcpBdUb9aS.";

/// What else than plain HTTP for everybody a registry does.
#[derive(Default)]
pub struct Plan<'a> {
    /// The port it had before; else a free one.
    pub port: Option<u16>,
    pub wants_password: bool,
    pub tls: Option<&'a Identity>,
}

/// Stops when dropped. What was pushed stays in its folder.
pub struct Registry {
    child: Child,
    pub port: u16,
}

impl Registry {
    pub fn start(folder: &Path) -> Self {
        Self::start_as(folder, Plan::default())
    }

    pub fn start_as(folder: &Path, plan: Plan) -> Self {
        let file = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).expect("the registry's folder can be written");
            folder.join(name)
        };
        let mut http = json!({ "addr": format!("127.0.0.1:{}", plan.port.unwrap_or(0)), "secret": "any" });
        if let Some(identity) = plan.tls {
            let (cert, key) = (file("cert.pem", &identity.cert), file("key.pem", &identity.key));
            http["tls"] = json!({ "certificate": cert, "key": key });
        }
        let mut config = json!({
            "version": 0.1,
            "log": { "formatter": "json", "level": "info" },
            "storage": { "filesystem": { "rootdirectory": folder.join("data") } },
            "http": http,
        });
        if plan.wants_password {
            let users = file("users", &format!("{USER}:{PASSWORD_HASH}\n"));
            config["auth"] = json!({ "htpasswd": { "realm": "tests", "path": users } });
        }
        // JSON is YAML.
        let config = file("config.yml", &config.to_string());
        let mut child = Command::new("docker-registry")
            .arg("serve")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("docker-registry starts; `cargo xtask test` installs it");
        let port = port_of(BufReader::new(child.stderr.take().expect("its log is piped")));
        Self { child, port }
    }

    /// `host:port`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Pushes a component as its tools do; returns the manifest's digest.
    pub fn push(&self, repository: &str, tag: &str, component: &[u8]) -> String {
        let config = br#"{"architecture":"wasm","os":"wasip2"}"#;
        self.push_blob(repository, config);
        self.push_blob(repository, component);
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.wasm.config.v0+json", config),
            "layers": [descriptor(WASM, component)],
        });
        let manifest = manifest.to_string();
        let path = format!("/v2/{repository}/manifests/{tag}");
        let content_type = "application/vnd.oci.image.manifest.v1+json";
        let (status, _) = self.request("PUT", &path, content_type, manifest.as_bytes());
        assert_eq!(status, 201, "the manifest is taken");
        sha256(manifest.as_bytes())
    }

    fn push_blob(&self, repository: &str, blob: &[u8]) {
        let (status, head) =
            self.request("POST", &format!("/v2/{repository}/blobs/uploads/"), "text/plain", b"");
        assert_eq!(status, 202, "{head}");
        let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).expect("a place");
        let path =
            location.trim().strip_prefix(&format!("http://{}", self.host())).expect("of this registry");
        let path = format!("{path}&digest=sha256:{}", sha256(blob));
        let (status, head) = self.request("PUT", &path, "application/octet-stream", blob);
        assert_eq!(status, 201, "{head}");
    }

    /// Status and head of the answer.
    fn request(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.host()).expect("the registry answers");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: {content_type}\r\n\
             content-length: {}\r\n\r\n",
            self.host(),
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the answer is text");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, answer)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A registry says where it listens once it does. What it says later must be read, too.
fn port_of(mut log: impl BufRead + Send + 'static) -> u16 {
    let mut said = String::new();
    loop {
        let mut line = String::new();
        let bytes = log.read_line(&mut line).expect("the registry's log is text");
        assert!(bytes > 0, "the registry ended:\n{said}");
        said += &line;
        let message = serde_json::from_str::<Value>(&line)
            .ok()
            .and_then(|record| record["msg"].as_str().map(str::to_owned));
        let port = message.as_deref().and_then(|message| message.strip_prefix("listening on 127.0.0.1:"));
        if let Some(port) = port {
            let port = port.split(',').next().and_then(|port| port.parse().ok()).expect("a port");
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return port;
        }
    }
}

/// A part of a manifest.
pub fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len() })
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
