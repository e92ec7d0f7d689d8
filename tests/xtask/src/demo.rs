//! `cargo xtask demo`: the main job on the embedded default, from an empty folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::host::{self, Delivery, Host, PATIENCE, outhaul, program, start_receiver};
use crate::{guests, target_dir};

const EVENTS: usize = 10;

pub fn run(once: bool) -> Result<()> {
    println!("demo: building the plugins and the host (the first build takes several minutes)");
    let guest_folder = guests::build_all()?;
    host::build()?;

    let folder = target_dir().join("demo");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder)?;
    let (port, received) = start_receiver()?;
    let config = write_config(&folder, &guest_folder, port)?;
    println!("demo: the config is {}", config.display());

    let mut host = Host::start("demo", &config)?;
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
        host.stop()?;
        println!("demo: the host drained and stopped");
        return Ok(());
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

fn emit(config: &Path, number: usize) -> Result<String> {
    let id = format!("order-{number}");
    host::emit(config, &id, &format!(r#"{{"order":{number},"total":"{}.00"}}"#, number * 10))?;
    Ok(id)
}
