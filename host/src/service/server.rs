//! The operators' HTTP server: probes and metrics.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use anyhow::Context;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::config::file;
use super::metrics::{self, Exporter};
use crate::clock::SharedClock;

pub struct Server {
    pub address: SocketAddr,
    pub token: Token,
    closes: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    board: Arc<Board>,
    clock: SharedClock,
    exporter: Arc<OnceLock<Exporter>>,
    token: Token,
    /// Only this machine reaches the server.
    is_local: bool,
}

/// What clients must send, replaced where its secret was.
#[derive(Clone)]
pub struct Token(Arc<RwLock<Option<TokenDigest>>>);

/// Comparing it takes the same time whatever is sent.
type TokenDigest = [u8; 32];

impl Token {
    /// Reads the token again. An error leaves the one there is.
    pub fn reread(&self, config: &file::Server) -> anyhow::Result<()> {
        let digest = token_digest(config)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = digest;
        Ok(())
    }

    fn digest(&self) -> Option<TokenDigest> {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn token_digest(config: &file::Server) -> anyhow::Result<Option<TokenDigest>> {
    let Some(token) = &config.token else { return Ok(None) };
    let token = token.read().map_err(|why| anyhow::anyhow!("server.token: {why}"))?;
    anyhow::ensure!(
        !token.is_empty(),
        "server.token: the token is empty; make one with  openssl rand -hex 32"
    );
    Ok(Some(Sha256::digest(token).into()))
}

impl Server {
    /// Binds and serves at once, so that probes are answered while the host still starts.
    pub async fn start(config: &file::Server, board: Arc<Board>, clock: SharedClock) -> anyhow::Result<Self> {
        let token = Token(Arc::new(RwLock::new(token_digest(config)?)));
        let listener = TcpListener::bind(config.listen).await.with_context(|| {
            format!(
                "server.listen: {} can't be bound; choose another address, or stop what holds it",
                config.listen
            )
        })?;
        let address = listener.local_addr()?;
        let shared = Shared {
            board,
            clock,
            exporter: Arc::default(),
            token: token.clone(),
            is_local: address.ip().is_loopback(),
        };
        let closes = CancellationToken::new();
        let closed = closes.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router(shared)).with_graceful_shutdown(closed).await {
                tracing::error!(%error, "the server ended");
            }
        });
        Ok(Self { address, token, closes, task })
    }

    /// Takes no more requests and waits for those under way, but not for idle connections.
    pub async fn stop(self) {
        self.closes.cancel();
        let aborts = self.task.abort_handle();
        if tokio::time::timeout(std::time::Duration::from_secs(1), self.task).await.is_err() {
            aborts.abort();
        }
    }
}

fn router(shared: Shared) -> Router {
    let guarded = Router::new()
        .route("/metrics", get(exposition))
        .route_layer(middleware::from_fn_with_state(shared.clone(), with_token));
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(readiness))
        .merge(guarded)
        .with_state(shared)
}

/// A probe needs no token and learns one thing; names and errors are for whoever has the token or
/// is on this machine.
async fn readiness(State(shared): State<Shared>, request: Request) -> Response {
    let readiness = shared.board.readiness(&*shared.clock).await;
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if shared.is_local || shared.token.digest().is_some_and(|wanted| wanted == sent_digest(&request)) {
        return (status, Json(readiness)).into_response();
    }
    (status, Json(serde_json::json!({ "ready": readiness.ready }))).into_response()
}

async fn exposition(State(shared): State<Shared>) -> Response {
    let Some(running) = shared.board.running() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the host is starting\n").into_response();
    };
    let exporter = shared.exporter.get_or_init(|| Exporter::new(&running, shared.clock.clone()));
    match exporter.text(&running).await {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn with_token(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let sent = sent_digest(&request);
    match shared.token.digest() {
        Some(wanted) if wanted != sent => {
            let text = "send the token of server.token as  Authorization: Bearer TOKEN\n";
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
        }
        _ => next.run(request).await,
    }
}

fn sent_digest(request: &Request) -> [u8; 32] {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    Sha256::digest(sent).into()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::config::SecretRef;
    use super::*;
    use crate::clock::SystemClock;

    async fn start(listen: [u8; 4]) -> Server {
        // Cargo sets this one for a test; any that is set would do.
        let token = Some(SecretRef::Env("CARGO_PKG_NAME".to_owned()));
        let config = file::Server { listen: SocketAddr::from((listen, 0)), token };
        let board = Arc::new(Board::default());
        board.wait_for("the database refused the password of \"shop\"".to_owned());
        Server::start(&config, board, Arc::new(SystemClock)).await.unwrap()
    }

    async fn readyz(server: &Server, token: &str) -> (String, serde_json::Value) {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", server.address.port())).await.unwrap();
        let head = format!(
            "GET /readyz HTTP/1.1\r\nhost: h\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(body).unwrap())
    }

    #[tokio::test]
    async fn beyond_this_machine_readiness_without_the_token_is_a_status_and_one_word() {
        let open = start([0, 0, 0, 0]).await;
        for token in ["", "guessed"] {
            let answer = readyz(&open, token).await;
            assert_eq!(answer, ("503".to_owned(), serde_json::json!({ "ready": false })));
        }
        let (status, body) = readyz(&open, env!("CARGO_PKG_NAME")).await;
        assert_eq!((status.as_str(), &body["ready"]), ("503", &false.into()));
        assert!(body["database"]["problem"].as_str().unwrap().contains("password"), "{body}");
        open.stop().await;

        let local = start([127, 0, 0, 1]).await;
        let (_, body) = readyz(&local, "").await;
        assert!(body["database"]["problem"].as_str().unwrap().contains("password"), "{body}");
        local.stop().await;
    }
}
