//! Servers that plugins post to: one that answers as it is told and keeps what it got, and bare
//! sockets for what no well-behaved server does.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response};
use axum::routing::any;
use axum::{Router, body::to_bytes};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header in ASCII"))
    }
}

type Answer = Arc<dyn Fn(&Received) -> Response<Body> + Send + Sync>;

#[derive(Clone)]
struct Shared {
    answer: Answer,
    received: Arc<Mutex<Vec<Received>>>,
}

pub struct Receiver {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    pub async fn answering(answer: impl Fn(&Received) -> Response<Body> + Send + Sync + 'static) -> Self {
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let shared = Shared { answer: Arc::new(answer), received: received.clone() };
        let app = Router::new().route("/", any(take)).route("/{*rest}", any(take)).with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, received }
    }

    /// Says yes to everything.
    pub async fn accepting() -> Self {
        Self::answering(|_| status(204)).await
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("the test's own lock").clone()
    }

    /// What came of the one request that the test made.
    pub fn only(&self) -> Received {
        let received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        received[0].clone()
    }
}

async fn take(State(shared): State<Shared>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a whole body");
    let target = parts.uri.path_and_query().expect("a path").to_string();
    let received = Received { method: parts.method.to_string(), target, headers: parts.headers, body };
    let answer = (shared.answer)(&received);
    shared.received.lock().expect("the test's own lock").push(received);
    answer
}

pub fn status(status: u16) -> Response<Body> {
    Response::builder().status(status).body(Body::empty()).expect("an answer")
}

/// Accepts connections and hands each to `serve` once a whole request with a small body is read.
pub async fn bare_server<F>(serve: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if read_request(&mut stream).await {
                tokio::spawn(serve(stream));
            }
        }
    });
    address
}

/// Reads until the body is whole: the test's bodies end with `}`.
async fn read_request(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"}") {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    true
}

pub async fn send(stream: &mut TcpStream, text: &str) {
    // The plugin may be gone by now, which is what some tests are about.
    let _ = stream.write_all(text.as_bytes()).await;
}
