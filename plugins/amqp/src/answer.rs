//! What the broker's words mean for a delivery.

use outhaul_plugin::{Failure, Outcome, Receipt};

use crate::method::Closing;
use crate::settings::{Settings, Unroutable};
use crate::wire::FRAME_BYTES_MIN;

// Reply codes of the specification (1.1).
const CONTENT_TOO_LARGE: u16 = 311;
const CONNECTION_FORCED: u16 = 320;
const INVALID_PATH: u16 = 402;
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const PRECONDITION_FAILED: u16 = 406;
const RESOURCE_ERROR: u16 = 506;
const NOT_ALLOWED: u16 = 530;
const INTERNAL_ERROR: u16 = 541;

/// No queue takes the message; `text` is the broker's.
pub fn unroutable(settings: &Settings, routing_key: &str, text: &str) -> Outcome {
    let message = format!(
        "no queue takes a message with the routing key {routing_key:?} from the exchange {:?} ({text}); bind one, or \
         change the setting routing_key or unroutable",
        settings.exchange
    );
    match settings.unroutable {
        Unroutable::Stop => Err(Failure::misconfigured("unroutable", message)),
        Unroutable::Reject => Err(Failure::rejected("unroutable", message)),
        Unroutable::Retry => Err(Failure::retry("unroutable", message)),
        Unroutable::Accept => Ok(Receipt::delivered()),
    }
}

/// A queue refused the message; another one may have taken it.
pub fn nacked(routing_key: &str) -> Failure {
    let message = format!(
        "the broker did not take a message with the routing key {routing_key:?}: a queue is full (overflow \
         reject-publish), or has lost its leader"
    );
    Failure::unavailable("nacked", message).maybe_applied()
}

pub fn blocked(reason: &str) -> Failure {
    Failure::unavailable("blocked", format!("the broker takes no messages now: {reason}"))
}

/// Why the connection was not opened.
pub fn login_refused(closing: &Closing, vhost: &str) -> Failure {
    let Closing { code, text } = closing;
    match *code {
        ACCESS_REFUSED => Failure::misconfigured(
            "login",
            format!("the broker refuses the login: {text}; see the setting auth"),
        ),
        // Too many connections, of the user, the virtual host or the node.
        NOT_ALLOWED | RESOURCE_ERROR if text.contains("limit") => {
            Failure::unavailable("connection-limit", format!("the broker refuses the connection: {text}"))
        }
        NOT_ALLOWED | INVALID_PATH => Failure::misconfigured(
            "vhost",
            format!("the broker refuses the virtual host {vhost:?}: {text}; see the setting vhost"),
        ),
        _ => {
            Failure::unavailable(format!("amqp-{code}"), format!("the broker refuses the connection: {text}"))
        }
    }
}

pub fn no_mechanism(wanted: &str, offered: &str) -> Failure {
    let message = match wanted {
        "EXTERNAL" => format!(
            "the broker offers the logins {offered}, and not EXTERNAL; it needs TLS with client_cert of the endpoint, \
             and on RabbitMQ the plugin rabbitmq_auth_mechanism_ssl"
        ),
        _ => format!("the broker offers the logins {offered}, and not {wanted}; see the setting auth"),
    };
    Failure::misconfigured("mechanism", message)
}

/// Why the channel was closed while messages were under way.
pub fn channel_closed(settings: &Settings, closing: &Closing) -> Failure {
    let Closing { code, text } = closing;
    let exchange = &settings.exchange;
    match *code {
        NOT_FOUND => Failure::misconfigured(
            "no-exchange",
            format!(
                "the broker has no such exchange: {text}; declare {exchange:?}, or change the setting exchange"
            ),
        ),
        ACCESS_REFUSED => Failure::misconfigured(
            "permission",
            format!("the user may not publish there: {text}; give it write permission on {exchange:?}"),
        ),
        CONTENT_TOO_LARGE => Failure::rejected("too-large", format!("the message is too large: {text}")),
        INTERNAL_ERROR | RESOURCE_ERROR | CONNECTION_FORCED => {
            Failure::unavailable(format!("amqp-{code}"), format!("the broker closed the channel: {text}"))
        }
        _ => Failure::retry(format!("amqp-{code}"), format!("the broker closed the channel: {text}")),
    }
}

