//! An HTTP receiver that remembers what it got, in order, and can be told to hold its answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use tokio::sync::watch;

#[derive(Clone, Debug)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Received {
    pub fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().expect("the ID is text")
    }
}

#[derive(Clone)]
struct Shared {
    received: Arc<Mutex<Vec<Received>>>,
    count: Arc<watch::Sender<usize>>,
    /// How many requests may be answered in all; the others are held.
    allowed: Arc<watch::Sender<usize>>,
}

pub struct Receiver {
    pub origin: String,
    shared: Shared,
}

impl Receiver {
    /// Answers every request at once.
    pub async fn start() -> Self {
        Self::with_allowance(usize::MAX).await
    }

    /// Holds every request until [`Receiver::allow`].
    pub async fn holding() -> Self {
        Self::with_allowance(0).await
    }

    async fn with_allowance(allowed: usize) -> Self {
        let shared = Shared::with_allowance(allowed);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        Self::on(listener, shared)
    }

    /// Answers every request at once, at an address that was free before.
    pub async fn at(address: std::net::SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.expect("the port is still free");
        Self::on(listener, Shared::with_allowance(usize::MAX))
    }

    fn on(listener: tokio::net::TcpListener, shared: Shared) -> Self {
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(receive).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { origin, shared }
    }

    /// Lets this many requests be answered in all.
    pub fn allow(&self, requests: usize) {
        self.shared.allowed.send_replace(requests);
    }

    pub async fn wait_for(&self, requests: usize) {
        let mut count = self.shared.count.subscribe();
        let enough = count.wait_for(|count| *count >= requests);
        let patience = tokio::time::timeout(std::time::Duration::from_secs(120), enough).await;
        assert!(patience.is_ok(), "only {} of {requests} requests came", self.received().len());
    }

    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().expect("not poisoned").clone()
    }

    /// How often each event came.
    pub fn times_by_id(&self) -> BTreeMap<String, usize> {
        let mut times = BTreeMap::new();
        for one in self.received() {
            *times.entry(one.id().to_owned()).or_default() += 1;
        }
        times
    }

    /// A destination of the HTTP plugin that posts here, for the topics `order.*`.
    pub fn destination(&self, more: &str) -> String {
        self.destination_of(&outhaul_tests::guests::guest("http"), more)
    }

    /// The same with the HTTP plugin in another file.
    pub fn destination_of(&self, component: &std::path::Path, more: &str) -> String {
        format!(
            "[destination.hook]\ncomponent = \"{}\"\ntopics = [\"order.*\"]\n{more}\n\
             settings = {{ url = \"{origin}/orders\" }}\n\
             [[destination.hook.http]]\norigin = \"{origin}\"\nprivate = true\n",
            component.display(),
            origin = self.origin
        )
    }
}

impl Shared {
    fn with_allowance(allowed: usize) -> Self {
        Self {
            received: Arc::default(),
            count: Arc::new(watch::Sender::new(0)),
            allowed: Arc::new(watch::Sender::new(allowed)),
        }
    }
}

async fn receive(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let number = {
        let mut received = shared.received.lock().expect("not poisoned");
        received.push(Received { headers, body });
        received.len()
    };
    shared.count.send_modify(|count| *count = (*count).max(number));
    let mut allowed = shared.allowed.subscribe();
    allowed.wait_for(|allowed| *allowed >= number).await.ok();
    StatusCode::NO_CONTENT
}
