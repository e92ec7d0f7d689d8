//! TLS that a protocol starts on a connection that began in the clear (STARTTLS and its like).

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Endpoints, connect_error};
use crate::plugin::bindings::net::ConnectError;
use crate::plugin::capability::dial::DialError;
use crate::plugin::endpoint::HostPort;

use super::wire::Wire;

/// The right to start it, once.
pub struct TlsStart {
    /// Weak: the connection ends with its streams, whoever holds this.
    wire: Weak<Wire>,
    endpoint: String,
    address: HostPort,
}

impl TlsStart {
    pub fn of(wire: &Arc<Wire>, endpoint: String, address: HostPort) -> Self {
        Self { wire: Arc::downgrade(wire), endpoint, address }
    }

    pub async fn start(self, endpoints: &Endpoints, ends_at: Duration) -> Result<(), ConnectError> {
        let what = format!("endpoint \"{}\" ({})", self.endpoint, self.address);
        let Some((endpoint, tls)) = endpoints.started_tls(&self.endpoint) else {
            return Err(ConnectError::Denied(format!("{what}: TLS is not granted any more")));
        };
        let Some(wire) = self.wire.upgrade() else {
            return Err(ConnectError::Unreachable(format!("{what}: the connection has ended")));
        };
        let transport = wire.take().map_err(|why| ConnectError::Tls(format!("{what}: {why}")))?;
        match endpoints.dialer.secure(transport, tls, &self.address.host, endpoints.halfway(ends_at)).await {
            Ok(secured) => {
                wire.put(secured);
                Ok(())
            }
            Err(error) => {
                endpoints.stats.net_connections_failed.add_one();
                Err(start_error(&what, error, &endpoint.section))
            }
        }
    }
}

/// Whoever agreed to TLS and then speaks in the clear says why it ends the talk, as a server that is full: that may
/// pass, and nothing about the config is known to be wrong.
fn start_error(what: &str, error: DialError, section: &str) -> ConnectError {
    match error {
        DialError::NotTls => {
            ConnectError::Unreachable(format!("{what}: it spoke in the clear where TLS was to be started"))
        }
        error => connect_error(what, error, section),
    }
}
