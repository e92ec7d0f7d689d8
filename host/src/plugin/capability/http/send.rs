//! One request and its response. The error tells the guest on which side of the line it failed:
//! before anything of the request left, or after, when the effect may have happened.

use std::time::Duration;

use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::body::{DrainOnDrop, ResponseBody};
use super::dialled::certificate_refused;
use super::pool::Checkout;
use super::{Grant, HttpClient, scripted};
use crate::plugin::capability::waits_until;

impl HttpClient {
    pub async fn send(
        &self,
        mut request: Request<WasiBody>,
        options: RequestOptions,
        call_ends_at: Duration,
    ) -> Result<Response<WasiBody>, Error> {
        self.stats.http_requests.add_one();
        let grant = self.grant(&request)?;
        if request.method() == Method::CONNECT {
            // A tunnel would lead past every check.
            return Err(Error::HttpRequestMethodInvalid);
        }
        grant.inject(&mut request)?;
        if let Some(offline) = &self.offline {
            return scripted::exchange(offline, &self.limits, request).await;
        }
        to_origin_form(&mut request)?;

        let now = self.clock.since_boot();
        let (ends_at, waits_until) = (now + self.limits.total, waits_until(call_ends_at, now));
        let (head, connection) = self.exchange(grant, request, options, ends_at, waits_until).await?;
        self.check_headers(&head)?;
        let total_left = ends_at.saturating_sub(self.clock.since_boot());
        let between = at_most(options.between_bytes_timeout, self.limits.total);
        let (bytes_max, trailer_bytes_max) = (self.limits.response_body_bytes, self.limits.header_bytes);
        Ok(head.map(|incoming| {
            let body =
                ResponseBody::new(incoming, connection, bytes_max, trailer_bytes_max, total_left, between);
            DrainOnDrop::new(body).boxed_unsync()
        }))
    }

    /// Sends the request, once more if a kept connection turned out to be closed before any of it
    /// was written.
    async fn exchange(
        &self,
        grant: &Grant,
        mut request: Request<WasiBody>,
        options: RequestOptions,
        ends_at: Duration,
        waits_until: Duration,
    ) -> Result<(Response<Incoming>, Checkout), Error> {
        let limits = &self.limits;
        let first_byte = at_most(options.first_byte_timeout, limits.first_byte);
        // What the guest asks for covers every step before the request leaves, the wait for a
        // connection included: otherwise it would take that wait for a lost answer.
        let connect = at_most(options.connect_timeout, limits.connect + limits.tls);
        let connect_ends_at = ends_at.min(waits_until).min(self.clock.since_boot() + connect);
        loop {
            let mut connection = self.pool.checkout(grant, connect_ends_at).await?;
            let left = ends_at.saturating_sub(self.clock.since_boot());
            let sent = connection.sender().try_send_request(request);
            let mut failed = match timeout(first_byte.min(left), sent).await {
                Ok(Ok(head)) => return Ok((head, connection)),
                Ok(Err(failed)) => failed,
                Err(_) => return Err(Error::HttpResponseTimeout),
            };
            match failed.take_message() {
                Some(unsent) if connection.is_reused => request = unsent,
                Some(_) => {
                    return Err(certificate_refused(failed.error()).unwrap_or(Error::DestinationUnavailable));
                }
                None => return Err(after_sending(&failed.into_error())),
            }
        }
    }

    fn check_headers(&self, head: &Response<Incoming>) -> Result<(), Error> {
        let headers = head.headers();
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > self.limits.header_bytes || headers.len() > self.limits.headers {
            return Err(Error::HttpResponseHeaderSectionSize(u32::try_from(bytes).ok()));
        }
        Ok(())
    }
}

/// The guest may ask for less time than it is allowed, never for more.
fn at_most(asked: Option<Duration>, allowed: Duration) -> Duration {
    asked.map_or(allowed, |asked| asked.min(allowed))
}

/// A server is sent the path only; the rest of the address chose the connection.
fn to_origin_form(request: &mut Request<WasiBody>) -> Result<(), Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| Error::HttpRequestUriInvalid)?;
    Ok(())
}

/// What hyper found wrong once bytes of the request may have left.
fn after_sending(error: &hyper::Error) -> Error {
    if error.is_parse_too_large() {
        Error::HttpResponseHeaderSectionSize(None)
    } else if error.is_parse() {
        Error::HttpProtocolError
    } else if error.is_user() || error.is_body_write_aborted() {
        // The guest gave up its own body.
        Error::InternalError(Some("the request's body ended before its end".to_owned()))
    } else {
        certificate_refused(error).unwrap_or(Error::ConnectionTerminated)
    }
}
