//! `cargo xtask demo`: the main job on the embedded default, from an empty folder.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{guests, target_dir, workspace_root};

const EVENTS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);

pub fn run(once: bool) -> Result<()> {
    println!("demo: building the plugins and the host (the first build takes several minutes)");
    let guest_folder = guests::build_all()?;
    build_host()?;

    let folder = target_dir().join("demo");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder)?;
    let (port, received) = start_receiver()?;
    let config = write_config(&folder, &guest_folder, port)?;
    println!("demo: the config is {}", config.display());

    let mut host = Host::start(&config)?;
    println!("demo: emitting {EVENTS} events");
    let mut missing = BTreeSet::new();
    for number in 1..=EVENTS {
        missing.insert(emit(&config, number)?);
    }
    let patience = Instant::now() + PATIENCE;
    while !missing.is_empty() {
        host.check_alive()?;
        let Ok(delivery) = received.recv_timeout(Duration::from_millis(200)) else {
            if Instant::now() > patience {
                bail!(
                    "{} events were not delivered in {PATIENCE:?}; see {}",
                    missing.len(),
                    host.log.display()
                );
            }
            continue;
        };
        println!("demo: the receiver got {} ({})", delivery.id, delivery.signature);
        missing.remove(&delivery.id);
    }
    println!("demo: all {EVENTS} events were delivered and signed");
    outhaul(&config, &["status"])?;
    if once {
        return host.stop();
    }
    keep_running(&config, &mut host, &received)
}

/// Leaves the host and the receiver running for the person to play with.
fn keep_running(config: &Path, host: &mut Host, received: &Receiver<Delivery>) -> Result<()> {
    let program = program().display().to_string();
    println!("\ndemo: running until Ctrl-C. In another terminal, try:");
    println!("  echo '{{\"n\":1}}' | {program} emit order.created - --config {}", config.display());
    println!("  {program} status --config {}", config.display());
    println!(
        "  sqlite3 {} \"insert into outbox_event (event_id, topic, payload) values ('by-hand', 'order.created', '{{}}')\"",
        config.with_file_name("outhaul.db").display()
    );
    loop {
        host.check_alive()?;
        if let Ok(delivery) = received.recv_timeout(Duration::from_millis(200)) {
            println!("demo: the receiver got {} ({}): {}", delivery.id, delivery.signature, delivery.body);
        }
    }
}

struct Delivery {
    id: String,
    signature: String,
    body: String,
}

/// A small HTTP server that answers 204 and passes on what it got.
fn start_receiver() -> Result<(u16, Receiver<Delivery>)> {
    let server = tiny_http::Server::http("127.0.0.1:0").map_err(|error| anyhow::anyhow!("{error}"))?;
    let port = server.server_addr().to_ip().context("the receiver has no IP address")?.port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for mut request in server.incoming_requests() {
            let header = |name: &'static str| {
                let found = request.headers().iter().find(|header| header.field.equiv(name));
                found.map(|header| header.value.to_string()).unwrap_or_default()
            };
            let (id, signature) = (header("webhook-id"), header("webhook-signature"));
            let mut body = String::new();
            request.as_reader().read_to_string(&mut body).ok();
            request.respond(tiny_http::Response::empty(204)).ok();
            if sender.send(Delivery { id, signature, body }).is_err() {
                return;
            }
        }
    });
    Ok((port, receiver))
}

fn write_config(folder: &Path, guests: &Path, port: u16) -> Result<PathBuf> {
    // Any 24 bytes will do for a demo; a real one is made with `openssl rand -base64 24`.
    std::fs::write(folder.join("signing.key"), "whsec_b3V0aGF1bC1kZW1vLXNpZ25pbmcta2V5\n")?;
    let origin = format!("http://127.0.0.1:{port}");
    let config = format!(
        r#"version = 1

[outbox]
url = "sqlite:outhaul.db"

[server]
listen = "127.0.0.1:0"

[destination.webhook]
component = "{http}"
topics = ["order.*"]
settings = {{ url = "{origin}/orders", signing = {{ secret = "signing" }} }}

[[destination.webhook.http]]
origin = "{origin}"
private = true            # the receiver is on this machine

[destination.webhook.secrets.signing]
keys = [{{ file = "signing.key" }}]
use = ["hmac-sha256"]

[destination.log]
component = "{log}"
topics = ["*"]
"#,
        http = guests.join("http.wasm").display(),
        log = guests.join("log.wasm").display(),
    );
    let path = folder.join("outhaul.toml");
    std::fs::write(&path, config)?;
    Ok(path)
}

fn build_host() -> Result<()> {
    let mut cargo = crate::cargo();
    let status = cargo.args(["build", "--workspace", "--bins"]).current_dir(workspace_root()).status()?;
    if !status.success() {
        bail!("building the host failed with {status}");
    }
    Ok(())
}

fn program() -> PathBuf {
    target_dir().join("debug").join("outhaul")
}

fn outhaul(config: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program());
    let status = command.args(arguments).arg("--config").arg(config).status()?;
    if !status.success() {
        bail!("{command:?} failed with {status}");
    }
    Ok(())
}

fn emit(config: &Path, number: usize) -> Result<String> {
    let id = format!("order-{number}");
    let payload = config.with_file_name("event.json");
    std::fs::write(&payload, format!(r#"{{"order":{number},"total":"{}.00"}}"#, number * 10))?;
    let payload = payload.to_str().context("the target folder's name is not UTF-8")?;
    outhaul(config, &["emit", "order.created", payload, "--id", &id])?;
    Ok(id)
}

struct Host {
    child: Child,
    log: PathBuf,
}

impl Host {
    fn start(config: &Path) -> Result<Self> {
        let log = config.with_file_name("host.log");
        let file = File::create(&log)?;
        let mut command = Command::new(program());
        command.arg("run").arg("--config").arg(config);
        command.arg("--ready-file").arg(config.with_file_name("ready")).stdin(Stdio::null());
        let child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        println!("demo: started the host, process {}; its log is {}", child.id(), log.display());
        let mut host = Self { child, log };
        // `emit` below migrates nothing, so wait until the host has made the tables.
        let patience = Instant::now() + PATIENCE;
        while !config.with_file_name("ready").exists() {
            host.check_alive()?;
            if Instant::now() > patience {
                bail!("the host was not ready in {PATIENCE:?}; see {}", host.log.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(host)
    }

    fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            bail!("the host ended with {status}:\n{log}");
        }
        Ok(())
    }

    /// Asks the host to drain, as an operator would.
    fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id())?;
        // SAFETY: kill only takes numbers, and the process is our own child.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the host ended with {status}; see {}", self.log.display());
        }
        println!("demo: the host drained and stopped");
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
