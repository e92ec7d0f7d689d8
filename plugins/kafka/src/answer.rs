//! What the broker's words mean for a delivery.

use outhaul_plugin::net::Error;
use outhaul_plugin::{Failure, Outcome, Receipt};

use crate::protocol::produce::Answer;

// Kafka's error codes (https://kafka.apache.org/protocol#protocol_error_codes).
const NONE: i16 = 0;
const CORRUPT_MESSAGE: i16 = 2;
pub const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
pub const LEADER_NOT_AVAILABLE: i16 = 5;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const REQUEST_TIMED_OUT: i16 = 7;
const BROKER_NOT_AVAILABLE: i16 = 8;
const MESSAGE_TOO_LARGE: i16 = 10;
const NETWORK_EXCEPTION: i16 = 13;
const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const INVALID_TOPIC: i16 = 17;
const RECORD_LIST_TOO_LARGE: i16 = 18;
const NOT_ENOUGH_REPLICAS: i16 = 19;
const NOT_ENOUGH_REPLICAS_AFTER_APPEND: i16 = 20;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const CLUSTER_AUTHORIZATION_FAILED: i16 = 31;
const INVALID_TIMESTAMP: i16 = 32;
pub const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
pub const ILLEGAL_SASL_STATE: i16 = 34;
const POLICY_VIOLATION: i16 = 44;
const OUT_OF_ORDER_SEQUENCE: i16 = 45;
const DUPLICATE_SEQUENCE: i16 = 46;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
const KAFKA_STORAGE_ERROR: i16 = 56;
pub const SASL_AUTHENTICATION_FAILED: i16 = 58;
const UNKNOWN_PRODUCER_ID: i16 = 59;
const FENCED_LEADER_EPOCH: i16 = 74;
const UNKNOWN_LEADER_EPOCH: i16 = 75;
const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
const INVALID_RECORD: i16 = 87;
const THROTTLING_QUOTA_EXCEEDED: i16 = 89;
const PRODUCER_FENCED: i16 = 90;

/// What to do about a batch.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Stored,
    /// The log has it from an earlier try, under the same numbers.
    Duplicate,
    /// The same bytes again: the numbers in them make sure that it is stored once, whatever became of this
    /// try. `may_be_stored` is whether it might be, if there is no other try.
    Again {
        may_be_stored: bool,
    },
    /// The broker lost count of this producer, and took nothing.
    Renumber,
    /// In smaller batches; a single record is rejected.
    Split,
    /// Without the records at fault.
    Mend,
    /// No other try would do better now. Of an error that we don't know nobody can say what was stored.
    Failed {
        failure: Failure,
        may_be_stored: bool,
    },
}

pub fn verdict(answer: &Answer) -> Verdict {
    match answer.error {
        NONE => Verdict::Stored,
        DUPLICATE_SEQUENCE => Verdict::Duplicate,
        // A leader that stepped down while it waited for its followers had stored the batch, and its
        // followers may have.
        NOT_LEADER_OR_FOLLOWER
        | REQUEST_TIMED_OUT
        | NETWORK_EXCEPTION
        | NOT_ENOUGH_REPLICAS_AFTER_APPEND
        | KAFKA_STORAGE_ERROR => Verdict::Again { may_be_stored: true },
        CORRUPT_MESSAGE
        | UNKNOWN_TOPIC_OR_PARTITION
        | LEADER_NOT_AVAILABLE
        | BROKER_NOT_AVAILABLE
        | NOT_ENOUGH_REPLICAS
        | FENCED_LEADER_EPOCH
        | UNKNOWN_LEADER_EPOCH => Verdict::Again { may_be_stored: false },
        OUT_OF_ORDER_SEQUENCE
        | UNKNOWN_PRODUCER_ID
        | INVALID_PRODUCER_EPOCH
        | INVALID_PRODUCER_ID_MAPPING
        | PRODUCER_FENCED => Verdict::Renumber,
        MESSAGE_TOO_LARGE | RECORD_LIST_TOO_LARGE => Verdict::Split,
        INVALID_RECORD | INVALID_TIMESTAMP => Verdict::Mend,
        error => {
            let may_be_stored = !matches!(
                error,
                INVALID_TOPIC
                    | TOPIC_AUTHORIZATION_FAILED
                    | CLUSTER_AUTHORIZATION_FAILED
                    | UNSUPPORTED_COMPRESSION_TYPE
                    | POLICY_VIOLATION
                    | THROTTLING_QUOTA_EXCEEDED
            );
            Verdict::Failed { failure: failed(error, &answer.topic, &answer.text), may_be_stored }
        }
    }
}

