//! The three questions a pull asks, over the host's own connections: a token, a manifest, a blob.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::PullError;
use super::challenge::{Challenge, encoded};
use crate::clock::SharedClock;
use crate::plugin::capability::denials::Denied;
use crate::plugin::capability::dial::{Dialer, Target, tls};
use crate::plugin::capability::secrets::Secret;
use crate::plugin::endpoint::HostPort;
use crate::plugin::spec::RegistryAccess;

/// Registries send blobs from elsewhere, in one step or two.
const REDIRECTS_MAX: usize = 5;
const TOKEN_BYTES_MAX: u64 = 1 << 20;

/// Of one registry, for one pull.
pub struct Client<'a> {
    /// `host` or `host:port`.
    pub host: &'a str,
    pub access: &'a RegistryAccess,
    pub dialer: Dialer,
    pub tls: Arc<rustls::ClientConfig>,
    pub clock: SharedClock,
    /// Of the whole pull, since boot.
    pub ends_at: Duration,
    authorization: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// An answer whose body is still to come, and the connection it comes by.
struct Answer {
    response: Response<Incoming>,
    /// It came from the registry itself, and not from where a redirect led.
    is_of_registry: bool,
    _connection: AbortOnDropHandle<()>,
}

impl<'a> Client<'a> {
    pub fn new(
        host: &'a str,
        access: &'a RegistryAccess,
        dialer: Dialer,
        ends_at: Duration,
    ) -> Result<Self, PullError> {
        let tls = tls::config(access.roots.as_ref(), None, &["http/1.1"]).map_err(PullError::passing)?;
        let clock = dialer.clock.clone();
        Ok(Self { host, access, dialer, tls, clock, ends_at, authorization: None })
    }

    /// The body of `/v2/PATH`, of at most `bytes_max`.
    pub async fn get(&mut self, path: &str, accept: &str, bytes_max: u64) -> Result<Bytes, PullError> {
        let scheme = if self.access.insecure { "http" } else { "https" };
        let uri = uri(&format!("{scheme}://{}/v2/{path}", self.host))?;
        let mut answer = self.follow(&uri, accept).await?;
        let is_asked = answer.response.status() == StatusCode::UNAUTHORIZED && answer.is_of_registry;
        if is_asked && self.authorization.is_none() {
            self.authorization = self.authorize(&answer.response).await?;
            if self.authorization.is_some() {
                answer = self.follow(&uri, accept).await?;
            }
        }
        self.body(answer, bytes_max).await
    }

    async fn follow(&self, first: &Uri, accept: &str) -> Result<Answer, PullError> {
        let mut uri = first.clone();
        for _ in 0..=REDIRECTS_MAX {
            // Only the registry itself is told who asks.
            let is_registry = uri.authority() == first.authority() && uri.scheme() == first.scheme();
            let authorization = self.authorization.as_ref().filter(|_| is_registry);
            let answer = self.ask(&uri, accept, authorization).await?;
            if !answer.response.status().is_redirection() {
                return Ok(Answer { is_of_registry: is_registry, ..answer });
            }
            uri = next(&uri, answer.response.headers().get(LOCATION))?;
        }
        Err(PullError::passing(format!("{} redirects without end", self.host)))
    }

