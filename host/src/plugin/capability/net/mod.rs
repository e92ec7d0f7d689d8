//! `outhaul:net`: connections to endpoints the operator named, with TLS by the host, as plain
//! streams of bytes. For plugins that speak a broker's protocol, in any language.

mod start;
mod streams;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wasmtime::component::Resource;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream};

pub use self::start::TlsStart;
use self::streams::{Input, Output};
use self::wire::Wire;
use super::denials::{Denials, Denied};
use super::dial::{DialError, Dialer, Outside, Target, Transport, not_public, tls};
use crate::clock::SharedClock;
use crate::plugin::bindings::net::{ConnectError, Connection, Host, HostTlsStart};
use crate::plugin::endpoint::{AddressPattern, HostPort};
use crate::plugin::spec::{NetGrant, NetLimits, NetTls, PluginSpec};
use crate::plugin::state::GuestState;
use crate::plugin::stats::Stats;

/// The endpoints of one destination.
pub struct Endpoints {
    destination: String,
    granted: BTreeMap<String, Endpoint>,
    limits: NetLimits,
    dialer: Dialer,
    denials: Arc<Denials>,
    stats: Arc<Stats>,
}

/// An endpoint the operator granted, ready to dial.
struct Endpoint {
    address: HostPort,
    also: Vec<AddressPattern>,
    is_private: bool,
    begins: NetTls,
    tls: Option<Arc<rustls::ClientConfig>>,
    /// The section of the config, for messages.
    section: String,
}

impl Endpoint {
    fn new(given: &NetGrant, section: String) -> Result<Self, String> {
        let tls = match given.tls {
            NetTls::AtOnce | NetTls::Start => {
                Some(tls::config(given.roots.as_ref(), given.client_cert.as_ref(), &[])?)
            }
            NetTls::None if given.roots.is_some() || given.client_cert.is_some() => {
                return Err("roots and client_cert are for TLS; add  tls = true  or remove them".to_owned());
            }
            NetTls::None => None,
        };
        let also = given.also.iter().map(|also| AddressPattern::parse(also)).collect::<Result<_, _>>()?;
        let address = HostPort::parse(&given.address)?;
        Ok(Self { address, also, is_private: given.private, begins: given.tls, tls, section })
    }

    fn leads_to(&self, asked: &HostPort) -> bool {
        *asked == self.address || self.also.iter().any(|pattern| pattern.matches(asked))
    }
}

impl Endpoints {
    pub fn new(
        spec: &PluginSpec,
        stats: Arc<Stats>,
        denials: Arc<Denials>,
        outside: Outside,
        clock: SharedClock,
    ) -> Result<Self, String> {
        let destination = spec.destination.clone();
        let mut granted = BTreeMap::new();
        for (name, given) in &spec.net {
            let section = format!("[destination.{destination}.net.{name}]");
            let endpoint =
                Endpoint::new(given, section).map_err(|problem| format!("net \"{name}\": {problem}"))?;
            granted.insert(name.clone(), endpoint);
        }
        let limits = spec.limits.net.clone();
        let dialer = Dialer {
            outside,
            connect_timeout: limits.connect,
            tls_timeout: limits.tls,
            clock,
            denials: denials.clone(),
        };
        Ok(Self { destination, granted, limits, dialer, denials, stats })
    }

    async fn connect(
        &self,
        name: &str,
        address: Option<&str>,
        open: &OpenConnections,
        ends_at: Duration,
    ) -> Result<Dialled, ConnectError> {
        let endpoint = self.granted.get(name).ok_or_else(|| self.unknown(name))?;
        let address = match address {
            None => endpoint.address.clone(),
            Some(asked) => self.chosen(name, endpoint, asked)?,
        };
        let place = open.take(self.limits.connections).ok_or_else(|| self.too_many(name))?;
        let target = Target {
            address: &address,
            is_private: endpoint.is_private,
            tls: endpoint.tls.as_ref().filter(|_| endpoint.begins == NetTls::AtOnce),
            kind: Denied::Net,
            section: &endpoint.section,
        };
        match self.dialer.dial(target, self.halfway(ends_at)).await {
            Ok(transport) => {
                self.stats.net_connections_opened.add_one();
                Ok(Dialled { transport, place, address })
            }
            Err(error) => {
                self.stats.net_connections_failed.add_one();
                Err(connect_error(&format!("endpoint \"{name}\" ({address})"), error, &endpoint.section))
            }
        }
    }