/// An error that ends it for now, of a topic or of a batch whose tries are used up.
pub fn failed(error: i16, topic: &str, text: &str) -> Failure {
    let text = if text.is_empty() { String::new() } else { format!(" ({text})") };
    match error {
        UNKNOWN_TOPIC_OR_PARTITION => Failure::misconfigured(
            "no-topic",
            format!(
                "the cluster has no topic {topic:?}, or this user may not see it{text}; create it, or let the \
                 setting create_topics have it made"
            ),
        ),
        INVALID_TOPIC => Failure::rejected(
            "invalid-topic",
            format!("the cluster refuses the topic's name {topic:?}{text}"),
        ),
        TOPIC_AUTHORIZATION_FAILED => Failure::misconfigured(
            "permission",
            format!("the user may not write to the topic {topic:?}{text}; give it WRITE on the topic"),
        ),
        CLUSTER_AUTHORIZATION_FAILED => Failure::misconfigured(
            "permission",
            format!(
                "the user may not produce with a producer id{text}; give it WRITE on a topic, or before \
                     Kafka 2.8 IDEMPOTENT_WRITE on the cluster"
            ),
        ),
        UNSUPPORTED_COMPRESSION_TYPE => Failure::misconfigured(
            "compression",
            format!(
                "the topic {topic:?} does not take this compression{text}; change the setting compression"
            ),
        ),
        POLICY_VIOLATION => {
            Failure::rejected("policy", format!("a policy of the topic {topic:?} refuses the record{text}"))
        }
        THROTTLING_QUOTA_EXCEEDED => {
            Failure::rate_limited("quota", format!("the cluster's quota is used up{text}"))
        }
        NOT_ENOUGH_REPLICAS | NOT_ENOUGH_REPLICAS_AFTER_APPEND => Failure::unavailable(
            "replicas",
            format!("the topic {topic:?} has fewer replicas in sync than its min.insync.replicas{text}"),
        ),
        LEADER_NOT_AVAILABLE | NOT_LEADER_OR_FOLLOWER | FENCED_LEADER_EPOCH | UNKNOWN_LEADER_EPOCH => {
            Failure::unavailable(
                "no-leader",
                format!("a partition of the topic {topic:?} has no leader now{text}"),
            )
        }
        REQUEST_TIMED_OUT => Failure::unavailable(
            "timed-out",
            format!("the replicas of the topic {topic:?} did not all confirm in time{text}"),
        ),
        BROKER_NOT_AVAILABLE
        | NETWORK_EXCEPTION
        | KAFKA_STORAGE_ERROR
        | COORDINATOR_LOAD_IN_PROGRESS
        | COORDINATOR_NOT_AVAILABLE => Failure::unavailable(
            format!("kafka-{error}"),
            format!("the broker can't serve {topic:?} now{text}"),
        ),
        OUT_OF_ORDER_SEQUENCE
        | UNKNOWN_PRODUCER_ID
        | INVALID_PRODUCER_EPOCH
        | INVALID_PRODUCER_ID_MAPPING
        | PRODUCER_FENCED => Failure::retry(
            "producer-id",
            format!("the broker lost count of this producer on {topic:?} (error {error}){text}"),
        ),
        _ => Failure::retry(
            format!("kafka-{error}"),
            format!("the broker answered {topic:?} with error {error}{text}"),
        ),
    }
}

/// The cluster says nothing of a topic but this error; no event has left.
pub fn no_topic(error: i16, topic: &str) -> Failure {
    match failed(error, topic, "") {
        Failure::Retry(info) => Failure::unavailable(info.code, info.message),
        failure => failure,
    }
}

/// Whether what looks after producer ids is only about to begin.
pub fn is_passing(error: i16) -> bool {
    matches!(error, COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_NOT_AVAILABLE | REQUEST_TIMED_OUT)
}

/// The broker gave no producer id; no event has left.
pub fn no_producer_id(error: i16) -> Failure {
    match error {
        CLUSTER_AUTHORIZATION_FAILED => failed(error, "", ""),
        _ => Failure::unavailable(
            format!("kafka-{error}"),
            format!("the broker gives no producer id now (error {error})"),
        ),
    }
}

pub fn stored(topic: &str, partition: i32, offset: Option<i64>) -> Receipt {
    match offset {
        Some(offset) => Receipt::delivered().with_reference(format!("{topic}/{partition}/{offset}")),
        None => Receipt::delivered(),
    }
}

pub fn too_large(topic: &str, bytes: usize) -> Outcome {
    let message = format!(
        "the record has about {bytes} bytes, and the topic {topic:?} takes no such; raise its max.message.bytes"
    );
    Err(Failure::rejected("too-large", message))
}

pub fn at_fault(topic: &str, text: &str) -> Outcome {
    let text = if text.is_empty() { "it does not say why" } else { text };
    Err(Failure::rejected("invalid-record", format!("the topic {topic:?} does not take the record: {text}")))
}

const NO_TIME: &str = "no-time";

