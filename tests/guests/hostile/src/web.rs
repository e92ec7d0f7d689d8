//! Requests: plain ones that report what came back, and ones that abuse the host's client.

use crate::bindings::exports::outhaul::delivery::deliver::Failure;
use crate::bindings::outhaul::delivery::types::Info;
use crate::bindings::wasi::http::outgoing_handler;
use crate::bindings::wasi::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
};
use crate::bindings::wasi::io::streams::StreamError;
use crate::{CallContext, Delivery, delivered};

/// The reference is `status=200 bytes=12`; a failed request is `retry` with the error as message.
pub fn get(call: &CallContext) -> Delivery {
    report(exchange(Method::Get, &call.url(), Fields::new(), &[]))
}

/// Whether anything answers there.
pub fn reach(url: &str) -> Result<(), String> {
    exchange(Method::Get, url, Fields::new(), &[]).map(drop)
}

/// Posts `bytes` bytes, or the payload if that is none.
pub fn post(call: &CallContext, bytes: u64) -> Delivery {
    let body = match bytes {
        0 => call.event.payload.clone(),
        bytes => (0..bytes).map(|n| (n % 251) as u8).collect(),
    };
    report(exchange(Method::Post, &call.url(), Fields::new(), &body))
}

pub fn many_headers(call: &CallContext, count: u64) -> Delivery {
    let fields = Fields::new();
    for n in 0..count {
        if let Err(error) = fields.append(&format!("x-header-{n}"), b"some value") {
            return failed(format!("header {n}: {error:?}"));
        }
    }
    report(exchange(Method::Post, &call.url(), fields, b"{}"))
}

/// Starts a request with half a body and returns while it is under way.
pub fn leave_open(call: &CallContext) -> Delivery {
    let started = start(Method::Post, &call.url(), Fields::new()).map(|(request, body)| {
        let response = outgoing_handler::handle(request, None);
        let stream = body.write();
        if let Ok(stream) = &stream {
            let _ = stream.write(b"half a bo");
        }
        std::mem::forget((stream, body, response));
    });
    match started {
        Ok(()) => delivered(Some("left open".into())),
        Err(error) => failed(error),
    }
}

fn report(result: Result<(u16, u64), String>) -> Delivery {
    match result {
        Ok((status, bytes)) => delivered(Some(format!("status={status} bytes={bytes}"))),
        Err(error) => failed(error),
    }
}

fn failed(message: String) -> Delivery {
    Err(Failure::Retry(Info {
        code: "http".into(),
        message,
        maybe_applied: false,
        after_ms: None,
        attributes: Vec::new(),
    }))
}

fn start(method: Method, url: &str, fields: Fields) -> Result<(OutgoingRequest, OutgoingBody), String> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("not a URL: {url:?}"))?;
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, "/"),
    };
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.into()),
    };
    let request = OutgoingRequest::new(fields);
    request.set_method(&method).map_err(|()| "method refused")?;
    request.set_scheme(Some(&scheme)).map_err(|()| "scheme refused")?;
    request.set_authority(Some(authority)).map_err(|()| "authority refused")?;
    request.set_path_with_query(Some(path)).map_err(|()| "path refused")?;
    let body = request.body().map_err(|()| "no body")?;
    Ok((request, body))
}

fn exchange(method: Method, url: &str, fields: Fields, body: &[u8]) -> Result<(u16, u64), String> {
    let (request, outgoing) = start(method, url, fields)?;
    let future = outgoing_handler::handle(request, None).map_err(|error| text(&error))?;
    send(outgoing, body)?;
    future.subscribe().block();
    let response = future.get().ok_or("no answer")?.map_err(|()| "answer taken twice")?;
    drain(response.map_err(|error| text(&error))?)
}

fn send(outgoing: OutgoingBody, body: &[u8]) -> Result<(), String> {
    let stream = outgoing.write().map_err(|()| "body taken twice")?;
    for chunk in body.chunks(4096) {
        // The receiver may answer before it has read everything; the answer is what counts.
        if stream.blocking_write_and_flush(chunk).is_err() {
            break;
        }
    }
    drop(stream);
    OutgoingBody::finish(outgoing, None).map_err(|error| text(&error))
}

fn drain(response: IncomingResponse) -> Result<(u16, u64), String> {
    let status = response.status();
    let body = response.consume().map_err(|()| "body taken twice")?;
    let stream = body.stream().map_err(|()| "stream taken twice")?;
    let mut bytes = 0;
    loop {
        match stream.blocking_read(64 << 10) {
            Ok(chunk) => bytes += chunk.len() as u64,
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(format!("status={status} body after {bytes} bytes: {}", error.to_debug_string()));
            }
        }
    }
    drop(stream);
    drop(IncomingBody::finish(body));
    Ok((status, bytes))
}

fn text(error: &ErrorCode) -> String {
    format!("{error:?}")
}