/// A server that announces smaller frames than the protocol's least.
pub fn small_frames(frame_max: u32) -> Failure {
    let message = format!(
        "the server takes frames of {frame_max} bytes, and AMQP 0-9-1 needs {FRAME_BYTES_MIN}; set its frame_max to \
         at least {FRAME_BYTES_MIN}, or to 0 for no limit"
    );
    Failure::misconfigured("frame-max", message)
}

/// The size of the message that was too large, and the most there may be, if that is why.
pub fn too_large(closing: &Closing) -> Option<(usize, usize)> {
    if closing.code != PRECONDITION_FAILED {
        return None;
    }
    let number = |before: &str| {
        let (_, rest) = closing.text.split_once(before)?;
        rest.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
    };
    Some((number("message size ")?, number("max size ")?))
}

pub fn larger_than(bytes: usize, most: usize) -> Failure {
    let message =
        format!("the message has {bytes} bytes, and the broker takes {most}; raise its max_message_size");
    Failure::rejected("too-large", message)
}

/// The header can't be split over frames.
pub fn headers_too_large(bytes: usize, most: usize) -> Failure {
    let message =
        format!("the message's headers have {bytes} bytes, and the broker takes {most}; raise its frame_max");
    Failure::rejected("headers-too-large", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outhaul_plugin::parse_settings;

    fn closing(code: u16, text: &str) -> Closing {
        Closing { code, text: text.to_owned() }
    }

    fn settings(unroutable: &str) -> Settings {
        parse_settings(&format!(r#"{{"exchange":"orders","unroutable":"{unroutable}"}}"#)).unwrap()
    }

    #[test]
    fn the_setting_says_what_an_unroutable_message_is() {
        let of = |word| unroutable(&settings(word), "a.b", "NO_ROUTE");
        assert!(
            matches!(of("stop"), Err(Failure::Misconfigured(detail)) if detail.message.contains("\"a.b\""))
        );
        assert!(matches!(of("reject"), Err(Failure::Rejected(_))));
        assert!(matches!(of("retry"), Err(Failure::Retry(info)) if !info.maybe_applied));
        assert_eq!(of("accept"), Ok(Receipt::delivered()));
    }

    #[test]
    fn a_refused_login_says_who_must_act() {
        for (code, text, expected) in [
            (403, "ACCESS_REFUSED - Login was refused", "login"),
            (530, "NOT_ALLOWED - vhost shop not found", "vhost"),
            (402, "INVALID_PATH", "vhost"),
        ] {
            let Failure::Misconfigured(detail) = login_refused(&closing(code, text), "shop") else {
                panic!("{text}")
            };
            assert!(detail.code == expected && detail.message.contains(text), "{detail:?}");
        }
        for (code, text) in [
            (530, "NOT_ALLOWED - access refused: connection limit (1) is reached"),
            (320, "CONNECTION_FORCED"),
            (541, ""),
        ] {
            assert!(matches!(login_refused(&closing(code, text), "/"), Failure::Unavailable(_)), "{text}");
        }
    }

    #[test]
    fn a_closed_channel_is_a_failure_of_the_right_kind() {
        let of = |code| channel_closed(&settings("stop"), &closing(code, "why"));
        assert!(matches!(of(404), Failure::Misconfigured(detail) if detail.code == "no-exchange"));
        assert!(matches!(of(403), Failure::Misconfigured(detail) if detail.code == "permission"));
        assert!(matches!(of(311), Failure::Rejected(_)));
        assert!(matches!(of(541), Failure::Unavailable(_)));
        assert!(matches!(of(406), Failure::Retry(info) if info.message.contains("why")));
    }

    #[test]
    fn a_message_that_is_too_large_is_known_by_its_size() {
        let text = "PRECONDITION_FAILED - message size 70000 is larger than configured max size 65536";
        assert_eq!(too_large(&closing(406, text)), Some((70_000, 65_536)));
        let older = "PRECONDITION_FAILED - message size 70000 larger than max size 65536";
        assert_eq!(too_large(&closing(406, older)), Some((70_000, 65_536)));
        assert_eq!(too_large(&closing(406, "PRECONDITION_FAILED - invalid expiration")), None);
        assert_eq!(too_large(&closing(404, text)), None);
    }
}
