//! The operators' HTTP server: probes and metrics.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

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
    closes: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    board: Arc<Board>,
    clock: SharedClock,
    exporter: Arc<OnceLock<Exporter>>,
    /// Of the token, so that comparing takes the same time whatever is sent.
    token_digest: Option<[u8; 32]>,
}

impl Server {
    /// Binds and serves at once, so that probes are answered while the host still starts.
    pub async fn start(config: &file::Server, board: Arc<Board>, clock: SharedClock) -> anyhow::Result<Self> {
        let token = config
            .token
            .as_ref()
            .map(|token| token.read().map_err(|why| anyhow::anyhow!("server.token: {why}")));
        let token = token.transpose()?;
        let token_digest = match token.as_deref() {
            Some("") => {
                anyhow::bail!("server.token: the token is empty; make one with  openssl rand -hex 32")
            }
            Some(token) => Some(Sha256::digest(token).into()),
            None => None,
        };
        let listener = TcpListener::bind(config.listen).await.with_context(|| {
            format!(
                "server.listen: {} can't be bound; choose another address, or stop what holds it",
                config.listen
            )
        })?;
        let address = listener.local_addr()?;
        let shared = Shared { board, clock, exporter: Arc::default(), token_digest };
        let closes = CancellationToken::new();
        let closed = closes.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router(shared)).with_graceful_shutdown(closed).await {
                tracing::error!(%error, "the server ended");
            }
        });
        Ok(Self { address, closes, task })
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

async fn readiness(State(shared): State<Shared>) -> Response {
    let readiness = shared.board.readiness().await;
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
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
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let sent: [u8; 32] = Sha256::digest(sent).into();
    match shared.token_digest {
        Some(wanted) if wanted != sent => {
            let text = "send the token of server.token as  Authorization: Bearer TOKEN\n";
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
        }
        _ => next.run(request).await,
    }
}
