//! HTTP servers that do as they are told, byte by byte: raw listeners, because a proper server
//! would refuse to misbehave.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    /// All values of a header.
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(found, _)| found == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// These bytes, and the connection is kept.
    Bytes(Vec<u8>),
    /// These bytes, and the connection is closed; it is open until the other side has seen that.
    BytesThenClose(Vec<u8>),
    /// These bytes, then the piece again and again until the other side goes away.
    Endless(Vec<u8>, Vec<u8>),
    /// These bytes, then nothing, ever.
    BytesThenSilence(Vec<u8>),
    Close,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self::with_headers(status, &[], b"")
    }

    pub fn with_headers(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        Self::Bytes([head.as_bytes(), b"\r\n", body].concat())
    }
}

/// Stops when dropped.
pub struct Server {
    pub address: SocketAddr,
    log: Arc<Log>,
    accepting: AbortHandle,
}

#[derive(Default)]
struct Log {
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    open_most: AtomicUsize,
    closed: Notify,
}

impl Server {
    /// Answers every request by `script`, which is also told how many came before.
    pub async fn start(script: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::accept(script, None).await
    }

    /// The same behind TLS.
    pub async fn start_tls(
        tls: tokio_rustls::TlsAcceptor,
        script: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::accept(script, Some(tls)).await
    }

    /// Answers with these replies in turn, then with 500.
    pub async fn start_with(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = Mutex::new(replies.into_iter().collect::<VecDeque<_>>());
        Self::start(move |_, _| replies.lock().unwrap().pop_front().unwrap_or_else(|| Reply::status(500)))
            .await
    }

    async fn accept(
        script: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let log = Arc::new(Log::default());
        let script: Arc<Script> = Arc::new(script);
        let accepting = {
            let log = log.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let connection = Connection { log: log.clone(), script: script.clone() };
                    tokio::spawn(connection.serve(stream, tls.clone()));
                }
            })
        };
        Self { address, log, accepting: accepting.abort_handle() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        self.log.received.lock().unwrap().clone()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }

    /// The most that were open at once.
    pub fn open_most(&self) -> usize {
        self.log.open_most.load(Ordering::SeqCst)
    }

    /// Waits until the other side has let go of every connection.
    pub async fn all_closed(&self) {
        while self.open() > 0 {
            self.log.closed.notified().await;
        }
    }

    pub fn open(&self) -> usize {
        self.log.open.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

type Script = dyn Fn(&Received, usize) -> Reply + Send + Sync;

struct Connection {
    log: Arc<Log>,
    script: Arc<Script>,
}

impl Connection {
    async fn serve(self, stream: tokio::net::TcpStream, tls: Option<tokio_rustls::TlsAcceptor>) {
        self.log.connections.fetch_add(1, Ordering::SeqCst);
        let open = self.log.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.log.open_most.fetch_max(open, Ordering::SeqCst);
        // How the other side ends a connection is what tests look at, not an error here.
        let _ = match tls {
            None => self.exchange(stream).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => self.exchange(stream).await,
                Err(error) => Err(error),
            },
        };
        self.log.open.fetch_sub(1, Ordering::SeqCst);
        self.log.closed.notify_one();
    }

    async fn exchange(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
        let mut buffer = Vec::new();
        while let Some(request) = read_request(&mut stream, &mut buffer).await? {
            let before = {
                let mut received = self.log.received.lock().unwrap();
                received.push(request.clone());
                received.len() - 1
            };
            match (self.script)(&request, before) {
                Reply::Bytes(bytes) => stream.write_all(&bytes).await?,
                Reply::BytesThenClose(bytes) => {
                    stream.write_all(&bytes).await?;
                    stream.shutdown().await?;
                    while stream.read(&mut [0; 1024]).await? > 0 {}
                    return Ok(());
                }
                Reply::Endless(bytes, piece) => {
                    stream.write_all(&bytes).await?;
                    loop {
                        stream.write_all(&piece).await?;
                        tokio::task::yield_now().await;
                    }
                }
                Reply::BytesThenSilence(bytes) => {
                    stream.write_all(&bytes).await?;
                    stream.flush().await?;
                    // Ends when the other side closes.
                    while stream.read(&mut [0; 1024]).await? > 0 {}
                    return Ok(());
                }
                Reply::Close => return Ok(()),
            }
            stream.flush().await?;
        }
        Ok(())
    }
}

async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Received>> {
    let head_end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    buffer.drain(..head_end);
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let method = first.next().unwrap_or_default().to_owned();
    let path = first.next().unwrap_or_default().to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request = Received { method, path, headers, body: Vec::new() };
    if request.header("transfer-encoding") == ["chunked"] {
        request.body = read_chunked(stream, buffer).await?;
    } else if let Some(length) = request.header("content-length").first().and_then(|text| text.parse().ok()) {
        request.body = take(stream, buffer, length).await?;
    }
    Ok(Some(request))
}

async fn read_chunked(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = loop {
            if let Some(at) = find(buffer, b"\r\n") {
                break at;
            }
            if stream.read_buf(buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let size = String::from_utf8_lossy(&buffer[..line_end]).trim().to_owned();
        buffer.drain(..line_end + 2);
        let size =
            usize::from_str_radix(&size, 16).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let piece = take(stream, buffer, size + 2).await?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&piece[..size]);
    }
}

async fn take(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    bytes: usize,
) -> io::Result<Vec<u8>> {
    while buffer.len() < bytes {
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(buffer.drain(..bytes).collect())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
