//! What JetStream's answer to a message means.

use outhaul_plugin::{Failure, Outcome, Receipt};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Ack {
    error: Option<ApiError>,
    #[serde(default)]
    stream: String,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    domain: Option<String>,
}

/// An error as all of JetStream says it.
#[derive(Clone, Debug, Deserialize)]
pub struct ApiError {
    /// As HTTP's status.
    pub code: u16,
    #[serde(default)]
    pub err_code: u32,
    #[serde(default)]
    pub description: String,
}

// From nats-server's errors.json.
const EXPECTED_STREAM: u32 = 10_060;
const MESSAGE_TOO_LARGE: u32 = 10_054;
const HEADERS_TOO_LARGE: u32 = 10_097;
const STORE_FAILED: u32 = 10_077;
const NOT_ENABLED: [u32; 2] = [10_039, 10_076];
const SEALED: u32 = 10_109;
const STREAM_NOT_FOUND: u32 = 10_059;

pub fn outcome(subject: &str, payload: &[u8]) -> Outcome {
    let ack: Ack = serde_json::from_slice(payload).map_err(|error| {
        Failure::retry("bad-ack", format!("the stream's answer is not understood: {error}")).maybe_applied()
    })?;
    if let Some(error) = ack.error {
        return Err(error.failure(subject));
    }
    if ack.stream.is_empty() {
        return Err(Failure::retry(
            "bad-ack",
            "who answered is no stream: something else listens to the subject",
        )
        .maybe_applied());
    }
    let receipt = if ack.duplicate { Receipt::duplicate() } else { Receipt::delivered() };
    let receipt = receipt.with_reference(format!("{}/{}", ack.stream, ack.seq));
    Ok(match ack.domain.filter(|domain| !domain.is_empty()) {
        Some(domain) => receipt.with_attribute("domain", domain),
        None => receipt,
    })
}

impl ApiError {
    pub fn failure(&self, subject: &str) -> Failure {
        let code = format!("jetstream-{}", self.err_code);
        let message =
            |fix: &str| format!("JetStream refused a message to {subject}: {}{fix}", self.description);
        match self.err_code {
            MESSAGE_TOO_LARGE | HEADERS_TOO_LARGE => {
                Failure::rejected(code, message("; raise the stream's max_msg_size"))
            }
            EXPECTED_STREAM => Failure::misconfigured(
                code,
                message("; another stream takes this subject than the setting stream says"),
            ),
            SEALED => Failure::misconfigured(code, message("; a sealed stream takes nothing more")),
            STREAM_NOT_FOUND => {
                Failure::misconfigured(code, message("; create it, or mend the setting stream"))
            }
            code_number if NOT_ENABLED.contains(&code_number) => Failure::misconfigured(
                code,
                message("; enable JetStream for this account, or set  mode = \"core\""),
            ),
            // A limit of the stream, or of its disk: it may take more once something was removed.
            STORE_FAILED => Failure::unavailable(code, message("; raise the stream's limits or make room")),
            _ if self.code >= 500 => Failure::unavailable(code, message("")),
            _ => Failure::retry(code, message("")),
        }
    }
}

/// Nobody listens to the subject, and no stream takes it.
pub fn no_stream(subject: &str) -> Failure {
    Failure::misconfigured(
        "no-stream",
        format!(
            "no stream takes the subject {subject}; create one whose subjects cover it, or change the setting subject"
        ),
    )
}

pub fn no_jetstream() -> Failure {
    Failure::misconfigured(
        "no-jetstream",
        "the server has no JetStream for this account; enable it, or set  mode = \"core\". A leaf node without \
         JetStream does not pass on what its hub says of streams: set the endpoint's address to the hub, or enable \
         JetStream on the leaf node with a domain of its own",
    )
}

/// Streams took messages over this connection, and now neither they nor JetStream answer: a leaf node that
/// lost its hub says no more than that.
pub fn out_of_reach(subject: &str) -> Failure {
    let message = format!(
        "nobody takes {subject} now, and the server can't say why; streams took messages over it before, so the hub of \
         this leaf node may be down"
    );
    Failure::unavailable("out-of-reach", message)
}

/// There is a stream, but nobody answered for it.
pub fn no_leader(subject: &str) -> Failure {
    Failure::unavailable("no-leader", format!("the stream that takes {subject} has no leader now"))
}

