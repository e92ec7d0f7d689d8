//! `wasi:http/outgoing-handler` through the host's own client: granted origins only, addresses
//! checked when dialled, secrets injected, redirects never followed, nothing decompressed, and
//! every time and size bounded.

mod body;
mod dialled;
mod handler;
mod origin;
mod pool;
mod scripted;
mod send;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request, Response};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

pub use self::handler::add_to_linker;
use self::origin::Origin;
use self::pool::ConnectionPool;
use super::denials::{Denials, Denied};
use super::dial::{Dialer, Outside, Target, tls};
use super::secrets::Secret;
use crate::clock::SharedClock;
use crate::plugin::endpoint::HostPort;
use crate::plugin::offline::Offline;
use crate::plugin::spec::{HttpGrant, HttpLimits, PluginSpec};
use crate::plugin::stats::Stats;

/// The most one write to a request's body takes; with the few that are queued, what a request
/// holds of the host's memory.
const REQUEST_CHUNK_BYTES: usize = 64 << 10;

/// The client of one destination.
pub struct HttpClient {
    limits: HttpLimits,
    grants: HashMap<Origin, Grant>,
    pool: Arc<ConnectionPool>,
    offline: Option<Offline>,
    stats: Arc<Stats>,
    clock: SharedClock,
    denials: Arc<Denials>,
}

/// An origin the operator granted, ready to dial.
pub struct Grant {
    origin: Origin,
    address: HostPort,
    is_private: bool,
    /// The section of the config, for messages.
    section: String,
    tls: Option<Arc<rustls::ClientConfig>>,
    headers: Vec<(HeaderName, Secret)>,
}

/// Whether two spellings name one origin.
pub fn same_origin(one: &str, other: &str) -> bool {
    matches!((Origin::parse(one), Origin::parse(other)), (Ok(one), Ok(other)) if one == other)
}

impl HttpClient {
    pub fn new(
        spec: &PluginSpec,
        stats: Arc<Stats>,
        denials: Arc<Denials>,
        outside: Outside,
        clock: SharedClock,
    ) -> Result<Self, String> {
        let mut grants = HashMap::new();
        for given in &spec.http {
            let grant = Grant::new(given, &spec.destination)
                .map_err(|problem| format!("http \"{}\": {problem}", given.origin))?;
            if let Some(first) = grants.insert(grant.origin.clone(), grant) {
                return Err(format!(
                    "the origin {} is granted twice; join the two [[http]] sections",
                    first.origin
                ));
            }
        }
        let limits = spec.limits.http.clone();
        let offline = outside.offline.clone();
        let dialer = Dialer {
            outside,
            connect_timeout: limits.connect,
            tls_timeout: limits.tls,
            clock: clock.clone(),
            denials: denials.clone(),
        };
        let pool = Arc::new(ConnectionPool::new(limits.clone(), dialer, stats.clone(), clock.clone()));
        Ok(Self { limits, grants, pool, offline, stats, clock, denials })
    }

    /// The generation it serves was replaced: connections end with their requests.
    pub fn retire(&self) {
        self.pool.close();
    }

    fn grant(&self, request: &Request<WasiBody>) -> Result<&Grant, Error> {
        let origin = Origin::of(request.uri());
        match origin.as_ref().and_then(|origin| self.grants.get(origin)) {
            Some(grant) => Ok(grant),
            None => {
                let asked = origin.map_or_else(|| request.uri().to_string(), |origin| origin.to_string());
                if let Some(offline) = &self.offline {
                    offline.answers.unreached(Denied::Http.as_str(), &asked);
                }
                let destination = self.denials.destination();
                let fix =
                    format!("add a section [[destination.{destination}.http]] with  origin = \"{asked}\"");
                self.denials.deny(Denied::Http, &asked, &fix);
                Err(Error::HttpRequestDenied)
            }
        }
    }
}

impl Grant {
    fn new(given: &HttpGrant, destination: &str) -> Result<Self, String> {
        let origin = Origin::parse(&given.origin)?;
        if !origin.is_https && (given.roots.is_some() || given.client_cert.is_some()) {
            return Err(
                "roots and client_cert are for https origins; write https:// or remove them".to_owned()
            );
        }
        let tls = match origin.is_https {
            true => Some(tls::config(given.roots.as_ref(), given.client_cert.as_ref(), &["http/1.1"])?),
            false => None,
        };
        let headers = given
            .headers
            .iter()
            .map(|(name, source)| {
                let secret = Secret::read(source).map_err(|problem| format!("header {name}: {problem}"))?;
                let header: HeaderName =
                    name.parse().map_err(|_| format!("\"{name}\" is not a header's name"))?;
                header_value(&secret).map_err(|problem| format!("header {name}: {problem}"))?;
                Ok((header, secret))
            })
            .collect::<Result<Vec<_>, String>>()?;
        let section = format!("the [[destination.{destination}.http]] of {origin}");
        let address = origin.address();
        Ok(Self { origin, address, is_private: given.private, section, tls, headers })
    }

    fn target(&self) -> Target<'_> {
        Target {
            address: &self.address,
            is_private: self.is_private,
            tls: self.tls.as_ref(),
            kind: Denied::Http,
            section: &self.section,
        }
    }

    /// Sets the secret headers over whatever the guest set under the same names.
    fn inject(&self, request: &mut Request<WasiBody>) -> Result<(), Error> {
        for (name, secret) in &self.headers {
            let value = header_value(secret).map_err(|problem| {
                tracing::error!(origin = %self.origin, header = %name, problem, "a secret header can't be sent");
                Error::ConfigurationError
            })?;
            request.headers_mut().insert(name.clone(), value);
        }
        Ok(())
    }
}

fn header_value(secret: &Secret) -> Result<HeaderValue, &'static str> {
    let mut value = HeaderValue::from_bytes(secret.get().as_bytes())
        .map_err(|_| "its secret holds a character that a header can't have, such as a new line")?;
    value.set_sensitive(true);
    Ok(value)
}

/// What `wasi:http` asks of its host; one an instance.
pub struct HttpHooks {
    client: Arc<HttpClient>,
    /// In time since boot.
    pub call_ends_at: Duration,
}

impl HttpHooks {
    pub fn new(client: Arc<HttpClient>) -> Self {
        Self { client, call_ends_at: Duration::MAX }
    }
}

type Exchange = (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for HttpHooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _reading: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Exchange, Error>> + Send> {
        let (client, call_ends_at) = (self.client.clone(), self.call_ends_at);
        Box::new(async move {
            let response = client.send(request, options.unwrap_or_default(), call_ends_at).await?;
            // The connection is driven by a task of its own.
            let nothing_to_drive: Box<dyn Future<Output = _> + Send> = Box::new(std::future::ready(Ok(())));
            Ok((response, nothing_to_drive))
        })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        REQUEST_CHUNK_BYTES
    }
}
