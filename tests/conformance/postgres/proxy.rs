//! Stands between a store and its server, and fails as networks and poolers do.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct Proxy {
    url: String,
    stalled: watch::Sender<bool>,
}

impl Proxy {
    /// Passes everything on, until it is told to stall.
    pub async fn open(url: &str) -> Self {
        Self::start(url, false).await
    }

    /// Passes everything on but notifications, as a transaction pooler does.
    pub async fn without_notifications(url: &str) -> Self {
        Self::start(url, true).await
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on the server's answers wait.
    pub fn stall(&self) {
        self.stalled.send_replace(true);
    }

    pub fn resume(&self) {
        self.stalled.send_replace(false);
    }

    async fn start(url: &str, is_deaf: bool) -> Self {
        let (login, address) = url.split_once('@').expect("a user");
        let (server, path) = address.split_once('/').expect("a database");
        let server = server.to_owned();
        let proxy = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let port = proxy.local_addr().expect("address").port();
        let stalled = watch::Sender::new(false);
        let gate = stalled.subscribe();
        tokio::spawn(async move {
            loop {
                let (client, _) = proxy.accept().await.expect("accept");
                let upstream = TcpStream::connect(&server).await.expect("connect to the server");
                let (mut from_client, to_client) = client.into_split();
                let (from_server, mut to_server) = upstream.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
                tokio::spawn(pass(from_server, to_client, is_deaf, gate.clone()));
            }
        });
        Self { url: format!("{login}@127.0.0.1:{port}/{path}?sslmode=disable"), stalled }
    }
}

/// Each message of the server is a type, a length that counts itself, and a body.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    is_deaf: bool,
    mut gate: watch::Receiver<bool>,
) -> std::io::Result<()> {
    const NOTIFICATION: u8 = b'A';
    loop {
        let mut head = [0; 5];
        from.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        from.read_exact(&mut body).await?;
        gate.wait_for(|stalled| !stalled).await.map_err(std::io::Error::other)?;
        if !(is_deaf && head[0] == NOTIFICATION) {
            to.write_all(&head).await?;
            to.write_all(&body).await?;
        }
    }
}
