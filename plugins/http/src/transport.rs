//! One request through `wasi:http`, bounded in time, and what its failures mean.

use std::time::Duration;

use crate::component::bindings::wasi::clocks::monotonic_clock;
use crate::component::bindings::wasi::http::outgoing_handler;
use crate::component::bindings::wasi::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, RequestOptions, Scheme,
};
use crate::component::bindings::wasi::io::poll::{Pollable, poll};
use crate::component::bindings::wasi::io::streams::InputStream;
use crate::message::Message;
use crate::settings::{Settings, Target};
use crate::verdict::{Answer, Fault, Verdict};

/// Of the answer's body, this much is shown to people.
const EXCERPT_BYTES: usize = 300;

/// A body that is read to its end leaves the connection usable. One that is longer, or slower than
/// this, costs more to wait for than a new connection does.
const DRAIN_BYTES: u64 = 256 << 10;
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Sends the message and returns the answer, or the verdict if there is none.
pub fn send(settings: &Settings, message: &Message, timeout: Duration) -> Result<Answer, Verdict> {
    let deadline = Deadline::after(timeout);
    let (request, body) = prepare(settings, message)?;
    let fail = |error| failed(error, &settings.url);
    let response = outgoing_handler::handle(request, Some(options(timeout))).map_err(fail)?;
    write(body, &message.body, &response, &deadline)?;
    wait(&[&response.subscribe()], &deadline);
    let response = response.get().ok_or_else(|| timed_out(timeout))?;
    let response = response.map_err(|()| fail(ErrorCode::InternalError(None)))?.map_err(fail)?;
    Ok(read_answer(response, &deadline))
}

fn prepare(settings: &Settings, message: &Message) -> Result<(OutgoingRequest, OutgoingBody), Verdict> {
    let mut headers: Vec<(String, Vec<u8>)> = message
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect();
    // Without it the body goes out in chunks, which some receivers do not take.
    headers.push(("content-length".to_owned(), message.body.len().to_string().into_bytes()));
    let unsendable = |what: &str| Fault::Unsendable.verdict("invalid-request", what.to_owned());
    let headers = Fields::from_list(&headers)
        .map_err(|error| unsendable(&format!("the host refuses a header of the settings: {error:?}")))?;
    let request = OutgoingRequest::new(headers);
    let method = match settings.method.as_str() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "PATCH" => Method::Patch,
        "DELETE" => Method::Delete,
        other => Method::Other(other.to_owned()),
    };
    let scheme = if settings.url.is_https { Scheme::Https } else { Scheme::Http };
    request
        .set_method(&method)
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(Some(&settings.url.authority)))
        .and_then(|()| request.set_path_with_query(Some(&settings.url.path_with_query)))
        .map_err(|()| unsendable("the host refuses the address or the method of the settings"))?;
    let body = request.body().map_err(|()| unsendable("the host refuses a body"))?;
    Ok((request, body))
}

fn options(timeout: Duration) -> RequestOptions {
    let options = RequestOptions::new();
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    // A connection that takes as long as the whole may: reported by the host before our own timer
    // ends the request, which then is known not to have left. A host without such timeouts may refuse.
    let _ = options.set_connect_timeout(Some(nanos(timeout / 2)));
    let _ = options.set_first_byte_timeout(Some(nanos(timeout)));
    let _ = options.set_between_bytes_timeout(Some(nanos(timeout)));
    options
}

