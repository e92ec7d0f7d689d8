//! MQTT 5 with QoS 1, by `rumqttc`.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use async_trait::async_trait;
use outhaul::plugin::{Call, Deliver};
use outhaul_tests::servers::{self, Server};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, PublishProperties};
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};
use rumqttc::{NetworkOptions, Outgoing};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::{Native, Peer, Publish, at_broker, own_headers};

/// Requests that wait for the connection.
const WAITING: usize = 200;

pub struct Mqtt {
    server: Server,
    component: PathBuf,
}

impl Mqtt {
    pub fn start(component: PathBuf) -> Self {
        // Else the broker holds confirmations back for 40 ms (Nagle's algorithm), whoever publishes.
        let config = "allow_anonymous true\nset_tcp_nodelay true";
        Self { server: servers::mosquitto(config), component }
    }

    fn client(&self, options: impl FnOnce(&mut MqttOptions), id: &str) -> (AsyncClient, EventLoop) {
        let mut network = NetworkOptions::new();
        // As the host's connections are.
        network.set_tcp_nodelay(true);
        let mut all = MqttOptions::new(id, "127.0.0.1", self.server.port);
        all.set_network_options(network);
        options(&mut all);
        AsyncClient::new(all, WAITING)
    }

    /// A subscriber who is away, so that the broker keeps what it confirms, and nothing from before.
    async fn subscribe(&self) -> Result<()> {
        let for_ever = |options: &mut MqttOptions| {
            options.set_clean_start(true).set_session_expiry_interval(Some(u32::MAX));
        };
        let (client, mut events) = self.client(for_ever, "reader");
        client.subscribe("order/#", QoS::AtLeastOnce).await?;
        while !matches!(events.poll().await?, Event::Incoming(Packet::SubAck(_))) {}
        client.disconnect().await?;
        while !matches!(events.poll().await?, Event::Outgoing(Outgoing::Disconnect)) {}
        Ok(())
    }
}

#[async_trait]
impl Peer for Mqtt {
    async fn fresh(&self) -> Result<String> {
        self.subscribe().await?;
        Ok(at_broker(&self.component, &self.server.address(), ""))
    }

    async fn native(&self) -> Result<Arc<dyn Deliver>> {
        let (client, events) = self.client(|_| {}, "bench");
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let drives = tokio::spawn(drive(events, waiting.clone())).abort_handle();
        Ok(Arc::new(Native(Acknowledged { client, waiting, turn: tokio::sync::Mutex::default(), drives })))
    }
}

/// The client hands out no acknowledgements: what it sends is matched with what was asked for, in order.
#[derive(Default)]
struct Waiting {
    asked: VecDeque<oneshot::Sender<()>>,
    sent: HashMap<u16, oneshot::Sender<()>>,
}

async fn drive(mut events: EventLoop, waiting: Arc<Mutex<Waiting>>) {
    while let Ok(event) = events.poll().await {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Outgoing(Outgoing::Publish(id)) => {
                if let Some(asked) = waiting.asked.pop_front() {
                    waiting.sent.insert(id, asked);
                }
            }
            Event::Incoming(Packet::PubAck(ack)) => {
                if let Some(sent) = waiting.sent.remove(&ack.pkid) {
                    sent.send(()).ok();
                }
            }
            _ => {}
        }
    }
    // Whoever waits is told by its sender's end.
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Waiting::default();
}

struct Acknowledged {
    client: AsyncClient,
    waiting: Arc<Mutex<Waiting>>,
    /// One after the other, so that both queues have one order.
    turn: tokio::sync::Mutex<()>,
    drives: AbortHandle,
}

impl Drop for Acknowledged {
    fn drop(&mut self) {
        self.drives.abort();
    }
}

#[async_trait]
impl Publish for Acknowledged {
    async fn publish(&self, call: &Call) -> Result<()> {
        let topic = call.event.topic.replace('.', "/");
        let own = own_headers(call).into_iter().chain([("id", call.dedup_id.as_str())]);
        let properties = PublishProperties {
            content_type: Some(call.event.content_type.clone()),
            user_properties: own.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            ..PublishProperties::default()
        };
        let (done, acknowledged) = oneshot::channel();
        {
            let _turn = self.turn.lock().await;
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).asked.push_back(done);
            let (qos, payload) = (QoS::AtLeastOnce, call.payload.clone());
            self.client.publish_with_properties(topic, qos, false, payload, properties).await?;
        }
        acknowledged.await.context("the connection ended")
    }
}
