//! A connection to what the operator granted: names resolved by the host, every address checked when
//! it is dialled, each step bounded. For origins, named endpoints and sockets alike; an error of this
//! module means that nothing of the plugin's was sent.

mod address;
pub mod tls;

use std::fmt;
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

pub use self::address::is_public;
use super::denials::{Denials, Denied};
use crate::clock::SharedClock;
use crate::plugin::endpoint::HostPort;
use crate::plugin::offline::Offline;

pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Names to addresses; asked at every dial, because a name may turn to another address.
#[async_trait]
pub trait Resolve: Send + Sync {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

pub type SharedResolver = Arc<dyn Resolve>;

/// What lies beyond this machine.
#[derive(Clone)]
pub struct Outside {
    pub resolver: SharedResolver,
    /// Nothing is resolved or dialled where this stands in for it.
    pub offline: Option<Offline>,
}

/// The system's resolver.
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

/// Where a dial goes, and what of the config allows it.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub address: &'a HostPort,
    /// It may lead to a private, loopback or link-local address.
    pub is_private: bool,
    pub tls: Option<&'a Arc<rustls::ClientConfig>>,
    pub kind: Denied,
    /// The part of the config that grants it, for messages.
    pub section: &'a str,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum DialError {
    ResolveTimeout,
    Unresolvable(String),
    /// It leads to this address, which is not public, and to no other.
    Prohibited(IpAddr),
    Refused,
    Unreachable,
    ConnectTimeout,
    /// The certificate is not one that can be trusted.
    Certificate(rustls::Error),
    /// The other side ended the handshake.
    Alert(rustls::AlertDescription),
    Tls(String),
    /// What came back is no TLS.
    NotTls,
    HandshakeTimeout,
    /// The connection ended in the middle of it.
    HandshakeBroken,
    /// Nothing leaves this machine.
    Offline,
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResolveTimeout => write!(f, "its name was not resolved in time"),
            Self::Unresolvable(why) => write!(f, "its name can't be resolved: {why}"),
            Self::Prohibited(address) => write!(f, "it leads to {address}, which is not a public address"),
            Self::Refused => write!(f, "the connection was refused: nothing listens there"),
            Self::Unreachable => write!(f, "it can't be reached"),
            Self::ConnectTimeout => write!(f, "no connection was made in time"),
            Self::Certificate(why) => write!(f, "its certificate is not trusted: {why}"),
            Self::Alert(alert) => write!(f, "it ended the TLS handshake with the alert {alert:?}"),
            Self::Tls(why) => write!(f, "the TLS handshake failed: {why}"),
            Self::NotTls => write!(f, "it does not speak TLS there, or not at once"),
            Self::HandshakeTimeout => write!(f, "the TLS handshake did not end in time"),
            Self::HandshakeBroken => write!(f, "the connection was closed during the TLS handshake"),
            Self::Offline => write!(f, "nothing is connected to while this runs offline"),
        }
    }
}

#[derive(Clone)]
pub struct Dialer {
    pub outside: Outside,
    /// Of resolving and connecting together.
    pub connect_timeout: Duration,
    pub tls_timeout: Duration,
    pub clock: SharedClock,
    pub denials: Arc<Denials>,
}

impl Dialer {
    /// Each step has its own limit, and all of them end at `ends_at` (since boot).
    pub async fn dial(&self, target: Target<'_>, ends_at: Duration) -> Result<Box<dyn Transport>, DialError> {
        if let Some(offline) = &self.outside.offline {
            offline.answers.unreached(target.kind.as_str(), &target.address.to_string());
            return Err(DialError::Offline);
        }
        let connect_ends_at = ends_at.min(self.clock.since_boot() + self.connect_timeout);
        let addresses = timeout(self.left(connect_ends_at), self.permitted(target))
            .await
            .map_err(|_| DialError::ResolveTimeout)??;
        let tcp = connect(&addresses, self.left(connect_ends_at)).await?;
        // Messages go out in pieces, and waiting to gather them only delays them.
        let _ = tcp.set_nodelay(true);
        match target.tls {
            None => Ok(Box::new(tcp)),
            Some(tls) => self.secure(tcp, tls, &target.address.host, ends_at).await,
        }
    }

