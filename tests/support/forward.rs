//! Stands between a host and a database server, and fails as networks do: at once, or at a word of the
//! client's.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Stops when dropped.
pub struct Forward {
    login: String,
    server: String,
    path: String,
    port: u16,
    /// What happens at which word of the client.
    plan: Plan,
    /// Connections live as long as this says so.
    life: watch::Sender<u64>,
    accepts: Mutex<Option<AbortHandle>>,
}

type Plan = Arc<Mutex<Option<(Vec<u8>, Fault)>>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The word arrives, and then the connection is gone.
    Cut,
    /// The word arrives, and no answer ever comes back.
    Stall,
}

impl Forward {
    /// Passes everything on, for now.
    pub async fn start(url: &str) -> Self {
        let (login, address) = url.split_once('@').expect("a user");
        let (server, path) = address.split_once('/').expect("a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (login, server, path) = (login.to_owned(), server.to_owned(), path.to_owned());
        let (plan, life) = (Arc::default(), watch::Sender::new(0));
        let forward = Self { login, server, path, port, plan, life, accepts: Mutex::default() };
        forward.accept(listener);
        forward
    }

    /// As a client writes it: without TLS, so that its words can be seen.
    pub fn url(&self) -> String {
        let parameter = if self.login.starts_with("mysql") { "ssl-mode=disabled" } else { "sslmode=disable" };
        format!("{}@127.0.0.1:{}/{}?{parameter}", self.login, self.port, self.path)
    }

    /// Ends all connections and refuses new ones.
    pub async fn cut(&self) {
        if let Some(accepts) = self.accepts.lock().expect("not poisoned").take() {
            accepts.abort();
        }
        self.life.send_modify(|life| *life += 1);
        // Until nothing listens there any more.
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    /// Passes everything on again, for new connections.
    pub async fn mend(&self) {
        *self.plan.lock().expect("not poisoned") = None;
        self.life.send_modify(|life| *life += 1);
        let is_cut = self.accepts.lock().expect("not poisoned").is_none();
        if is_cut {
            self.accept(TcpListener::bind(("127.0.0.1", self.port)).await.expect("the port is still free"));
        }
    }

    pub fn cut_at(&self, word: &str) {
        *self.plan.lock().expect("not poisoned") = Some((word.as_bytes().to_vec(), Fault::Cut));
    }

    pub fn stall_at(&self, word: &str) {
        *self.plan.lock().expect("not poisoned") = Some((word.as_bytes().to_vec(), Fault::Stall));
    }

    fn accept(&self, listener: TcpListener) {
        let (server, plan, life) = (self.server.clone(), self.plan.clone(), self.life.subscribe());
        let accepts = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(&server).await else { continue };
                tokio::spawn(pass(client, upstream, plan.clone(), life.clone()));
            }
        });
        *self.accepts.lock().expect("not poisoned") = Some(accepts.abort_handle());
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        if let Some(accepts) = self.accepts.lock().expect("not poisoned").take() {
            accepts.abort();
        }
    }
}

async fn pass(client: TcpStream, server: TcpStream, plan: Plan, mut life: watch::Receiver<u64>) {
    life.mark_unchanged();
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let (stall, stalled) = watch::channel(false);
    let up = up(from_client, to_server, plan, stall);
    let down = async {
        let mut bytes = vec![0; 16 << 10];
        while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
            let mut stalled = stalled.clone();
            // Whoever stalls never says that it is over.
            if stalled.wait_for(|stalled| !stalled).await.is_err()
                || to_client.write_all(&bytes[..read]).await.is_err()
            {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
        _ = life.changed() => {}
    }
}

/// Returns when the connection is to end.
async fn up(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, plan: Plan, stall: watch::Sender<bool>) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        let fault = plan.lock().expect("not poisoned").as_ref().and_then(|(word, fault)| {
            bytes[..read].windows(word.len()).any(|part| part == word).then_some(*fault)
        });
        if fault == Some(Fault::Stall) {
            stall.send_replace(true);
        }
        if to.write_all(&bytes[..read]).await.is_err() || fault == Some(Fault::Cut) {
            return;
        }
    }
}
