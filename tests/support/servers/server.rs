//! A broker's own process: started on a free port, and killed, paused and restarted by its id.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Bounds a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

type MakeCommand = Box<dyn Fn(&Path, u16) -> Command + Send + Sync>;

pub struct Server {
    pub port: u16,
    /// Data, config and log.
    pub folder: TempDir,
    command: MakeCommand,
    child: Child,
}

impl Server {
    /// Starts what `command` makes of a folder and a port, and waits until the port is open.
    pub fn start(command: impl Fn(&Path, u16) -> Command + Send + Sync + 'static) -> Self {
        Self::start_in(tempfile::tempdir().expect("a temporary folder"), command)
    }

    pub fn start_in(
        folder: TempDir,
        command: impl Fn(&Path, u16) -> Command + Send + Sync + 'static,
    ) -> Self {
        let port = free_port();
        let child = spawn(&mut command(folder.path(), port), folder.path());
        let mut server = Self { port, folder, command: Box::new(command), child };
        server.wait_until_open();
        server
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn wait_until_open(&mut self) {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let patience = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.child.try_wait().expect("the server is ours") {
                panic!("the server ended with {status}:\n{}", self.log());
            }
            assert!(Instant::now() < patience, "the server does not listen:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server is ours to kill");
        self.child.wait().expect("the server has ended");
    }

    /// In good order, so that it writes what it still has to.
    pub fn terminate(&mut self) {
        self.signal(libc::SIGTERM);
        // One that stands still hears it when it goes on.
        self.resume();
        self.child.wait().expect("the server ends");
    }

    /// Again, on the same port and data.
    pub fn restart(&mut self) {
        self.child = spawn(&mut (self.command)(self.folder.path(), self.port), self.folder.path());
        self.wait_until_open();
    }

    /// Stops its clock: its connections stay open and say nothing.
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        // SAFETY: kill only takes numbers, and the process is our own child that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

fn spawn(command: &mut Command, folder: &Path) -> Child {
    let log =
        std::fs::File::options().create(true).append(true).open(folder.join("server.log")).expect("a log");
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Free a moment ago, which has to do for a server that can't be handed a socket.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// A server's program: Debian keeps some out of users' `PATH`.
pub fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing; run  cargo xtask test  once, which installs it"))
}

/// Prints what the server says of its version, once a run.
pub fn print_version(name: &str, argument: &str) {
    let output = Command::new(program(name)).arg(argument).output().expect("the program starts");
    println!("{}", String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default());
}