/// Nothing was said to the broker.
pub fn no_time(address: &str) -> Failure {
    let broker = if address.is_empty() { "a broker" } else { address };
    Failure::unavailable(NO_TIME, format!("too little of the call's time is left to dial {broker}"))
}

pub fn is_no_time(failure: &Failure) -> bool {
    matches!(failure, Failure::Unavailable(info) if info.code == NO_TIME)
}

/// The broker reads nothing from us before that.
pub fn throttled(wait: std::time::Duration) -> Failure {
    let message = format!("the broker's quota lets this producer wait for {} ms", wait.as_millis());
    Failure::rate_limited("throttled", message).after(wait)
}

/// Why there is no session.
pub fn login_refused(mechanism: &str, text: &str) -> Failure {
    let message = format!("the broker refuses the login: {text} ({mechanism}); see the setting auth");
    Failure::misconfigured("login", message)
}

/// We end the login: whoever answers does not speak as a broker that has the user's credentials.
pub fn login_broken_off(mechanism: &str, why: &str) -> Failure {
    let message = format!(
        "the login is broken off ({mechanism}), for the broker can't be trusted with it: {why}; see that the endpoint \
         leads to your broker, and how the user's credentials were made"
    );
    Failure::misconfigured("login", message)
}

pub fn no_mechanism(wanted: &str, offered: &[String]) -> Failure {
    let message = format!(
        "the broker offers the logins {}, and not {wanted}; see mechanism of the setting auth",
        offered.join(", ")
    );
    Failure::misconfigured("mechanism", message)
}

pub fn login_not_taken() -> Failure {
    let message = "the broker takes no login on this port; remove the setting auth, or change the endpoint to the \
                   port of its SASL listener";
    Failure::misconfigured("login-not-taken", message)
}

pub fn login_missing(offered: &[String]) -> Failure {
    let message = format!(
        "the broker wants a login on this port ({}); add the setting auth = {{ mechanism, user, password }}",
        offered.join(", ")
    );
    Failure::misconfigured("login-missing", message)
}

/// Of what a broker says that is too old, or no broker, the operator must know.
pub fn not_spoken(why: String) -> Failure {
    Failure::misconfigured("version", why)
}

/// The first answer was none of Kafka's.
pub fn no_kafka(error: Error) -> Failure {
    match error {
        Error::Protocol(what) if what.contains("tls = true") => Failure::misconfigured("tls", what),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::produce::tests::said;

    #[test]
    fn an_error_says_what_to_do_about_the_batch() {
        let of = |error| verdict(&said(0, error, -1));
        assert_eq!((of(0), of(46)), (Verdict::Stored, Verdict::Duplicate));
        for error in [3, 5, 19, 74] {
            assert_eq!(of(error), Verdict::Again { may_be_stored: false }, "{error}");
        }
        for error in [6, 7, 20, 56] {
            assert_eq!(of(error), Verdict::Again { may_be_stored: true }, "{error}");
        }
        for error in [45, 47, 59] {
            assert_eq!(of(error), Verdict::Renumber, "{error}");
        }
        assert_eq!((of(10), of(87), of(32)), (Verdict::Split, Verdict::Mend, Verdict::Mend));
        for (error, unknown) in [(29, false), (17, false), (-1, true), (999, true)] {
            assert!(
                matches!(of(error), Verdict::Failed { may_be_stored, .. } if may_be_stored == unknown),
                "{error}"
            );
        }
    }

    #[test]
    fn a_failure_is_of_the_right_kind() {
        let of = |error| failed(error, "orders", "why");
        for (error, code) in [(3, "no-topic"), (29, "permission"), (31, "permission"), (76, "compression")] {
            let Failure::Misconfigured(detail) = of(error) else { panic!("{error}") };
            assert!(detail.code == code && detail.message.contains("(why)"), "{detail:?}");
        }
        for error in [17, 44] {
            assert!(matches!(of(error), Failure::Rejected(_)), "{error}");
        }
        for error in [5, 6, 7, 19, 20, 56] {
            assert!(matches!(of(error), Failure::Unavailable(info) if !info.maybe_applied), "{error}");
        }
        assert!(matches!(of(89), Failure::RateLimited(_)));
        for error in [45, -1, 99] {
            assert!(matches!(of(error), Failure::Retry(_)), "{error}");
        }
        assert!(matches!(no_topic(99, "orders"), Failure::Unavailable(_)));
        assert!(matches!(no_producer_id(31), Failure::Misconfigured(_)));
        assert!(matches!(no_producer_id(15), Failure::Unavailable(_)));
    }

    #[test]
    fn a_port_that_speaks_tls_is_told_to_the_operator() {
        let alert = no_kafka(Error::Protocol("add  tls = true  there".into()));
        assert!(matches!(alert, Failure::Misconfigured(detail) if detail.code == "tls"));
        assert!(matches!(no_kafka(Error::Closed), Failure::Unavailable(_)));
    }
}
