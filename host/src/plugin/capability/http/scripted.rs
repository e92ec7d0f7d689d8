//! Requests answered by a script in place of a server. Nothing is resolved, dialled or sent.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use wasmtime_wasi_http::{Error, WasiBody};

use crate::plugin::offline::{Answer, BODY_KEPT_BYTES, BodyFault, Offline, Sent};
use crate::plugin::spec::HttpLimits;

/// Reads the request to its end and gives what the script says.
pub async fn exchange(
    offline: &Offline,
    limits: &HttpLimits,
    request: Request<WasiBody>,
) -> Result<Response<WasiBody>, Error> {
    let (head, body) = request.into_parts();
    let body = read(body, limits.total).await?;
    let sent = Sent {
        method: head.method.as_str().to_owned(),
        url: head.uri.to_string(),
        headers: told(&head.headers),
        body: Bytes::from(body.kept),
        body_bytes: body.bytes,
        body_sha256: body.sha256,
    };
    match offline.answers.answer(sent) {
        Answer::Response { status, headers, body, fault } => {
            response(status, headers, body, fault, limits.response_body_bytes)
        }
        Answer::Refused => Err(Error::ConnectionRefused),
        Answer::Reset => Err(Error::ConnectionTerminated),
        Answer::Silent => Err(Error::HttpResponseTimeout),
    }
}

struct Body {
    kept: Vec<u8>,
    bytes: u64,
    sha256: String,
}

/// All of it is counted and hashed, and the beginning kept, so that memory is bounded.
async fn read(mut body: WasiBody, budget: Duration) -> Result<Body, Error> {
    let reading = async {
        let (mut kept, mut bytes, mut hash) = (Vec::new(), 0, Sha256::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            hash.update(&data);
            bytes += data.len() as u64;
            let room = BODY_KEPT_BYTES - kept.len();
            kept.extend_from_slice(&data[..data.len().min(room)]);
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Body { kept, bytes, sha256 })
    };
    timeout(budget, reading).await.unwrap_or(Err(Error::HttpResponseTimeout))
}

/// Without those that hold the operator's secrets.
fn told(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = headers.iter().filter(|(_, value)| !value.is_sensitive());
    shown
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}

fn response(
    status: u16,
    headers: Vec<(String, String)>,
    body: Bytes,
    fault: Option<BodyFault>,
    bytes_max: u64,
) -> Result<Response<WasiBody>, Error> {
    let fault = match fault {
        _ if body.len() as u64 > bytes_max => Some(Error::HttpResponseBodySize(Some(bytes_max))),
        None => None,
        Some(BodyFault::Cut) => Some(Error::HttpResponseIncomplete),
        Some(BodyFault::Stalled) => Some(Error::ConnectionReadTimeout),
        Some(BodyFault::TooLarge) => Some(Error::HttpResponseBodySize(Some(bytes_max))),
    };
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        let pair = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
        let (name, value) = pair.ok_or(Error::HttpProtocolError)?;
        response = response.header(name, value);
    }
    let frames = [Some(Ok(Frame::data(body))), fault.map(Err)].into_iter().flatten();
    let body = StreamBody::new(stream::iter(frames));
    response.body(body.boxed_unsync()).map_err(|_| Error::HttpProtocolError)
}
