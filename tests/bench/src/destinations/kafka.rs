//! Apache Kafka, by `rdkafka`, which is librdkafka, as an idempotent producer.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use async_trait::async_trait;
use outhaul::plugin::{Call, Deliver};
use outhaul_tests::servers;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;

use super::{Native, Peer, Publish, at_broker, own_headers};

/// The rig's.
const TOPIC: &str = "order.created";
const PARTITIONS: i32 = 3;
const MICROS_PER_MS: i64 = 1_000;

pub struct Kafka {
    server: servers::Kafka,
    component: PathBuf,
}

impl Kafka {
    pub async fn start(component: PathBuf) -> Result<Self> {
        let kafka = Self { server: servers::Kafka::start(), component };
        let admin: AdminClient<DefaultClientContext> = kafka.config().create()?;
        let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(1));
        for created in admin.create_topics([&topic], &AdminOptions::new()).await? {
            created.map_err(|(topic, error)| anyhow!("{topic}: {error}"))?;
        }
        Ok(kafka)
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.server.address());
        config
    }
}

#[async_trait]
impl Peer for Kafka {
    /// What is in a log makes no difference to what comes behind it.
    async fn fresh(&self) -> Result<String> {
        Ok(at_broker(&self.component, &self.server.address(), ""))
    }

    async fn native(&self) -> Result<Arc<dyn Deliver>> {
        let mut config = self.config();
        config.set("enable.idempotence", "true").set("acks", "all");
        // The plugin does not wait for more, either.
        let producer: FutureProducer = config.set("linger.ms", "0").create()?;
        Ok(Arc::new(Native(producer)))
    }
}

#[async_trait]
impl Publish for FutureProducer {
    async fn publish(&self, call: &Call) -> Result<()> {
        let event = &call.event;
        let more = [("id", call.dedup_id.as_str()), ("content-type", event.content_type.as_str())];
        let headers =
            own_headers(call).into_iter().chain(more).fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(value) })
            });
        let record = FutureRecord::<(), _>::to(&event.topic)
            .payload(&call.payload[..])
            .timestamp(event.created_at.0 / MICROS_PER_MS)
            .headers(headers);
        self.send(record, Timeout::Never).await.map_err(|(error, _)| error)?;
        Ok(())
    }
}