/// What a line of `-ERR` at the login means.
pub fn login_refused(text: &str) -> Failure {
    let lower = text.to_ascii_lowercase();
    // Of the server's state, or of how quick it and we are: later it may take the same login.
    let is_busy = ["maximum", "stale", "shutdown", "throttling", "authentication timeout"]
        .iter()
        .any(|word| lower.contains(word));
    match is_busy {
        true => Failure::unavailable("refused", format!("the server refuses connections: {text}")),
        false if lower.contains("tls required") => Failure::misconfigured(
            "tls-required",
            format!("the server says {text:?}; write  tls = \"start\"  in the endpoint's section"),
        ),
        false if lower.contains("permissions violation for subscription") => Failure::misconfigured(
            "permission",
            format!("the server says {text:?}; answers arrive there: allow it, or change the setting inbox"),
        ),
        false => Failure::misconfigured(
            "login",
            format!("the server refuses the login: {text}; see the setting auth"),
        ),
    }
}

/// Whether what [`login_refused`] says is about the user, and not about the server.
pub fn is_of_login(refused: &Failure) -> bool {
    matches!(refused, Failure::Misconfigured(detail) if detail.code != "tls-required")
}

/// The operator wants TLS, and the server has none: nothing secret may be said to it.
pub fn no_tls() -> Failure {
    Failure::misconfigured(
        "no-tls",
        "the endpoint has  tls = \"start\" , and the server offers no TLS; give it a tls block, or remove the key",
    )
}

/// The subject that the user may not publish to, if that is what the line says.
pub fn denied_subject(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("Permissions Violation for Publish to ")?;
    rest.split('"').nth(1)
}

pub fn denied(subject: &str) -> Failure {
    Failure::misconfigured(
        "permission",
        format!("the user may not publish to {subject}; allow it in the server's config"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Outcome {
        outcome("s", json.as_bytes())
    }

    fn refused(code: u16, err_code: u32) -> Failure {
        let json = format!(
            r#"{{"error":{{"code":{code},"err_code":{err_code},"description":"why"}},"stream":"S","seq":0}}"#
        );
        let failure = of(&json).unwrap_err();
        let (Failure::Retry(info) | Failure::Unavailable(info)) = &failure else { return failure };
        assert!(!info.maybe_applied && info.message.contains("why"), "{info:?}");
        failure
    }

    #[test]
    fn a_stored_message_is_named_and_a_duplicate_is_told() {
        assert_eq!(of(r#"{"stream":"S","seq":7}"#), Ok(Receipt::delivered().with_reference("S/7")));
        assert_eq!(
            of(r#"{"stream":"S","seq":7,"duplicate":true,"domain":"hub"}"#),
            Ok(Receipt::duplicate().with_reference("S/7").with_attribute("domain", "hub"))
        );
    }

    #[test]
    fn an_answer_of_somebody_else_is_no_confirmation() {
        for json in ["{}", "pong", "", r#"{"stream":""}"#] {
            let Err(Failure::Retry(info)) = of(json) else { panic!("{json}") };
            assert!(info.maybe_applied && info.code == "bad-ack");
        }
    }

    #[test]
    fn each_refusal_is_of_the_right_kind() {
        for err_code in [MESSAGE_TOO_LARGE, HEADERS_TOO_LARGE] {
            assert!(matches!(refused(400, err_code), Failure::Rejected(_)), "{err_code}");
        }
        for err_code in [EXPECTED_STREAM, SEALED, STREAM_NOT_FOUND, NOT_ENABLED[0], NOT_ENABLED[1]] {
            assert!(matches!(refused(400, err_code), Failure::Misconfigured(_)), "{err_code}");
        }
        for (code, err_code) in [(503, STORE_FAILED), (503, 10_023), (500, 10_047)] {
            assert!(matches!(refused(code, err_code), Failure::Unavailable(_)), "{err_code}");
        }
        assert!(matches!(refused(400, 10_999), Failure::Retry(_)));
    }

    #[test]
    fn the_servers_own_words_at_the_login_decide_who_must_act() {
        for (text, code) in [
            ("Authorization Violation", "login"),
            ("Account Authentication Expired", "login"),
            ("Secure Connection - TLS Required", "tls-required"),
            ("Permissions Violation for Subscription to \"_INBOX.x.*\"", "permission"),
        ] {
            let Failure::Misconfigured(detail) = login_refused(text) else { panic!("{text}") };
            assert_eq!(detail.code, code);
        }
        for text in [
            "maximum connections exceeded",
            "Authentication Timeout",
            "Connection throttling is active. Please try again later.",
            "Server Shutdown",
        ] {
            assert!(matches!(login_refused(text), Failure::Unavailable(_)), "{text}");
        }
        assert_eq!(denied_subject("Permissions Violation for Publish to \"a.b\""), Some("a.b"));
        assert_eq!(denied_subject("Authorization Violation"), None);
    }
}
