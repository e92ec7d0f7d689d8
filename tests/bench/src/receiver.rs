//! A local HTTP server on a runtime and threads of its own.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::http::StatusCode;
use tokio::sync::Semaphore;

pub struct Receiver {
    pub origin: String,
    /// Requests wait for a permit, so that a test can hold so many of them.
    pub gate: Arc<Semaphore>,
    pub arrived: Arc<Semaphore>,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Without blocking, which an async caller may not.
impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Receiver {
    /// With `open`, requests are answered at once.
    pub fn start(open: bool) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let gate = Arc::new(Semaphore::new(0));
        let arrived = Arc::new(Semaphore::new(0));
        let (waits, counts) = (gate.clone(), arrived.clone());
        let answer = move || {
            let (waits, counts) = (waits.clone(), counts.clone());
            async move {
                counts.add_permits(1);
                if !open {
                    let permit = waits.acquire().await;
                    permit.expect("the gate is never closed").forget();
                }
                StatusCode::NO_CONTENT
            }
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let origin = format!("http://{}", listener.local_addr()?);
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            axum::serve(listener, Router::new().fallback(answer)).await
        });
        Ok(Self { origin, gate, arrived, runtime: Some(runtime) })
    }

    /// The destination of the HTTP plugin that posts here.
    pub fn destination(&self, guests: &Path) -> String {
        self.destination_of(&guests.join("http.wasm"))
    }

    /// The same of another component with the setting `url`.
    pub fn destination_of(&self, component: &Path) -> String {
        let Self { origin, .. } = self;
        format!(
            "component = \"{}\"\nsettings = {{ url = \"{origin}/\" }}\n[[destination.bench.http]]\n\
             origin = \"{origin}\"\nprivate = true\n",
            component.display()
        )
    }
}

pub fn noop(guests: &std::path::Path) -> String {
    format!("component = \"{}\"\n", guests.join("noop.wasm").display())
}
