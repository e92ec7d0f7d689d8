//! What a broker's reason codes mean (MQTT 5, section 2.4; MQTT 3.1.1, section 3.2.2.3).

use outhaul_plugin::{Failure, Outcome, Receipt};

use crate::settings::Version;

const NO_SUBSCRIBERS: u8 = 0x10;

/// The standard's own words.
fn name(code: u8) -> &'static str {
    match code {
        0x00 => "success",
        NO_SUBSCRIBERS => "no matching subscribers",
        0x80 => "unspecified error",
        0x81 => "malformed packet",
        0x82 => "protocol error",
        0x83 => "implementation specific error",
        0x84 => "unsupported protocol version",
        0x85 => "client identifier not valid",
        0x86 => "bad user name or password",
        0x87 => "not authorized",
        0x88 => "server unavailable",
        0x89 => "server busy",
        0x8a => "banned",
        0x8b => "server shutting down",
        0x8c => "bad authentication method",
        0x8d => "keep alive timeout",
        0x8e => "session taken over",
        0x90 => "topic name invalid",
        0x91 => "packet identifier in use",
        0x95 => "packet too large",
        0x97 => "quota exceeded",
        0x98 => "administrative action",
        0x99 => "payload format invalid",
        0x9a => "retain not supported",
        0x9b => "QoS not supported",
        0x9c => "use another server",
        0x9d => "server moved",
        0x9f => "connection rate exceeded",
        _ => "an unknown reason",
    }
}

/// `not authorized (0x87)`, with the broker's own text if it has one.
pub fn told(code: u8, reason: &str) -> String {
    let own = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("{} ({code:#04x}){own}", name(code))
}

/// Of a message that the broker has answered for.
pub fn outcome(topic: &str, code: u8, reason: &str) -> Outcome {
    match code {
        0x00 => return Ok(Receipt::delivered()),
        NO_SUBSCRIBERS => return Ok(Receipt::delivered().with_attribute("no-subscribers", "true")),
        _ => {}
    }
    let word = format!("mqtt-{code:#04x}");
    let said = |fix: &str| format!("the broker refused a message to {topic}: {}{fix}", told(code, reason));
    Err(match code {
        0x87 => Failure::misconfigured(word, said("; allow the user to publish there")),
        0x90 | 0x95 | 0x99 => Failure::rejected(word, said("")),
        0x97 => Failure::rate_limited(word, said("")),
        _ => Failure::retry(word, said("")),
    })
}

/// Of a client that was not taken in.
pub fn refused(version: Version, code: u8, reason: &str) -> Failure {
    // The five codes of 3.1.1 by the words of 5.
    let code = match (version, code) {
        (Version::V3, 1) => 0x84,
        (Version::V3, 2) => 0x85,
        (Version::V3, 3) => 0x88,
        (Version::V3, 4) => 0x86,
        (Version::V3, 5) => 0x87,
        // A broker that knows only 3.1.1 answers a client of 5 so.
        (Version::V5, 1) => 0x84,
        (_, code) => code,
    };
    let word = format!("mqtt-{code:#04x}");
    let said = |fix: &str| format!("the broker refuses the connection: {}{fix}", told(code, reason));
    match code {
        0x84 => Failure::misconfigured(word, said("; set  version = \"3.1.1\"  or  \"5\"")),
        0x85 => Failure::misconfigured(word, said("; see the setting client_id")),
        0x86 | 0x87 | 0x8c => Failure::misconfigured(word, said("; see the setting auth and its secret")),
        0x8a => Failure::misconfigured(word, said("")),
        0x9c | 0x9d => Failure::misconfigured(word, said("; change the endpoint's address")),
        _ => Failure::unavailable(word, said("")),
    }
}

pub fn too_large(bytes: usize, most: u32) -> Failure {
    Failure::rejected(
        "too-large",
        format!("the message has {bytes} bytes as a packet, and the broker takes {most}"),
    )
}

pub fn no_qos(most: u8) -> Failure {
    Failure::misconfigured("qos", format!("the broker takes QoS {most} at most; change the setting qos"))
}

pub fn no_retain() -> Failure {
    Failure::misconfigured("retain", "the broker keeps no messages; leave out the setting retain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_of_a_message_is_of_the_right_kind() {
        assert_eq!(outcome("t", 0, ""), Ok(Receipt::delivered()));
        assert!(
            outcome("t", NO_SUBSCRIBERS, "")
                .unwrap()
                .attributes
                .iter()
                .any(|(name, _)| name == "no-subscribers")
        );
        let Err(Failure::Misconfigured(detail)) = outcome("t", 0x87, "acl") else { panic!() };
        assert!(detail.message.contains("not authorized (0x87): acl"), "{}", detail.message);
        for code in [0x90, 0x95, 0x99] {
            assert!(matches!(outcome("t", code, ""), Err(Failure::Rejected(_))), "{code:#x}");
        }
        assert!(matches!(outcome("t", 0x97, ""), Err(Failure::RateLimited(_))));
        for code in [0x80, 0x83, 0x91, 0xff] {
            assert!(
                matches!(outcome("t", code, ""), Err(Failure::Retry(info)) if !info.maybe_applied),
                "{code:#x}"
            );
        }
    }

    #[test]
    fn each_reason_of_a_refused_client_is_of_the_right_kind() {
        for code in [0x84, 0x85, 0x86, 0x87, 0x8a, 0x8c, 0x9c, 0x9d] {
            assert!(matches!(refused(Version::V5, code, ""), Failure::Misconfigured(_)), "{code:#x}");
        }
        for code in [0x88, 0x89, 0x97, 0x9f, 0x80] {
            assert!(matches!(refused(Version::V5, code, ""), Failure::Unavailable(_)), "{code:#x}");
        }
        for (code, word) in [(1, "version"), (2, "client_id"), (4, "auth"), (5, "auth")] {
            let Failure::Misconfigured(detail) = refused(Version::V3, code, "") else { panic!("{code}") };
            assert!(detail.message.contains(word), "{}", detail.message);
        }
        assert!(matches!(refused(Version::V3, 3, ""), Failure::Unavailable(_)));
    }
}
