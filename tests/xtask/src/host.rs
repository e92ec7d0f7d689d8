//! The host as a process of its own, its tool, and a small HTTP server for it to post to.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{target_dir, workspace_root};

/// Bounds what fails; nothing that works waits for it.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn build() -> Result<()> {
    let mut cargo = crate::cargo();
    let status = cargo.args(["build", "--workspace", "--bins"]).current_dir(workspace_root()).status()?;
    if !status.success() {
        bail!("building the host failed with {status}");
    }
    Ok(())
}

pub fn program() -> PathBuf {
    target_dir().join("debug").join("outhaul")
}

/// Runs one command of the tool to its end.
pub fn outhaul(config: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program());
    let status = command.args(arguments).arg("--config").arg(config).status()?;
    if !status.success() {
        bail!("{command:?} failed with {status}");
    }
    Ok(())
}

/// Inserts one event of the topic `order.created`.
pub fn emit(config: &Path, id: &str, payload: &str) -> Result<()> {
    let file = config.with_file_name("event.json");
    std::fs::write(&file, payload)?;
    let file = file.to_str().context("the target folder's name is not UTF-8")?;
    outhaul(config, &["emit", "order.created", file, "--id", id])
}

pub struct Host {
    child: Child,
    pub log: PathBuf,
}

impl Host {
    /// Starts a host and waits until it is ready. `task` is what says so.
    pub fn start(task: &str, config: &Path) -> Result<Self> {
        let log = config.with_file_name("host.log");
        let file = File::create(&log)?;
        let mut command = Command::new(program());
        command.arg("run").arg("--config").arg(config);
        command.arg("--ready-file").arg(config.with_file_name("ready")).stdin(Stdio::null());
        let child = command.stdout(file.try_clone()?).stderr(file).spawn()?;
        println!("{task}: started the host, process {}; its log is {}", child.id(), log.display());
        let mut host = Self { child, log };
        // `emit` migrates nothing, so wait until the host has made the tables.
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

    pub fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            bail!("the host ended with {status}:\n{log}");
        }
        Ok(())
    }

    /// Asks the host to drain, as an operator would.
    pub fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id())?;
        // SAFETY: kill only takes numbers, and the process is our own child.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let status = self.child.wait()?;
        if !status.success() {
            bail!("the host ended with {status}; see {}", self.log.display());
        }
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What the receiver got of one event.
pub struct Delivery {
    pub id: String,
    pub signature: String,
    pub body: String,
}

/// A small HTTP server that answers 204 and passes on what it got.
pub fn start_receiver() -> Result<(u16, Receiver<Delivery>)> {
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