    async fn ask(
        &self,
        uri: &Uri,
        accept: &str,
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, PullError> {
        let (address, is_tls) = address(uri)?;
        if !is_tls && !self.access.insecure {
            let host = self.host;
            return Err(PullError::passing(format!(
                "{host} leads to {address} without TLS; if that is meant, add  insecure = true  to [registry.\"{host}\"]"
            )));
        }
        let unreachable = |why: String| PullError::passing(format!("{address} can't be asked: {why}"));
        let target = Target {
            address: &address,
            is_private: true,
            tls: is_tls.then_some(&self.tls),
            kind: Denied::Net,
            section: "[registry]",
        };
        let transport =
            self.dialer.dial(target, self.ends_at).await.map_err(|error| unreachable(error.to_string()))?;
        let exchange = async {
            let (mut sender, connection) = http1::handshake(TokioIo::new(transport)).await?;
            let connection = AbortOnDropHandle::new(tokio::spawn(async move {
                // Its error is also told to whoever waits for the answer.
                let _ = connection.await;
            }));
            let response = sender.send_request(request(uri, accept, authorization)).await?;
            Ok::<_, hyper::Error>(Answer { response, is_of_registry: false, _connection: connection })
        };
        let answered = timeout(self.left(), exchange).await.map_err(|_| unreachable(too_slow()))?;
        answered.map_err(|error| unreachable(error.to_string()))
    }

    /// What to send from now on; none if the registry asks for nothing that can be given.
    async fn authorize(&self, refused: &Response<Incoming>) -> Result<Option<HeaderValue>, PullError> {
        let basic = self.basic()?;
        let (realm, service, scope) = match Challenge::of(refused.headers()) {
            Some(Challenge::Basic) => return Ok(basic),
            Some(Challenge::Bearer { realm, service, scope }) => (realm, service, scope),
            None => return Ok(None),
        };
        let asks = [("service", service), ("scope", scope)];
        let asks = asks.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded(&value?))));
        let separator = if realm.contains('?') { '&' } else { '?' };
        let uri = uri(&format!("{realm}{separator}{}", asks.collect::<Vec<_>>().join("&")))?;
        let answer = self.ask(&uri, "application/json", basic.as_ref()).await?;
        let body = self.body(answer, TOKEN_BYTES_MAX).await?;
        let token = serde_json::from_slice::<Token>(&body).ok();
        let token = token.and_then(|token| token.token.or(token.access_token)).ok_or_else(|| {
            PullError::passing(format!("what gives tokens for {} answered without one", self.host))
        })?;
        Ok(Some(secret_header(&format!("Bearer {token}"))?))
    }

    fn basic(&self) -> Result<Option<HeaderValue>, PullError> {
        let (Some(username), Some(password)) = (&self.access.username, &self.access.password) else {
            return Ok(None);
        };
        let read = |key: &str, source| {
            let read = Secret::read(source).map(|secret| secret.get().as_bytes().to_vec());
            read.map_err(|why| PullError::passing(format!("registry.\"{}\".{key}: {why}", self.host)))
        };
        let pair = [read("username", username)?, b":".to_vec(), read("password", password)?].concat();
        Ok(Some(secret_header(&format!("Basic {}", STANDARD.encode(pair)))?))
    }

    async fn body(&self, answer: Answer, bytes_max: u64) -> Result<Bytes, PullError> {
        let status = answer.response.status();
        if status != StatusCode::OK {
            return Err(self.refused(status));
        }
        let limited = http_body_util::Limited::new(answer.response.into_body(), bytes_max as usize);
        match timeout(self.left(), limited.collect()).await {
            Ok(Ok(whole)) => Ok(whole.to_bytes()),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                Err(PullError::lasting(format!("{} sent more than the {bytes_max} bytes it may", self.host)))
            }
            Ok(Err(error)) => Err(PullError::passing(format!("{} broke off: {error}", self.host))),
            Err(_) => Err(PullError::passing(format!("{} can't be asked: {}", self.host, too_slow()))),
        }
    }

    fn refused(&self, status: StatusCode) -> PullError {
        let host = self.host;
        PullError::passing(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.access.username.is_none() => format!(
                "{host} wants to know who asks ({status}); add  username  and  password  to [registry.\"{host}\"]"
            ),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => format!(
                "{host} does not let this user read it ({status}); check  username  and  password  in [registry.\"{host}\"]"
            ),
            StatusCode::NOT_FOUND => {
                format!("{host} does not have it ({status}); check the name and the digest")
            }
            _ => format!("{host} answered {status}"),
        })
    }

    fn left(&self) -> Duration {
        self.ends_at.saturating_sub(self.clock.since_boot())
    }
}

fn too_slow() -> String {
    format!("the pull took longer than {} s", super::PULL_BUDGET.as_secs())
}

fn request(uri: &Uri, accept: &str, authorization: Option<&HeaderValue>) -> Request<Empty<Bytes>> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header(HOST, host)
        .header(ACCEPT, accept)
        .header(USER_AGENT, concat!("outhaul/", env!("CARGO_PKG_VERSION")));
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    request.body(Empty::new()).expect("its parts were parsed")
}

/// Where a redirect leads: to a path of the same server, or anywhere.
fn next(from: &Uri, location: Option<&HeaderValue>) -> Result<Uri, PullError> {
    let location = location.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let origin = format!(
        "{}://{}",
        from.scheme_str().unwrap_or("https"),
        from.authority().map_or("", |authority| authority.as_str())
    );
    match location.starts_with('/') && !location.starts_with("//") {
        true => uri(&format!("{origin}{location}")),
        false => uri(location),
    }
}

fn uri(text: &str) -> Result<Uri, PullError> {
    let parsed = text.parse::<Uri>().ok().filter(|uri| {
        // A user in an address would be sent as a part of the host's name.
        uri.scheme().is_some() && uri.authority().is_some_and(|whole| !whole.as_str().contains('@'))
    });
    // Never the query: it may hold a signature.
    let shown = text.split('?').next().unwrap_or_default();
    parsed.ok_or_else(|| PullError::passing(format!("it leads to {shown:?}, which is no address")))
}

/// Whom to dial, and whether by TLS.
fn address(uri: &Uri) -> Result<(HostPort, bool), PullError> {
    let (is_tls, port) = match uri.scheme_str() {
        Some("https") => (true, 443),
        Some("http") => (false, 80),
        other => return Err(PullError::passing(format!("it leads to the scheme {other:?}"))),
    };
    let host = uri.host().unwrap_or_default();
    let parsed = HostPort::parse(&format!("{host}:{}", uri.port_u16().unwrap_or(port)));
    parsed.map(|address| (address, is_tls)).map_err(PullError::passing)
}

fn secret_header(text: &str) -> Result<HeaderValue, PullError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| PullError::passing("the registry's token or this user can't be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}
