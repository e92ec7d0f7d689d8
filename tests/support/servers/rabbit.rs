//! RabbitMQ's own process, and the port mapper that Erlang wants beside it.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Server, free_port, program};
use crate::clients::{self, Got};

const CLIENT: &str = "amqp_client.py";
/// Where Debian keeps what its wrapper starts as another user.
const PROGRAMS: &str = "/usr/lib/rabbitmq/bin";

/// A node of its own: no other may join or be joined by it.
pub struct Rabbit {
    // Stopped before its mapper.
    server: Server,
    mapper: Mapper,
}

/// Erlang would start one that outlives the test.
struct Mapper {
    port: u16,
    child: Child,
}

impl Mapper {
    fn start() -> Self {
        let port = free_port();
        let mut command = Command::new(program("epmd"));
        command.args(["-address", "127.0.0.1", "-port", &port.to_string()]).stdin(Stdio::null());
        Self { port, child: command.spawn().expect("epmd starts") }
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Rabbit {
    pub fn start() -> Self {
        Self::with("")
    }

    /// With further lines of its config.
    pub fn with(config: &'static str) -> Self {
        Self::listening(tempfile::tempdir().expect("a temporary folder"), move |_, port| {
            format!("listeners.tcp.1 = 127.0.0.1:{port}\n{config}")
        })
    }

    /// With a config made of its folder and port.
    pub fn listening(
        folder: tempfile::TempDir,
        config: impl Fn(&Path, u16) -> String + Send + Sync + 'static,
    ) -> Self {
        let mapper = Mapper::start();
        let (mapper_port, distribution) = (mapper.port, free_port());
        let server = Server::start_in(folder, move |folder, port| {
            let text = config(folder, port);
            let common = "distribution.listener.interface = 127.0.0.1\nlog.console = true\nlog.console.level = info\n\
                          log.file = false\nvm_memory_high_watermark.relative = 0.9\ndisk_free_limit.absolute = 1MB\n";
            std::fs::write(folder.join("rabbitmq.conf"), text + common).expect("the folder can be written");
            let mut command = command("rabbitmq-server", folder, port, mapper_port);
            command
                .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
                .env("RABBITMQ_LOG_BASE", folder.join("log"))
                .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
                .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
                .env("RABBITMQ_DIST_PORT", distribution.to_string())
                // Else its script stays before it, and would be killed in its place.
                .env("RABBITMQ_ALLOW_INPUT", "1")
                .env("RABBITMQ_SERVER_START_ARGS", "-noinput")
                .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+sbwt none")
                .env("ERL_CRASH_DUMP_BYTES", "0");
            command
        });
        let rabbit = Self { server, mapper };
        let log = rabbit.server.log();
        let version = log.split("Starting ").find(|text| text.starts_with("RabbitMQ "));
        println!("{}", version.and_then(|text| text.split(" [").next()).expect("it says its version"));
        rabbit
    }

    /// `rabbitmqctl`.
    pub fn control(&self, words: &[&str]) {
        let folder = self.server.folder.path();
        let output = command("rabbitmqctl", folder, self.server.port, self.mapper.port).args(words).output();
        let output = output.expect("rabbitmqctl starts");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn client(&self, words: &[&str]) -> String {
        clients::run(CLIENT, &[&[self.server.port.to_string().as_str()], words].concat())
    }

    /// What is in the queue, which is empty afterwards.
    pub fn read(&self, queue: &str) -> Vec<Got> {
        clients::read(CLIENT, &[&self.server.port.to_string(), "read", queue])
    }
}

fn command(name: &str, folder: &Path, port: u16, mapper: u16) -> Command {
    let path = PathBuf::from(PROGRAMS).join(name);
    assert!(path.is_file(), "{} is missing; run  cargo xtask test  once, which installs it", path.display());
    let mut command = Command::new(path);
    command
        .stdin(Stdio::null())
        .env("HOME", folder)
        .env("RABBITMQ_CONF_ENV_FILE", folder.join("none.conf"))
        .env("RABBITMQ_NODENAME", format!("outhaul-{port}@localhost"))
        .env("ERL_EPMD_PORT", mapper.to_string())
        .env("ERL_EPMD_ADDRESS", "127.0.0.1");
    command
}

impl Deref for Rabbit {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl DerefMut for Rabbit {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}