    /// Makes TLS over a connection to `host`, which is the name that its certificate must prove.
    pub async fn secure(
        &self,
        transport: impl Transport + 'static,
        tls: &Arc<rustls::ClientConfig>,
        host: &str,
        ends_at: Duration,
    ) -> Result<Box<dyn Transport>, DialError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| DialError::Tls(format!("{host} can't be a certificate's name")))?;
        let handshake = TlsConnector::from(tls.clone()).connect(name, transport);
        match timeout(self.tls_timeout.min(self.left(ends_at)), handshake).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(error)) => Err(handshake_error(&error)),
            Err(_) => Err(DialError::HandshakeTimeout),
        }
    }

    fn left(&self, ends_at: Duration) -> Duration {
        ends_at.saturating_sub(self.clock.since_boot())
    }

    /// The addresses behind the target that may be dialled; at least one.
    pub async fn permitted(&self, target: Target<'_>) -> Result<Vec<SocketAddr>, DialError> {
        let HostPort { host, port } = target.address;
        let found = match target.address.ip() {
            Some(address) => vec![SocketAddr::new(address, *port)],
            None => {
                let unresolvable = |error: io::Error| DialError::Unresolvable(error.to_string());
                self.outside.resolver.resolve(host, *port).await.map_err(unresolvable)?
            }
        };
        if found.is_empty() {
            return Err(DialError::Unresolvable("it has no address".to_owned()));
        }
        if target.is_private {
            return Ok(found);
        }
        let (public, refused): (Vec<_>, Vec<_>) = found.into_iter().partition(|found| is_public(found.ip()));
        let Some(first) = refused.first() else { return Ok(public) };
        self.denials.deny(target.kind, &format!("{host} at {}", first.ip()), &not_public(target.section));
        if public.is_empty() { Err(DialError::Prohibited(first.ip())) } else { Ok(public) }
    }
}

/// What an operator does about an address that is refused.
pub fn not_public(section: &str) -> String {
    format!("the address is not public; if it is meant, add  private = true  to {section}")
}

/// Tries one address after the other; each gets its share of the time, so that a silent first one
/// does not use up all of it.
async fn connect(addresses: &[SocketAddr], connect_timeout: Duration) -> Result<TcpStream, DialError> {
    let share = connect_timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = DialError::Unreachable;
    for address in addresses {
        last = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => DialError::Refused,
            Ok(Err(_)) => DialError::Unreachable,
            Err(_) => DialError::ConnectTimeout,
        };
    }
    Err(last)
}

fn handshake_error(error: &io::Error) -> DialError {
    match tls::rustls_error(error) {
        Some(found @ rustls::Error::InvalidCertificate(_)) => DialError::Certificate(found.clone()),
        Some(rustls::Error::AlertReceived(alert)) => DialError::Alert(*alert),
        Some(rustls::Error::InvalidMessage(_)) => DialError::NotTls,
        Some(_) => DialError::Tls(error.to_string()),
        // Nothing was said against it: whoever answered went away, as a proxy does whose server is down.
        None => DialError::HandshakeBroken,
    }
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
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        Dialer {
            outside: Outside { resolver: Arc::new(Scripted(Mutex::new(answers))), offline: None },
            connect_timeout: Duration::from_secs(5),
            tls_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            denials: Arc::new(Denials::new("hook".to_owned())),
        }
    }

    fn target(address: &HostPort, is_private: bool) -> Target<'_> {
        Target { address, is_private, tls: None, kind: Denied::Http, section: "[[destination.hook.http]]" }
    }

    #[tokio::test]
    async fn s26_a_name_that_turns_private_is_refused_at_the_dial_that_sees_it() {
        let dialer =
            dialer(&[&["1.1.1.1"], &["127.0.0.1"], &["10.0.0.1", "8.8.8.8", "::ffff:10.0.0.1"], &[]]);
        let address = HostPort::parse("hooks.example.com:8080").unwrap();
        let first = dialer.permitted(target(&address, false)).await.unwrap();
        assert_eq!(first, ["1.1.1.1:8080".parse().unwrap()]);
        let second = dialer.permitted(target(&address, false)).await;
        assert!(matches!(second, Err(DialError::Prohibited(_))), "{second:?}");
        // What is public of a mixed answer may be dialled, and nothing else of it.
        let third = dialer.permitted(target(&address, false)).await.unwrap();
        assert_eq!(third, ["8.8.8.8:8080".parse().unwrap()]);
        assert!(dialer.denials.counts().contains(&("http", 2)));
        let fourth = dialer.permitted(target(&address, false)).await;
        assert!(matches!(fourth, Err(DialError::Unresolvable(_))), "{fourth:?}");
    }

    #[tokio::test]
    async fn a_literal_address_is_checked_without_asking_anyone() {
        let dialer = dialer(&[]);
        let metadata = HostPort::parse("169.254.169.254:80").unwrap();
        let refused = dialer.permitted(target(&metadata, false)).await;
        assert!(matches!(refused, Err(DialError::Prohibited(_))), "{refused:?}");
        assert_eq!(dialer.permitted(target(&metadata, true)).await.unwrap().len(), 1);
    }
}
