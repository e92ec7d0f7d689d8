//! A network that loses Kafka's answers: a broker has stored what it was sent, and who sent it does not
//! hear of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The number of the requests that store records, at the begin of each.
const PRODUCE: [u8; 2] = [0, 0];

pub struct Lossy {
    accepting: JoinHandle<()>,
    left: Arc<AtomicUsize>,
}

impl Lossy {
    /// On this port, in front of that one. Of so many requests to store, the answer is lost and the
    /// connection with it.
    pub async fn start(port: u16, server: u16, losses: usize) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port was free");
        let left = Arc::new(AtomicUsize::new(losses));
        let shared = left.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((inside, _)) = listener.accept().await {
                let left = shared.clone();
                tokio::spawn(async move { pass(inside, server, left).await });
            }
        });
        Self { accepting, left }
    }

    pub fn losses_left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(inside: TcpStream, server: u16, left: Arc<AtomicUsize>) -> io::Result<()> {
    let (mut from_client, mut to_client) = inside.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(("127.0.0.1", server)).await?.into_split();
    let is_lost = AtomicBool::new(false);
    // Whichever ends first ends both: all halves are dropped.
    tokio::select! {
        result = requests(&mut from_client, &mut to_server, &left, &is_lost) => result,
        result = answers(&mut from_server, &mut to_client, &is_lost) => result,
    }
}

async fn requests(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    left: &AtomicUsize,
    is_lost: &AtomicBool,
) -> io::Result<()> {
    loop {
        let request = frame(from).await?;
        if request.starts_with(&PRODUCE) {
            let one_less = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            is_lost.store(one_less.is_ok(), Ordering::SeqCst);
        }
        write(to, &request).await?;
    }
}

async fn answers(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, is_lost: &AtomicBool) -> io::Result<()> {
    loop {
        let answer = frame(from).await?;
        if is_lost.load(Ordering::SeqCst) {
            return Ok(());
        }
        write(to, &answer).await?;
    }
}

/// Requests and answers alike: a length, and so many bytes.
async fn frame(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut frame = vec![0; length as usize];
    from.read_exact(&mut frame).await?;
    Ok(frame)
}

async fn write(to: &mut OwnedWriteHalf, frame: &[u8]) -> io::Result<()> {
    to.write_u32(frame.len() as u32).await?;
    to.write_all(frame).await
}
