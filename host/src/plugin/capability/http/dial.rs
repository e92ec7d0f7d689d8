//! A connection to a granted origin: names resolved by the host, every address checked when it is
//! dialled, each step bounded. Errors of this module mean that no request left.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::Error;

use super::Grant;
use super::address;
use super::origin::Origin;
use crate::plugin::stats::Stats;

pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Names to addresses; asked at every dial, because a name may turn to another address.
#[async_trait]
pub trait Resolve: Send + Sync {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's resolver.
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

pub struct Dialer {
    pub resolver: Arc<dyn Resolve>,
    pub tls_timeout: Duration,
    pub stats: Arc<Stats>,
}

impl Dialer {
    /// `connect_timeout` bounds resolving and connecting together; TLS has its own.
    pub async fn dial(&self, grant: &Grant, connect_timeout: Duration) -> Result<Box<dyn Transport>, Error> {
        let addresses = timeout(connect_timeout, self.permitted(&grant.origin, grant.is_private))
            .await
            .map_err(|_| Error::DnsTimeout)??;
        let tcp = connect(&addresses, connect_timeout).await?;
        // A request goes out in pieces, and waiting to gather them only delays it.
        let _ = tcp.set_nodelay(true);
        self.stats.http_connections_opened.add_one();
        let Some(tls) = &grant.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(grant.origin.host.clone()).map_err(|_| Error::TlsCertificateError)?;
        let handshake = TlsConnector::from(tls.clone()).connect(name, tcp);
        match timeout(self.tls_timeout, handshake).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(tls_error(&error).unwrap_or(Error::TlsProtocolError)),
            Err(_) => Err(Error::ConnectionTimeout),
        }
    }

    async fn permitted(&self, origin: &Origin, private_is_granted: bool) -> Result<Vec<SocketAddr>, Error> {
        let found = match origin.host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, origin.port)],
            Err(_) => {
                self.resolver.resolve(&origin.host, origin.port).await.map_err(|error| dns_error(&error))?
            }
        };
        if found.is_empty() {
            return Err(Error::DnsError { rcode: Some("no address".to_owned()), info_code: None });
        }
        if private_is_granted {
            return Ok(found);
        }
        let (public, refused): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| address::is_public(found.ip()));
        if let Some(first) = refused.first() {
            self.stats.http_addresses_denied.add(refused.len() as u64);
            tracing::warn!(
                %origin,
                address = %first.ip(),
                "an origin leads to an address that is not public; if it should, add  private = true  to it"
            );
        }
        if public.is_empty() { Err(Error::DestinationIpProhibited) } else { Ok(public) }
    }
}

/// Tries one address after the other; each gets its share of the time, so that a silent first one
/// does not use up all of it.
async fn connect(addresses: &[SocketAddr], connect_timeout: Duration) -> Result<TcpStream, Error> {
    let share = connect_timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = Error::DestinationUnavailable;
    for address in addresses {
        last = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
            Ok(Err(_)) => Error::DestinationUnavailable,
            Err(_) => Error::ConnectionTimeout,
        };
    }
    Err(last)
}

fn dns_error(error: &io::Error) -> Error {
    Error::DnsError { rcode: Some(error.to_string()), info_code: None }
}

/// What TLS found wrong, if it is TLS's fault. With TLS 1.3 a server's refusal of the client's
/// certificate comes only with the first answer.
pub fn tls_error(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.map(|inner| inner as &(dyn std::error::Error + 'static));
        if let Some(tls) = inner.unwrap_or(error).downcast_ref::<rustls::Error>() {
            return Some(match tls {
                rustls::Error::InvalidCertificate(_) => Error::TlsCertificateError,
                rustls::Error::AlertReceived(alert) => Error::TlsAlertReceived {
                    alert_id: Some(u8::from(*alert)),
                    alert_message: Some(format!("{alert:?}")),
                },
                _ => Error::TlsProtocolError,
            });
        }
        cause = error.source();
    }
    None
}
