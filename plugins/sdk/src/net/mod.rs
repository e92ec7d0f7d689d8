//! Connections to the endpoints the operator granted, for plugins that speak a broker's protocol. The
//! host makes TLS.
//!
//! [`connect`] opens one; a [`Connection`] buffers both ways and knows how much time is left; a
//! [`Link`] keeps what was opened over it from call to call, and waits before it dials again.

mod connection;
mod error;
mod link;
mod script;
mod streams;

pub use connection::{Connection, Pipe};
pub use error::Error;
pub use link::Link;
pub use script::Script;
pub use streams::Streams;

use crate::bindings::net::outhaul::net::net;
pub use crate::bindings::net::outhaul::net::net::ConnectError;

/// Opens a connection for a protocol whose two sides first talk in the clear. If TLS comes back with it, the
/// operator wants it: nothing secret may be sent before [`Connection::start_tls`].
pub fn connect_in_clear(
    endpoint: &str,
    address: Option<&str>,
) -> Result<(Connection, Option<TlsStart>), ConnectError> {
    let net::Connection { input, output, tls } = net::connect_in_clear(endpoint, address)?;
    Ok((Connection::over(Streams::new(input, output)), tls.map(TlsStart)))
}

/// TLS that is still to be started on a connection, by [`Connection::start_tls`].
pub struct TlsStart(net::TlsStart);

impl TlsStart {
    pub fn start(self) -> Result<(), ConnectError> {
        net::TlsStart::start(self.0)
    }
}

/// Opens a connection to the endpoint of this name. `address` (`host:port`) chooses one of the further
/// addresses it may lead to (`also`).
pub fn connect(endpoint: &str, address: Option<&str>) -> Result<Connection, ConnectError> {
    let (input, output) = net::connect(endpoint, address)?;
    Ok(Connection::over(Streams::new(input, output)))
}
