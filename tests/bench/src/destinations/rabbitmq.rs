//! RabbitMQ with publisher confirms, by `lapin`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use outhaul::plugin::{Call, Deliver};
use outhaul_tests::servers::Rabbit;

use super::{Native, Peer, Publish, at_broker, own_headers};

/// Of the rig's topic, where the default exchange looks for it.
const QUEUE: &str = "order.created";
const PERSISTENT: u8 = 2;
const MICROS: i64 = 1_000_000;

pub struct RabbitMq {
    server: Rabbit,
    component: PathBuf,
}

impl RabbitMq {
    pub fn start(component: PathBuf) -> Self {
        Self { server: Rabbit::start(), component }
    }

    async fn open(&self) -> Result<Confirmed> {
        let url = format!("amqp://guest:guest@{}/%2f", self.server.address());
        let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Confirmed { _connection: connection, channel })
    }
}

#[async_trait]
impl Peer for RabbitMq {
    async fn fresh(&self) -> Result<String> {
        let Confirmed { channel, .. } = &self.open().await?;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(QUEUE.into(), durable, FieldTable::default()).await?;
        channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await?;
        Ok(at_broker(&self.component, &self.server.address(), "exchange = \"\""))
    }

    async fn native(&self) -> Result<Arc<dyn Deliver>> {
        Ok(Arc::new(Native(self.open().await?)))
    }
}

struct Confirmed {
    /// Ends with the last of it.
    _connection: Connection,
    channel: Channel,
}

#[async_trait]
impl Publish for Confirmed {
    async fn publish(&self, call: &Call) -> Result<()> {
        let event = &call.event;
        let mut headers = FieldTable::default();
        for (name, value) in own_headers(call) {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let properties = BasicProperties::default()
            .with_content_type(event.content_type.as_str().into())
            .with_headers(headers)
            .with_delivery_mode(PERSISTENT)
            .with_message_id(call.dedup_id.as_str().into())
            .with_timestamp(u64::try_from(event.created_at.0 / MICROS)?)
            .with_type(event.topic.as_str().into());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let key = event.topic.as_str().into();
        let sent = self.channel.basic_publish("".into(), key, options, &call.payload, properties).await?;
        let confirmed = sent.await?;
        ensure!(matches!(confirmed, Confirmation::Ack(None)), "it was not taken: {confirmed:?}");
        Ok(())
    }
}
