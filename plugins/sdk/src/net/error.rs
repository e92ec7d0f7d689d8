//! What ends a connection, and what that means for a delivery.

use std::fmt;

use super::ConnectError;
use crate::Failure;

/// Why a connection can't be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The other side ended it.
    Closed,
    /// It broke.
    Lost(String),
    /// The other side said nothing, or took nothing, in the time that was left.
    TimedOut,
    /// The other side said what the protocol does not know.
    Protocol(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the broker closed the connection"),
            Self::Lost(why) => write!(f, "the connection to the broker was lost: {why}"),
            Self::TimedOut => f.write_str("the broker did not answer in time"),
            Self::Protocol(what) => write!(f, "the broker's answer is not understood: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Closed => "connection-closed",
            Self::Lost(_) => "connection-lost",
            Self::TimedOut => "no-answer",
            Self::Protocol(_) => "protocol",
        }
    }
}

/// The fault is the destination's, so its lane pauses. Whether the event had left is the caller's to say.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::unavailable(error.code(), error.to_string())
    }
}

/// The host's own sentence, which names the endpoint and the lines to add.
impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Denied(why) => Self::misconfigured("endpoint-denied", why),
            ConnectError::Tls(why) => Self::misconfigured("tls", why),
            ConnectError::Unreachable(why) => Self::unavailable("unreachable", why),
            ConnectError::Timeout(why) => Self::unavailable("connect-timeout", why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_must_mend_stops_the_lane_and_what_may_pass_pauses_it() {
        let text = || "why".to_owned();
        for error in [ConnectError::Denied(text()), ConnectError::Tls(text())] {
            assert!(
                matches!(Failure::from(error), Failure::Misconfigured(detail) if detail.message == "why")
            );
        }
        for error in [ConnectError::Unreachable(text()), ConnectError::Timeout(text())] {
            assert!(matches!(Failure::from(error), Failure::Unavailable(info) if info.message == "why"));
        }
        for error in [Error::Closed, Error::Lost(text()), Error::TimedOut, Error::Protocol(text())] {
            let (code, message) = (error.code(), error.to_string());
            assert_eq!(Failure::from(error), Failure::unavailable(code, message));
        }
    }
}