/// Writes the body until it is out or an answer comes first; the answer then says what that means.
fn write(
    body: OutgoingBody,
    mut bytes: &[u8],
    response: &FutureIncomingResponse,
    deadline: &Deadline,
) -> Result<(), Verdict> {
    let Ok(stream) = body.write() else {
        return Err(Fault::Unsendable.verdict("invalid-request", "the body was already taken".into()));
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
            wait(&[&writable, &answered], deadline);
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

fn read_answer(response: IncomingResponse, deadline: &Deadline) -> Answer {
    let headers = response.headers();
    let header = |name: &str| {
        let value = headers.get(name).into_iter().next()?;
        String::from_utf8(value).ok()
    };
    let mut answer = Answer {
        status: response.status(),
        retry_after: header("retry-after"),
        location: header("location"),
        excerpt: String::new(),
    };
    drop(headers);
    if let Ok(body) = response.consume() {
        if let Ok(stream) = body.stream() {
            answer.excerpt = drain(&stream, deadline);
        }
        drop(IncomingBody::finish(body));
    }
    answer
}

/// Reads the body for its beginning and for the connection's sake. The status is known already, so
/// that nothing that goes wrong here changes the verdict.
fn drain(stream: &InputStream, deadline: &Deadline) -> String {
    let deadline = deadline.or_sooner(DRAIN_TIME);
    let readable = stream.subscribe();
    let (mut beginning, mut total) = (Vec::new(), 0u64);
    while total < DRAIN_BYTES && !deadline.has_passed() {
        wait(&[&readable], &deadline);
        let Ok(bytes) = stream.read(16 << 10) else {
            break;
        };
        total += bytes.len() as u64;
        let room = EXCERPT_BYTES.saturating_sub(beginning.len()).min(bytes.len());
        beginning.extend_from_slice(&bytes[..room]);
    }
    String::from_utf8_lossy(&beginning).into_owned()
}

/// A moment of the monotonic clock.
struct Deadline {
    at_ns: u64,
    timer: Pollable,
}

impl Deadline {
    fn after(time: Duration) -> Self {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self::at(monotonic_clock::now().saturating_add(nanos))
    }

    fn at(at_ns: u64) -> Self {
        Self { at_ns, timer: monotonic_clock::subscribe_instant(at_ns) }
    }

    fn or_sooner(&self, time: Duration) -> Self {
        Self::at(self.at_ns.min(Self::after(time).at_ns))
    }

    fn has_passed(&self) -> bool {
        monotonic_clock::now() >= self.at_ns
    }
}

/// Until one of them is ready or the time is up.
fn wait(pollables: &[&Pollable], deadline: &Deadline) {
    let mut all = pollables.to_vec();
    all.push(&deadline.timer);
    poll(&all);
}

/// Our own timer: the host has not said that it could not connect, so the request may have arrived.
fn timed_out(timeout: Duration) -> Verdict {
    let message = format!("no answer within {} ms", timeout.as_millis());
    Fault::NoAnswer.verdict("timeout", message)
}

/// Before or after the request left: for each of the standard's errors, one line here.
fn failed(error: ErrorCode, url: &Target) -> Verdict {
    use ErrorCode as E;
    let authority = &url.authority;
    let (fault, code) = match &error {
        E::DnsTimeout => (Fault::NotConnected, "dns-timeout"),
        E::DnsError(_) => (Fault::NotConnected, "dns-error"),
        E::DestinationNotFound => (Fault::NotConnected, "destination-not-found"),
        E::DestinationUnavailable => (Fault::NotConnected, "destination-unavailable"),
        E::DestinationIpUnroutable => (Fault::NotConnected, "destination-unroutable"),
        E::ConnectionRefused => (Fault::NotConnected, "connection-refused"),
        E::ConnectionTimeout => (Fault::NotConnected, "connection-timeout"),
        E::ConnectionLimitReached => (Fault::NotConnected, "connection-limit"),
        E::TlsProtocolError => (Fault::NotConnected, "tls-protocol-error"),
        E::TlsCertificateError => (Fault::NotConnected, "tls-certificate-error"),
        E::TlsAlertReceived(_) => (Fault::NotConnected, "tls-alert"),

        E::DestinationIpProhibited => (Fault::NotAllowed, "address-not-allowed"),
        E::HttpRequestDenied => (Fault::NotAllowed, "origin-not-allowed"),
        E::ConfigurationError => (Fault::NotAllowed, "host-configuration"),

        E::HttpRequestLengthRequired => (Fault::Unsendable, "length-required"),
        E::HttpRequestMethodInvalid => (Fault::Unsendable, "invalid-method"),
        E::HttpRequestUriInvalid => (Fault::Unsendable, "invalid-url"),
        E::HttpRequestUriTooLong => (Fault::Unsendable, "url-too-long"),

        E::HttpRequestBodySize(_) => (Fault::TooLarge, "body-too-large"),
        E::HttpRequestHeaderSectionSize(_) => (Fault::TooLarge, "headers-too-large"),
        E::HttpRequestHeaderSize(_) => (Fault::TooLarge, "header-too-large"),
        E::HttpRequestTrailerSectionSize(_) => (Fault::TooLarge, "trailers-too-large"),
        E::HttpRequestTrailerSize(_) => (Fault::TooLarge, "trailer-too-large"),

        E::ConnectionTerminated => (Fault::NoAnswer, "connection-terminated"),
        E::ConnectionReadTimeout => (Fault::NoAnswer, "read-timeout"),
        E::ConnectionWriteTimeout => (Fault::NoAnswer, "write-timeout"),
        E::HttpResponseIncomplete => (Fault::NoAnswer, "answer-incomplete"),
        E::HttpResponseHeaderSectionSize(_) => (Fault::NoAnswer, "answer-headers-too-large"),
        E::HttpResponseHeaderSize(_) => (Fault::NoAnswer, "answer-header-too-large"),
        E::HttpResponseBodySize(_) => (Fault::NoAnswer, "answer-too-large"),
        E::HttpResponseTrailerSectionSize(_) => (Fault::NoAnswer, "answer-trailers-too-large"),
        E::HttpResponseTrailerSize(_) => (Fault::NoAnswer, "answer-trailer-too-large"),
        E::HttpResponseTransferCoding(_) => (Fault::NoAnswer, "answer-transfer-coding"),
        E::HttpResponseContentCoding(_) => (Fault::NoAnswer, "answer-content-coding"),
        E::HttpResponseTimeout => (Fault::NoAnswer, "timeout"),
        E::HttpUpgradeFailed => (Fault::NoAnswer, "upgrade-failed"),
        E::HttpProtocolError => (Fault::NoAnswer, "protocol-error"),
        E::LoopDetected => (Fault::NoAnswer, "loop-detected"),
        E::InternalError(_) => (Fault::NoAnswer, "internal-error"),
    };
    let detail = match &error {
        E::InternalError(Some(text)) => text.clone(),
        E::DnsError(dns) => dns.rcode.clone().unwrap_or_else(|| code.to_owned()),
        E::TlsAlertReceived(alert) => alert.alert_message.clone().unwrap_or_else(|| code.to_owned()),
        _ => code.to_owned(),
    };
    let message = match fault {
        Fault::NotConnected => format!("{authority} can't be reached: {detail}"),
        Fault::NotAllowed if matches!(error, E::DestinationIpProhibited) => format!(
            "{authority} is a private, loopback or link-local address; if that is meant, \
             add  private = true  to its [[destination.NAME.http]] section"
        ),
        Fault::NotAllowed => format!(
            "the host does not let this destination reach {authority} ({detail}); \
             add its origin in a [[destination.NAME.http]] section"
        ),
        Fault::Unsendable => format!("the settings make a request that can't be sent: {detail}"),
        Fault::TooLarge => format!("the request is larger than the host sends: {detail}"),
        Fault::NoAnswer => format!("{authority} was sent the request, and no whole answer came: {detail}"),
    };
    fault.verdict(code, message)
}
