//! The brokers that are one program and its config: NATS, Redis and Mosquitto.

use std::path::Path;
use std::process::Command;

use super::{Server, print_version, program};

/// With JetStream.
pub fn nats(config: &'static str) -> Server {
    print_version("nats-server", "--version");
    Server::start(move |folder: &Path, port| {
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\" }}\n{config}",
            folder.display()
        );
        let file = folder.join("nats.conf");
        std::fs::write(&file, text).expect("the folder can be written");
        let mut command = Command::new(program("nats-server"));
        command.arg("--config").arg(file);
        command
    })
}

/// What it confirms is on disk.
pub fn redis(options: &'static [&'static str]) -> Server {
    print_version("redis-server", "--version");
    Server::start(move |folder: &Path, port| {
        let mut command = Command::new(program("redis-server"));
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", ""]);
        command
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .arg("--dir")
            .arg(folder)
            .args(options);
        command
    })
}

/// Keeps what it confirmed, for any number of messages.
pub fn mosquitto(config: &'static str) -> Server {
    print_version("mosquitto", "-h");
    Server::start(move |folder: &Path, port| {
        let text = format!(
            "listener {port} 127.0.0.1\nuser root\npersistence true\npersistence_location {}/\n\
             max_queued_messages 0\nmax_queued_bytes 0\nmax_inflight_messages 50\n{}\n",
            folder.display(),
            config.replace("FOLDER", &folder.display().to_string())
        );
        let file = folder.join("mosquitto.conf");
        std::fs::write(&file, text).expect("the folder can be written");
        let mut command = Command::new(program("mosquitto"));
        command.arg("-c").arg(file);
        command
    })
}
