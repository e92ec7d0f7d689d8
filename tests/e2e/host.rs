//! A host process: started from the built program, waited for by its own words, killed by its id.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

/// Bounds a test that fails; nothing that works waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let path = test.ancestors().nth(2).expect("tests are built into target/PROFILE/deps").join("outhaul");
    assert!(path.is_file(), "{} is missing; build it with  cargo build --bins", path.display());
    path
}

/// Runs one command of the tool to its end.
pub fn outhaul(config: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).arg("--config").arg(config).stdin(Stdio::null());
    command.output().expect("the program starts")
}

pub fn outhaul_json(config: &Path, arguments: &[&str]) -> Value {
    let output = outhaul(config, arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{arguments:?}: {error}: {text} {}", String::from_utf8_lossy(&output.stderr))
    })
}

pub struct Host {
    child: Child,
    /// `http://ADDRESS` of its server.
    pub base: String,
    records: Receiver<Value>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Host {
    /// Starts a host and waits until it says that it is ready.
    pub fn start(config: &Path) -> Self {
        let mut host = Self::start_without_waiting(config);
        let ready = host.wait_for_record("ready");
        host.base =
            format!("http://{}", ready["fields"]["listen"].as_str().expect("ready names its address"));
        host
    }

    pub fn start_without_waiting(config: &Path) -> Self {
        Self::start_as(Command::new(program()), config)
    }

    /// The program as the command starts it.
    pub fn start_as(mut command: Command, config: &Path) -> Self {
        command.arg("run").arg("--config").arg(config).args(["--log-format", "json"]);
        command.env_remove("OUTHAUL_LOG").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the host starts");
        let stderr = child.stderr.take().expect("its log is piped");
        let (sender, records) = channel();
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Ok(record) = serde_json::from_str(&line) {
                    sender.send(record).ok();
                }
                kept.lock().expect("not poisoned").push(line);
            }
        });
        Self { child, base: String::new(), records, log }
    }

    /// The next log record with this message.
    pub fn wait_for_record(&mut self, message: &str) -> Value {
        loop {
            match self.records.recv_timeout(PATIENCE) {
                Ok(record) if record["fields"]["message"] == message => return record,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => panic!("no {message:?} in the host's log:\n{}", self.log()),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait();
                    panic!("the host ended ({status:?}) before {message:?}:\n{}", self.log());
                }
            }
        }
    }

    pub fn log(&self) -> String {
        self.log.lock().expect("not poisoned").join("\n")
    }

    /// `kill -9`: nothing of the host runs after this returns.
    pub fn kill(mut self) {
        self.child.kill().expect("the host is ours to kill");
        self.child.wait().expect("the host has ended");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks for a reload.
    pub fn hang_up(&self) {
        self.signal(libc::SIGHUP);
    }

    /// Waits until a destination runs this generation.
    pub fn wait_for_generation(&mut self, destination: &str, generation: u64) -> Value {
        loop {
            let record = self.wait_for_record("the destination has a new generation");
            if record["fields"]["destination"] == destination && record["fields"]["generation"] == generation
            {
                return record;
            }
        }
    }

    pub fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: kill only takes numbers, and the process is our own child that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("the host ends")
    }

    /// Drains, and shows the log if that fails.
    pub fn stop(mut self) {
        self.terminate();
        let status = self.child.wait().expect("the host ends");
        assert!(status.success(), "{status}:\n{}", self.log());
    }

    /// Status and body of a GET on the host's server.
    pub async fn get(&self, path: &str) -> (u16, String) {
        self.get_with(path, "").await
    }

    /// The same with further header lines, each ended by CR LF.
    pub async fn get_with(&self, path: &str, headers: &str) -> (u16, String) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let address = self.base.strip_prefix("http://").expect("the host is ready");
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("the server answers");
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.expect("the request is sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("the response is text");
        let (head, body) = response.split_once("\r\n\r\n").expect("a response has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, body.to_owned())
    }

    /// `/readyz` with its status.
    pub async fn readiness(&self) -> (u16, Value) {
        let (status, body) = self.get("/readyz").await;
        // The body may come in chunks; the JSON is what lies between the braces.
        let json = body.find('{').zip(body.rfind('}')).map(|(from, to)| &body[from..=to]).unwrap_or_default();
        (status, serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {body}")))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("the host's log:\n{}", self.log());
        }
    }
}
