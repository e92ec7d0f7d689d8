//! A MariaDB server of the tests' own: a data folder in a temporary folder, on a free port, stopped by
//! process id when the tests end.

use std::fs::File;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::postgres::{free_port, is_root, run, user_ids};
use crate::setup;

/// The user Debian's package makes; the server refuses to run as root.
const SERVER_USER: &str = "mysql";
const PATIENCE: Duration = Duration::from_secs(60);

/// Who tests connect as, over TCP.
const TESTER: &str =
    "create user outhaul@'%' identified by 'outhaul';\ngrant all on *.* to outhaul@'%' with grant option;\n";

/// A running server, stopped when dropped.
pub struct MariaDb {
    server: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl MariaDb {
    pub fn start() -> Result<Self> {
        let program = setup::mariadb()?;
        let folder = tempfile::Builder::new().prefix("outhaul-mariadb-").tempdir()?;
        let (data, init) = (folder.path().join("data"), folder.path().join("init.sql"));
        std::fs::create_dir(&data)?;
        std::fs::write(&init, TESTER)?;
        let mut user = Vec::new();
        if is_root() {
            let (uid, gid) = user_ids(SERVER_USER)?;
            for path in [folder.path(), &data, &init] {
                chown(path, Some(uid), Some(gid))?;
            }
            user.push(format!("--user={SERVER_USER}"));
        }
        let data_folder = format!("--datadir={}", data.display());
        run(Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg(&data_folder)
            .args(&user)
            .current_dir("/"))?;
        let port = free_port()?;
        let log = folder.path().join("log");
        let output = File::create(&log)?;
        let server = Command::new(&program)
            .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-log-bin", "--max-connections=300"])
            .args(["--innodb-flush-log-at-trx-commit=0", "--skip-name-resolve"])
            .args([data_folder, format!("--port={port}"), format!("--init-file={}", init.display())])
            .arg(format!("--socket={}", folder.path().join("socket").display()))
            .arg(format!("--pid-file={}", folder.path().join("pid").display()))
            .args(&user)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut started = Self { server, port, folder };
        started.wait_until_it_answers().with_context(|| {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            format!("the server's log:\n{text}")
        })?;
        println!("MariaDB: started process {} on 127.0.0.1:{port}", started.server.id());
        Ok(started)
    }

    /// Its greeting is the first thing it sends.
    fn wait_until_it_answers(&mut self) -> Result<()> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let greeting = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                stream.read_exact(&mut [0; 5])
            });
            if greeting.is_ok() {
                return Ok(());
            }
            if let Some(status) = self.server.try_wait()? {
                bail!("it ended with {status}");
            }
            if Instant::now() > patience {
                bail!("it did not answer within {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn url(&self) -> String {
        format!("mysql://outhaul:outhaul@127.0.0.1:{}/mysql", self.port)
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // The data is thrown away anyway.
        self.server.kill().ok();
        self.server.wait().ok();
        println!("MariaDB: stopped process {} ({})", self.server.id(), self.folder.path().display());
    }
}
