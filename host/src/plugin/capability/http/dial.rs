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
use crate::clock::SharedClock;
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
    /// Of resolving and connecting together.
    pub connect_timeout: Duration,
    pub tls_timeout: Duration,
    pub clock: SharedClock,
    pub stats: Arc<Stats>,
}

impl Dialer {
    /// Each step has its own limit, and all of them end at `ends_at` (since boot).
    pub async fn dial(&self, grant: &Grant, ends_at: Duration) -> Result<Box<dyn Transport>, Error> {
        let connect_ends_at = ends_at.min(self.clock.since_boot() + self.connect_timeout);
        let addresses = timeout(self.left(connect_ends_at), self.permitted(&grant.origin, grant.is_private))
            .await
            .map_err(|_| Error::DnsTimeout)??;
        let tcp = connect(&addresses, self.left(connect_ends_at)).await?;
        // A request goes out in pieces, and waiting to gather them only delays it.
        let _ = tcp.set_nodelay(true);
        self.stats.http_connections_opened.add_one();
        let Some(tls) = &grant.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(grant.origin.host.clone()).map_err(|_| Error::TlsCertificateError)?;
        let handshake = TlsConnector::from(tls.clone()).connect(name, tcp);
        match timeout(self.tls_timeout.min(self.left(ends_at)), handshake).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(tls_error(&error).unwrap_or(Error::TlsProtocolError)),
            Err(_) => Err(Error::ConnectionTimeout),
        }
    }

    fn left(&self, ends_at: Duration) -> Duration {
        ends_at.saturating_sub(self.clock.since_boot())
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

/// What TLS found wrong during the handshake, if it is TLS's fault.
fn tls_error(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    Some(match rustls_error(error)? {
        rustls::Error::InvalidCertificate(_) => Error::TlsCertificateError,
        rustls::Error::AlertReceived(alert) => alert_received(*alert),
        _ => Error::TlsProtocolError,
    })
}

/// The server's refusal of our certificate, which with TLS 1.3 comes only after the handshake, in
/// place of an answer. It reads no request before it has accepted the certificate.
pub fn certificate_refused(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    use rustls::AlertDescription as Alert;
    match rustls_error(error)? {
        rustls::Error::AlertReceived(
            alert @ (Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied),
        ) => Some(alert_received(*alert)),
        _ => None,
    }
}

fn alert_received(alert: rustls::AlertDescription) -> Error {
    Error::TlsAlertReceived { alert_id: Some(u8::from(alert)), alert_message: Some(format!("{alert:?}")) }
}

fn rustls_error<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.map(|inner| inner as &(dyn std::error::Error + 'static));
        if let Some(found) = inner.unwrap_or(error).downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::clock::SystemClock;

    /// Answers each question with the next list.
    struct Scripted(Mutex<Vec<Vec<&'static str>>>);

    #[async_trait]
    impl Resolve for Scripted {
        async fn resolve(&self, _host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            let answer = self.0.lock().unwrap().remove(0);
            Ok(answer.iter().map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect())
        }
    }

    fn dialer(answers: &[&[&'static str]]) -> Dialer {
        Dialer {
            resolver: Arc::new(Scripted(Mutex::new(answers.iter().map(|answer| answer.to_vec()).collect()))),
            connect_timeout: Duration::from_secs(5),
            tls_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            stats: Arc::default(),
        }
    }

    #[tokio::test]
    async fn s26_a_name_that_turns_private_is_refused_at_the_dial_that_sees_it() {
        let dialer =
            dialer(&[&["1.1.1.1"], &["127.0.0.1"], &["10.0.0.1", "8.8.8.8", "::ffff:10.0.0.1"], &[]]);
        let origin = Origin::parse("http://hooks.example.com:8080").unwrap();
        let first = dialer.permitted(&origin, false).await.unwrap();
        assert_eq!(first, ["1.1.1.1:8080".parse().unwrap()]);
        let second = dialer.permitted(&origin, false).await;
        assert!(matches!(second, Err(Error::DestinationIpProhibited)), "{second:?}");
        // What is public of a mixed answer may be dialled, and nothing else of it.
        let third = dialer.permitted(&origin, false).await.unwrap();
        assert_eq!(third, ["8.8.8.8:8080".parse().unwrap()]);
        assert_eq!(dialer.stats.snapshot().http_addresses_denied, 3);
        let fourth = dialer.permitted(&origin, false).await;
        assert!(matches!(fourth, Err(Error::DnsError { .. })), "{fourth:?}");
    }

    #[tokio::test]
    async fn a_literal_address_is_checked_without_asking_anyone() {
        let dialer = dialer(&[]);
        let metadata = Origin::parse("http://169.254.169.254").unwrap();
        assert!(matches!(dialer.permitted(&metadata, false).await, Err(Error::DestinationIpProhibited)));
        assert_eq!(dialer.permitted(&metadata, true).await.unwrap().len(), 1);
    }
}
