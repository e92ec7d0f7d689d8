//! Why there is no answer.

use std::fmt;
use std::time::Duration;

use crate::Failure;
use crate::bindings::destination::wasi::http::types::ErrorCode;

/// What is known of a request that drew no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Name lookup, connection or TLS failed: the request never left.
    NotConnected,
    /// The operator's config does not allow the request.
    NotAllowed,
    /// The settings make a request that can't be sent.
    Unsendable,
    /// This event makes a request larger than the host sends.
    TooLarge,
    /// The request left, or a part of it, and no whole answer came back.
    NoAnswer,
}

/// A request without an answer. With `?` it becomes the [`Failure`] that fits its fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub fault: Fault,
    /// A word for machines, such as `connection-refused`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

impl Error {
    pub fn new(fault: Fault, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { fault, code: code.into(), message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let Error { fault, code, message } = error;
        match fault {
            Fault::NotConnected => Self::unavailable(code, message),
            Fault::NotAllowed | Fault::Unsendable => Self::misconfigured(code, message),
            Fault::TooLarge => Self::rejected(code, message),
            Fault::NoAnswer => Self::retry(code, message).maybe_applied(),
        }
    }
}

/// Our own timer: the host has not said that it could not connect, so the request may have arrived.
pub(super) fn timed_out(timeout: Duration) -> Error {
    Error::new(Fault::NoAnswer, "timeout", format!("no answer within {} ms", timeout.as_millis()))
}

/// Before or after the request left: for each of the standard's errors, one line here.
pub(super) fn of(error: ErrorCode, authority: &str) -> Error {
    use ErrorCode as E;
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
    Error::new(fault, code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(error: ErrorCode) -> Failure {
        of(error, "a.example").into()
    }

    #[test]
    fn only_a_request_that_may_have_left_is_uncertain() {
        assert!(
            matches!(failure(ErrorCode::ConnectionRefused), Failure::Unavailable(it) if !it.maybe_applied)
        );
        assert!(
            matches!(failure(ErrorCode::HttpRequestDenied), Failure::Misconfigured(it) if !it.maybe_applied)
        );
        assert!(matches!(failure(ErrorCode::HttpRequestUriInvalid), Failure::Misconfigured(_)));
        assert!(matches!(failure(ErrorCode::HttpRequestBodySize(None)), Failure::Rejected(_)));
        assert!(matches!(failure(ErrorCode::ConnectionTerminated), Failure::Retry(it) if it.maybe_applied));
        assert!(matches!(failure(ErrorCode::InternalError(None)), Failure::Retry(it) if it.maybe_applied));
        assert!(matches!(Failure::from(timed_out(Duration::ZERO)), Failure::Retry(it) if it.maybe_applied));
    }
}
