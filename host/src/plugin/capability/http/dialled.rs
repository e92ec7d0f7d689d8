//! What went wrong below a request, in the words of `wasi:http`.

use wasmtime_wasi_http::Error;

use crate::plugin::capability::dial::{DialError, tls};

pub fn error(error: DialError) -> Error {
    match error {
        DialError::ResolveTimeout => Error::DnsTimeout,
        DialError::Unresolvable(why) => Error::DnsError { rcode: Some(why), info_code: None },
        DialError::Prohibited(_) => Error::DestinationIpProhibited,
        DialError::Refused => Error::ConnectionRefused,
        DialError::Unreachable | DialError::Offline => Error::DestinationUnavailable,
        DialError::ConnectTimeout | DialError::HandshakeTimeout => Error::ConnectionTimeout,
        DialError::Certificate(_) => Error::TlsCertificateError,
        DialError::Alert(alert) => alert_received(alert),
        DialError::Tls(_) | DialError::NotTls | DialError::HandshakeBroken => Error::TlsProtocolError,
    }
}

/// The server's refusal of our certificate, which with TLS 1.3 comes only after the handshake, in
/// place of an answer. It reads no request before it has accepted the certificate.
pub fn certificate_refused(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    use rustls::AlertDescription as Alert;
    match tls::rustls_error(error)? {
        rustls::Error::AlertReceived(
            alert @ (Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied),
        ) => Some(alert_received(*alert)),
        _ => None,
    }
}

fn alert_received(alert: rustls::AlertDescription) -> Error {
    Error::TlsAlertReceived { alert_id: Some(u8::from(alert)), alert_message: Some(format!("{alert:?}")) }
}
