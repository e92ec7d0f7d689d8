//! Native deliverers: what the relay does when no component stands between.

use std::sync::Mutex;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use outhaul::domain::{Detail, Outcome, Receipt};
use outhaul::plugin::{Call, Deliver};

/// Delivers at once, and may keep when each event arrived.
#[derive(Default)]
pub struct Nothing {
    arrivals: Mutex<Vec<(String, Instant)>>,
    keeps_arrivals: bool,
}

impl Nothing {
    pub fn that_keeps_arrivals() -> Self {
        Self { keeps_arrivals: true, ..Self::default() }
    }

    pub fn arrival_of(&self, id: &str) -> Option<Instant> {
        let arrivals = self.arrivals.lock().expect("nothing panics while it is held");
        arrivals.iter().rev().find(|(arrived, _)| arrived == id).map(|(_, at)| *at)
    }
}

#[async_trait]
impl Deliver for Nothing {
    async fn deliver(&self, call: Call) -> Outcome {
        if self.keeps_arrivals {
            self.arrivals
                .lock()
                .expect("nothing panics while it is held")
                .push((call.event.id, Instant::now()));
        }
        Outcome::Delivered(Receipt::default())
    }

    fn component_digest(&self) -> &str {
        ""
    }

    fn unready(&self) -> Option<String> {
        None
    }
}

/// Posts the payload by the same HTTP library as the host's own client.
pub struct Post {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

impl Post {
    pub fn new(url: String) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), url }
    }

    async fn post(&self, payload: Bytes) -> Result<u16, String> {
        let request =
            http::Request::post(&self.url).body(Full::new(payload)).map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        response.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok(status)
    }
}

#[async_trait]
impl Deliver for Post {
    async fn deliver(&self, call: Call) -> Outcome {
        match self.post(call.payload).await {
            Ok(200..=299) => Outcome::Delivered(Receipt::default()),
            Ok(status) => Outcome::Other(Detail::new("status", status.to_string())),
            Err(error) => Outcome::Other(Detail::new("failed", error)),
        }
    }

    fn component_digest(&self) -> &str {
        ""
    }

    fn unready(&self) -> Option<String> {
        None
    }
}