    /// Until when a connection may take to be made: a call that ends with it can't say what happened, and gets no
    /// other try elsewhere.
    fn halfway(&self, ends_at: Duration) -> Duration {
        let now = self.dialer.clock.since_boot();
        now + ends_at.saturating_sub(now) / 2
    }

    /// The endpoint and its TLS, where the protocol starts it.
    fn started_tls(&self, name: &str) -> Option<(&Endpoint, &Arc<rustls::ClientConfig>)> {
        let endpoint = self.granted.get(name).filter(|endpoint| endpoint.begins == NetTls::Start)?;
        Some((endpoint, endpoint.tls.as_ref()?))
    }

    /// A plugin that can't start TLS would speak in the clear where the operator wants it protected.
    fn not_in_clear(&self, name: &str) -> Result<(), ConnectError> {
        let Some((endpoint, _)) = self.started_tls(name) else { return Ok(()) };
        Err(ConnectError::Denied(format!(
            "endpoint \"{name}\" has  tls = \"start\" , and this plugin's protocol does not start TLS by itself; write  \
             tls = true  in {}, for TLS from the first byte",
            endpoint.section
        )))
    }

    /// One of the further addresses an endpoint may lead to.
    fn chosen(&self, name: &str, endpoint: &Endpoint, asked: &str) -> Result<HostPort, ConnectError> {
        let address = HostPort::parse(asked).map_err(ConnectError::Denied)?;
        if endpoint.leads_to(&address) {
            return Ok(address);
        }
        let fix = format!("add  also = [\"{address}\"]  to {}", endpoint.section);
        self.denials.deny(Denied::Net, &format!("{name} at {address}"), &fix);
        let own = &endpoint.address;
        Err(ConnectError::Denied(format!("endpoint \"{name}\" leads to {own}, and not to {address}; {fix}")))
    }

    fn unknown(&self, name: &str) -> ConnectError {
        let destination = &self.destination;
        let fix =
            format!("add a section [destination.{destination}.net.{name}] with  address = \"host:port\"");
        self.denials.deny(Denied::Net, name, &fix);
        let known: Vec<&str> = self.granted.keys().map(String::as_str).collect();
        let known = match known.is_empty() {
            true => String::new(),
            false => format!(" (its endpoints: {})", known.join(", ")),
        };
        ConnectError::Denied(format!(
            "endpoint \"{name}\" is not granted to destination \"{destination}\"{known}; {fix}"
        ))
    }

    fn too_many(&self, name: &str) -> ConnectError {
        let (most, destination) = (self.limits.connections, &self.destination);
        let fix = format!(
            "close those that are no longer used, or raise  connections  in [destination.{destination}.limits.net]"
        );
        self.denials.deny(Denied::Net, &format!("{name}, one connection too many"), &fix);
        ConnectError::Denied(format!(
            "this instance has {most} connections open, and may have no more; {fix}"
        ))
    }
}

