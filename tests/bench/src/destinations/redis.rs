//! Redis Streams, by the `redis` crate and the plugin's own script.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use outhaul::plugin::{Call, Deliver};
use outhaul_tests::servers::{self, Server};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, Script};

use super::{Native, Peer, Publish, at_broker, content_digest, own_headers};

/// The plugin's default.
const KEPT_MS: u32 = 86_400_000;
/// As long as a call may take; the client's own limit is half a second.
const ANSWERED: Duration = Duration::from_secs(30);

pub struct Redis {
    server: Server,
    component: PathBuf,
}

impl Redis {
    pub fn start(component: PathBuf) -> Self {
        Self { server: servers::redis(&[]), component }
    }

    async fn connection(&self) -> Result<MultiplexedConnection> {
        let info = format!("redis://{}/", self.server.address()).into_connection_info()?;
        // As the host's connections are.
        let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWERED));
        Ok(Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await?)
    }
}

#[async_trait]
impl Peer for Redis {
    async fn fresh(&self) -> Result<String> {
        let () = redis::cmd("FLUSHALL").query_async(&mut self.connection().await?).await?;
        Ok(at_broker(&self.component, &self.server.address(), ""))
    }

    async fn native(&self) -> Result<Arc<dyn Deliver>> {
        let script = Script::new(include_str!("../../../../plugins/redis/src/add.lua"));
        Ok(Arc::new(Native(Adding { connection: self.connection().await?, script })))
    }
}

struct Adding {
    connection: MultiplexedConnection,
    script: Script,
}

#[async_trait]
impl Publish for Adding {
    async fn publish(&self, call: &Call) -> Result<()> {
        let event = &call.event;
        let mut added = self.script.key(&event.topic);
        added.key(format!("outhaul:{{{}}}:{}", event.topic, call.dedup_id));
        // No bound of the stream's length, and none of its age.
        added.arg(content_digest(call)).arg(KEPT_MS).arg(0).arg(0);
        let [(_, id), (_, topic)] = own_headers(call);
        added.arg("id").arg(&call.dedup_id).arg("event-id").arg(id).arg("topic").arg(topic);
        added.arg("content-type").arg(&event.content_type).arg("payload").arg(&call.payload[..]);
        let (_, is_new): (String, i64) = added.invoke_async(&mut self.connection.clone()).await?;
        ensure!(is_new == 1, "{} was there before", call.dedup_id);
        Ok(())
    }
}
