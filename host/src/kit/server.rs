//! The scripted HTTP server of the cases: it keeps what it got, and answers as told, also as no
//! well-behaved server would.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::case::{Behave, Step};

const HUGE_BYTES: usize = 8 << 20;
const DRIP: Duration = Duration::from_millis(50);

/// A request that came in whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

#[derive(Default)]
struct Stage {
    script: Vec<Step>,
    answered: usize,
    received: Vec<Request>,
}

/// One server for all cases of a run, so that its address stays the same.
pub struct Server {
    address: SocketAddr,
    stage: Arc<Mutex<Stage>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stage = Arc::<Mutex<Stage>>::default();
        let shared = stage.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Ok(Self { address, stage, accepting })
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on it answers so: each in turn, the last again and again; without any, 204.
    pub fn play(&self, script: &[Step]) {
        *lock(&self.stage) = Stage { script: script.to_vec(), ..Stage::default() };
    }

    /// What came in since it was asked last, or since the script began.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut lock(&self.stage).received)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(mut stream: TcpStream, stage: Arc<Mutex<Stage>>) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await {
        let step = {
            let mut stage = lock(&stage);
            stage.received.push(request);
            let turn = stage.answered.min(stage.script.len().saturating_sub(1));
            stage.answered += 1;
            stage.script.get(turn).cloned().unwrap_or_default()
        };
        if answer(&mut stream, &step).await.is_none() {
            return;
        }
    }
}

/// None once the connection can't be used again.
async fn answer(stream: &mut TcpStream, step: &Step) -> Option<()> {
    match step.behave {
        Behave::Well | Behave::Refuse => stream.write_all(&whole(step, step.body.as_bytes())).await.ok(),
        Behave::Silent => {
            // Until the other side gives up.
            let _ = stream.read(&mut [0; 1]).await;
            None
        }
        Behave::Drip => {
            stream.write_all(&head(step, HUGE_BYTES)).await.ok()?;
            while stream.write_all(b".").await.is_ok() {
                tokio::time::sleep(DRIP).await;
            }
            None
        }
        Behave::Reset => {
            // Closing with a linger of zero sends a reset.
            stream.set_zero_linger().ok()?;
            None
        }
        Behave::Cut => {
            stream.write_all(&head(step, 100)).await.ok()?;
            stream.write_all(b"cut").await.ok()?;
            None
        }
        Behave::Huge => {
            stream.write_all(&head(step, HUGE_BYTES)).await.ok()?;
            stream.write_all(&vec![b'h'; HUGE_BYTES]).await.ok()
        }
    }
}

fn whole(step: &Step, body: &[u8]) -> Vec<u8> {
    // These have no body by definition, and a length would be one.
    let has_no_body = matches!(step.status, 100..=199 | 204 | 304);
    let mut bytes = if has_no_body { head_lines(step) } else { head(step, body.len()) };
    if has_no_body {
        bytes.extend_from_slice(b"\r\n");
    } else {
        bytes.extend_from_slice(body);
    }
    bytes
}

fn head(step: &Step, length: usize) -> Vec<u8> {
    let mut bytes = head_lines(step);
    bytes.extend_from_slice(format!("content-length: {length}\r\n\r\n").as_bytes());
    bytes
}

fn head_lines(step: &Step) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {} Scripted\r\n", step.status);
    for (name, value) in &step.headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    text.into_bytes()
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Request> {
    let end = loop {
        match find(buffer, b"\r\n\r\n") {
            Some(end) => break end,
            None => more(stream, buffer).await?,
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end + 4);
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    let mut request = Request { method, path, headers, body: Vec::new() };
    let is_chunked = request.header("transfer-encoding").is_some_and(|value| value.contains("chunked"));
    request.body = if is_chunked {
        read_chunks(stream, buffer).await?
    } else {
        let length = request.header("content-length").map_or(Some(0), |value| value.parse().ok())?;
        take(stream, buffer, length).await?
    };
    Some(request)
}

async fn read_chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = loop {
            match find(buffer, b"\r\n") {
                Some(end) => break end,
                None => more(stream, buffer).await?,
            }
        };
        let size = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.drain(..end + 2);
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        body.extend(take(stream, buffer, size).await?);
        take(stream, buffer, 2).await?;
        if size == 0 {
            return Some(body);
        }
    }
}

async fn take(stream: &mut TcpStream, buffer: &mut Vec<u8>, length: usize) -> Option<Vec<u8>> {
    while buffer.len() < length {
        more(stream, buffer).await?;
    }
    Some(buffer.drain(..length).collect())
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(buffer).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn say(stream: &mut TcpStream, text: &str, answer: &str) {
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut got = vec![0; answer.len()];
        stream.read_exact(&mut got).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&got), answer);
    }

    #[tokio::test]
    async fn it_answers_in_turn_on_one_connection_and_keeps_what_came() {
        let server = Server::start().await.unwrap();
        let created = Step { body: "hi".into(), ..Step::status(201).header("location", "/1") };
        server.play(&[created, Step::default()]);
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let first = "HTTP/1.1 201 Scripted\r\nlocation: /1\r\ncontent-length: 2\r\n\r\nhi";
        say(&mut stream, "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", first).await;
        let last = "HTTP/1.1 204 Scripted\r\n\r\n";
        let chunked = "PUT /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        say(&mut stream, chunked, last).await;
        say(&mut stream, "GET / HTTP/1.1\r\n\r\n", last).await;
        let received = server.take();
        let told: Vec<_> =
            received.iter().map(|it| (it.method.as_str(), it.path.as_str(), it.body.len())).collect();
        assert_eq!(told, [("POST", "/a?b", 3), ("PUT", "/c", 3), ("GET", "/", 0)]);
        assert_eq!(received[0].header("HOST"), Some("x"));
        assert!(server.take().is_empty());
    }
}
