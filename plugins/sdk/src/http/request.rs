//! One request, from its parts to the answer.

use std::time::Duration;

use super::error::{self, Error, Fault};
use super::response::{Response, read};
use crate::bindings::destination::wasi::http::outgoing_handler;
use crate::bindings::destination::wasi::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use crate::deadline::Deadline;

const BODY_BYTES: usize = 64 << 10;

/// A request to be sent once.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    timeout: Duration,
    body_bytes: usize,
    body_time: Option<Duration>,
}

impl Request {
    /// `url` is absolute: `http://` or `https://`.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: Duration::from_secs(9),
            body_bytes: BODY_BYTES,
            body_time: None,
        }
    }

    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    pub fn put(url: impl Into<String>) -> Self {
        Self::new("PUT", url)
    }

    /// `content-length` is written by [`send`](Self::send).
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Of the whole request, answer included; 9 seconds where nothing is said, which fits the default
    /// budget of a call. Better: `event.time_for_a_request(None)`.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// How much of the answer's body is kept (64 KiB), and how long it is waited for: to the timeout, or
    /// less. What comes too late or is too much is cut, which [`Response::is_whole`] tells.
    pub fn keep(self, bytes: usize, time: Option<Duration>) -> Self {
        Self { body_bytes: bytes, body_time: time, ..self }
    }

    /// Sends it and waits for the answer, whatever its status.
    pub fn send(self) -> Result<Response, Error> {
        let deadline = Deadline::after(self.timeout);
        let target = Target::parse(&self.url)?;
        let (request, body) = self.prepare(&target)?;
        let fail = |error| error::of(error, target.authority);
        let response = outgoing_handler::handle(request, Some(self.options())).map_err(fail)?;
        write(body, &self.body, &response, &deadline)?;
        deadline.wait(&[&response.subscribe()]);
        let response = response.get().ok_or_else(|| error::timed_out(self.timeout))?;
        let response = response.map_err(|()| fail(ErrorCode::InternalError(None)))?.map_err(fail)?;
        Ok(read(response, &deadline, self.body_bytes, self.body_time))
    }

    fn prepare(&self, target: &Target) -> Result<(OutgoingRequest, OutgoingBody), Error> {
        let mut headers = self.headers.clone();
        // Without it the body goes out in chunks, which some receivers do not take.
        headers.push(("content-length".to_owned(), self.body.len().to_string().into_bytes()));
        let headers = Fields::from_list(&headers)
            .map_err(|error| unsendable(format!("the host refuses a header of the settings: {error:?}")))?;
        let request = OutgoingRequest::new(headers);
        request
            .set_method(&method(&self.method))
            .and_then(|()| request.set_scheme(Some(&target.scheme)))
            .and_then(|()| request.set_authority(Some(target.authority)))
            .and_then(|()| request.set_path_with_query(Some(&target.path_with_query)))
            .map_err(|()| unsendable("the host refuses the address or the method of the settings"))?;
        let body = request.body().map_err(|()| unsendable("the host refuses a body"))?;
        Ok((request, body))
    }

    fn options(&self) -> RequestOptions {
        let options = RequestOptions::new();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // A connection that takes as long as the whole may: reported by the host before our own timer
        // ends the request, which then is known not to have left. A host without such timeouts may refuse.
        let _ = options.set_connect_timeout(Some(nanos(self.timeout / 2)));
        let _ = options.set_first_byte_timeout(Some(nanos(self.timeout)));
        let _ = options.set_between_bytes_timeout(Some(nanos(self.timeout)));
        options
    }
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "PATCH" => Method::Patch,
        "DELETE" => Method::Delete,
        other => Method::Other(other.to_owned()),
    }
}

fn unsendable(what: impl Into<String>) -> Error {
    Error::new(Fault::Unsendable, "invalid-request", what)
}

/// The parts of an absolute URL that a request is made of.
struct Target<'a> {
    scheme: Scheme,
    authority: &'a str,
    path_with_query: String,
}

impl<'a> Target<'a> {
    fn parse(url: &'a str) -> Result<Self, Error> {
        let scheme_of =
            |prefix: &str| url.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix));
        let (scheme, rest) = match url {
            _ if scheme_of("https://") => (Scheme::Https, &url["https://".len()..]),
            _ if scheme_of("http://") => (Scheme::Http, &url["http://".len()..]),
            _ => return Err(unsendable(format!("{url:?} is no URL; it begins with http:// or https://"))),
        };
        // A fragment is the client's own and is never sent.
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path_with_query = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        match authority.is_empty() {
            true => Err(unsendable(format!("{url:?} names no host"))),
            false => Ok(Self { scheme, authority, path_with_query }),
        }
    }
}

/// Writes the body until it is out or an answer comes first; the answer then says what that means.
fn write(
    body: OutgoingBody,
    mut bytes: &[u8],
    response: &FutureIncomingResponse,
    deadline: &Deadline,
) -> Result<(), Error> {
    let Ok(stream) = body.write() else {
        return Err(unsendable("the body was already taken"));
    };
    let answered = response.subscribe();
    let writable = stream.subscribe();
    while !bytes.is_empty() {
        let room = match stream.check_write() {
            Ok(room) => usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len()),
            // The connection is gone; the response tells why.
            Err(_) => break,
        };
        if room == 0 {
            deadline.wait(&[&writable, &answered]);
            if answered.ready() || deadline.has_passed() {
                break;
            }
            continue;
        }
        let (chunk, rest) = bytes.split_at(room);
        if stream.write(chunk).is_err() {
            break;
        }
        bytes = rest;
    }
    drop(writable);
    drop(stream);
    if bytes.is_empty() {
        // An error here is the response's error too.
        let _ = OutgoingBody::finish(body, None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (bool, &str, String) {
        let target = Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        (matches!(target.scheme, Scheme::Https), target.authority, target.path_with_query)
    }

    #[test]
    fn a_url_is_taken_apart_as_a_request_needs_it() {
        assert_eq!(parts("https://a.example:8443/x/y?z=1#top"), (true, "a.example:8443", "/x/y?z=1".into()));
        assert_eq!(parts("HTTP://[::1]:80"), (false, "[::1]:80", "/".into()));
        assert_eq!(parts("http://a?q=/b"), (false, "a", "/?q=/b".into()));
    }

    #[test]
    fn what_is_no_url_is_a_fault_of_the_settings() {
        for url in ["", "ftp://a/", "a.example/x", "https:///x", "http"] {
            let error = Target::parse(url).err().unwrap_or_else(|| panic!("{url:?} parsed"));
            assert_eq!(error.fault, Fault::Unsendable, "{url:?}");
        }
    }
}
