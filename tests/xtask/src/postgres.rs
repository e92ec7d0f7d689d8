//! A PostgreSQL server of the tests' own: a fresh cluster in a temporary folder on a free port,
//! stopped by process id when the tests end.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::setup;

/// A running server, stopped when dropped.
pub struct Postgres {
    pid: i32,
    port: u16,
    folder: tempfile::TempDir,
}

/// PostgreSQL refuses to run as root; then its processes run as the user Debian's package makes.
const SERVER_USER: &str = "postgres";

impl Postgres {
    pub fn start() -> Result<Self> {
        let bin = setup::postgres_bin()?;
        let folder = tempfile::Builder::new().prefix("outhaul-postgres-").tempdir()?;
        let data = folder.path().join("data");
        if is_root() {
            let (uid, gid) = user_ids(SERVER_USER)?;
            chown(folder.path(), Some(uid), Some(gid))?;
        }
        run(as_server_user(&bin.join("initdb")).arg("-D").arg(&data).args([
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        ]))?;
        let port = free_port()?;
        let options = format!(
            "-p {port} -k {} -c listen_addresses=127.0.0.1 -c max_connections=300 -c shared_buffers=256MB \
             -c max_prepared_transactions=10",
            folder.path().display()
        );
        run(as_server_user(&bin.join("pg_ctl"))
            .arg("-D")
            .arg(&data)
            .arg("-l")
            .arg(folder.path().join("log"))
            .args(["-w", "-t", "60", "-o", &options, "start"]))
        .with_context(|| format!("the server's log is {}", folder.path().join("log").display()))?;
        let pid = server_pid(&data)?;
        println!("PostgreSQL: started process {pid} on 127.0.0.1:{port}");
        Ok(Self { pid, port, folder })
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT is PostgreSQL's immediate shutdown: the data is thrown away anyway.
        // SAFETY: kill only takes numbers; the process id is the one the server wrote itself.
        unsafe { libc::kill(self.pid, libc::SIGQUIT) };
        let patience = Instant::now() + Duration::from_secs(10);
        while Path::new(&format!("/proc/{}", self.pid)).exists() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("PostgreSQL: stopped process {} ({})", self.pid, self.folder.path().display());
    }
}

fn server_pid(data: &Path) -> Result<i32> {
    let file = data.join("postmaster.pid");
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let first = text.lines().next().unwrap_or_default();
    first.trim().parse().with_context(|| format!("{} does not begin with a process id", file.display()))
}

pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and can't fail.
    unsafe { libc::geteuid() == 0 }
}

pub fn user_ids(name: &str) -> Result<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd")?;
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name));
    let Some(line) = line else {
        bail!("there is no user `{name}` to run its server as; install Debian's package of it");
    };
    let mut fields = line.split(':').skip(2).map(str::parse::<u32>);
    match (fields.next(), fields.next()) {
        (Some(Ok(uid)), Some(Ok(gid))) => Ok((uid, gid)),
        _ => bail!("/etc/passwd has no numbers for `{name}`"),
    }
}

fn as_server_user(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={SERVER_USER}")).arg(format!("--regid={SERVER_USER}"));
        command.arg("--clear-groups").arg(program);
        command
    } else {
        Command::new(program)
    };
    // The server must not inherit a folder its user can't read.
    command.current_dir("/");
    command
}

pub fn run(command: &mut Command) -> Result<()> {
    // To a file, not a pipe: the server keeps pg_ctl's output open, and a pipe would never end.
    let log = tempfile::tempfile()?;
    let status = command.stdout(log.try_clone()?).stderr(log.try_clone()?).status();
    let status = status.with_context(|| format!("starting {command:?}"))?;
    if status.success() {
        return Ok(());
    }
    use std::io::{Read, Seek};
    let (mut log, mut text) = (log, String::new());
    log.rewind()?;
    log.read_to_string(&mut text)?;
    bail!("{command:?} failed with {status}:\n{text}");
}
