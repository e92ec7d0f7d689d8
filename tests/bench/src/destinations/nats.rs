//! JetStream, by `async-nats`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, ensure};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, stream};
use async_trait::async_trait;
use outhaul::plugin::{Call, Deliver};
use outhaul_tests::servers::{self, Server};

use super::{Native, Peer, Publish, at_broker, own_headers};

const STREAM: &str = "ORDERS";

pub struct Nats {
    server: Server,
    component: PathBuf,
}

impl Nats {
    pub fn start(component: PathBuf) -> Self {
        Self { server: servers::nats(""), component }
    }

    async fn jetstream(&self) -> Result<jetstream::Context> {
        Ok(jetstream::new(async_nats::connect(self.server.address()).await?))
    }
}

#[async_trait]
impl Peer for Nats {
    async fn fresh(&self) -> Result<String> {
        let jetstream = self.jetstream().await?;
        // There is none yet at the first time.
        jetstream.delete_stream(STREAM).await.ok();
        let subjects = vec!["order.>".to_owned()];
        jetstream
            .create_stream(stream::Config { name: STREAM.to_owned(), subjects, ..stream::Config::default() })
            .await?;
        Ok(at_broker(&self.component, &self.server.address(), ""))
    }

    async fn native(&self) -> Result<Arc<dyn Deliver>> {
        Ok(Arc::new(Native(self.jetstream().await?)))
    }
}

#[async_trait]
impl Publish for jetstream::Context {
    async fn publish(&self, call: &Call) -> Result<()> {
        let mut message = PublishMessage::build()
            .payload(call.payload.clone())
            .message_id(&call.dedup_id)
            .header("Content-Type", call.event.content_type.as_str());
        for (name, value) in own_headers(call) {
            message = message.header(name, value);
        }
        let acknowledged = self.send_publish(call.event.topic.clone(), message).await?.await?;
        ensure!(!acknowledged.duplicate, "{} was there before", call.dedup_id);
        Ok(())
    }
}