/// In one sentence that names the endpoint, so that a plugin can hand it on as it is.
fn connect_error(what: &str, error: DialError, section: &str) -> ConnectError {
    let text = format!("{what}: {error}");
    match error {
        DialError::Prohibited(_) => ConnectError::Denied(format!("{text}; {}", not_public(section))),
        DialError::Unresolvable(_)
        | DialError::Refused
        | DialError::Unreachable
        | DialError::HandshakeBroken
        | DialError::Offline => ConnectError::Unreachable(text),
        DialError::Certificate(_) => {
            let fix = "if its authority is your own, name its certificate with  roots = \"ca.pem\"";
            ConnectError::Tls(format!("{text}; {fix}  in {section}"))
        }
        DialError::NotTls => ConnectError::Tls(format!(
            "{text}; if its protocol starts TLS after a talk in the clear, write  tls = \"start\"  in {section}"
        )),
        DialError::Alert(_) | DialError::Tls(_) => ConnectError::Tls(text),
        DialError::ResolveTimeout | DialError::ConnectTimeout | DialError::HandshakeTimeout => {
            ConnectError::Timeout(text)
        }
    }
}

/// How many connections one instance has open.
#[derive(Clone, Default)]
pub struct OpenConnections(Arc<AtomicU32>);

impl OpenConnections {
    fn take(&self, most: u32) -> Option<Place> {
        let open = self.0.fetch_add(1, Ordering::Relaxed);
        // Dropped again, if it is one too many.
        let place = Place(self.0.clone());
        (open < most).then_some(place)
    }
}

/// One of the connections an instance may have open; given back when both its streams are gone.
struct Place(Arc<AtomicU32>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that was made, and for which endpoint's address.
struct Dialled {
    transport: Box<dyn Transport>,
    place: Place,
    address: HostPort,
}

impl GuestState {
    async fn dial(
        &mut self,
        endpoint: &str,
        address: Option<&str>,
    ) -> wasmtime::Result<Result<(Connection, Arc<Wire>, HostPort), ConnectError>> {
        let endpoints = self.endpoints.clone();
        let dialled = endpoints.connect(endpoint, address, &self.connections, self.deadline()).await;
        let Dialled { transport, place, address } = match dialled {
            Ok(dialled) => dialled,
            Err(error) => return Ok(Err(error)),
        };
        let (wire, place) = (Wire::over(transport), Arc::new(place));
        let stats = &endpoints.stats;
        let input: DynInputStream = Box::new(Input::new(wire.half(), stats.clone(), place.clone()));
        let output: DynOutputStream = Box::new(Output::new(wire.half(), stats.clone(), place));
        let table = self.table();
        let (input, output) = (table.push(input)?, table.push(output)?);
        Ok(Ok((Connection { input, output, tls: None }, wire, address)))
    }
}

impl Host for GuestState {
    async fn connect(
        &mut self,
        endpoint: String,
        address: Option<String>,
    ) -> wasmtime::Result<Result<(Resource<DynInputStream>, Resource<DynOutputStream>), ConnectError>> {
        if let Err(error) = self.endpoints.not_in_clear(&endpoint) {
            return Ok(Err(error));
        }
        let dialled = self.dial(&endpoint, address.as_deref()).await?;
        Ok(dialled.map(|(connection, ..)| (connection.input, connection.output)))
    }

    async fn connect_in_clear(
        &mut self,
        endpoint: String,
        address: Option<String>,
    ) -> wasmtime::Result<Result<Connection, ConnectError>> {
        let (mut connection, wire, address) = match self.dial(&endpoint, address.as_deref()).await? {
            Ok(dialled) => dialled,
            Err(error) => return Ok(Err(error)),
        };
        if self.endpoints.started_tls(&endpoint).is_some() {
            let start = TlsStart::of(&wire, endpoint, address);
            connection.tls = Some(self.table().push(start)?);
        }
        Ok(Ok(connection))
    }
}

impl HostTlsStart for GuestState {
    async fn start(&mut self, this: Resource<TlsStart>) -> wasmtime::Result<Result<(), ConnectError>> {
        let start = self.table().delete(this)?;
        let (endpoints, ends_at) = (self.endpoints.clone(), self.deadline());
        Ok(start.start(&endpoints, ends_at).await)
    }

    async fn drop(&mut self, this: Resource<TlsStart>) -> wasmtime::Result<()> {
        self.table().delete(this)?;
        Ok(())
    }
}
