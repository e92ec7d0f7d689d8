//! Logging in with a secret that may have been rotated on one side only.

use std::time::{Duration, Instant};

use outhaul_plugin::net::{ConnectError, Error};
use outhaul_plugin::{ConfigureError, Failure, secrets};

/// Why no session came of one set of credentials.
#[derive(Debug, PartialEq)]
pub enum NotOpened {
    /// They were refused; an older key may do better.
    Refused(Failure),
    /// No other credentials would help.
    Failed(Failure),
}

impl From<Failure> for NotOpened {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ConnectError> for NotOpened {
    fn from(error: ConnectError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Error> for NotOpened {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Tries each of the credentials, newest first, until the broker takes one: a key that was rotated here
/// may be the older one there still. `open` is told how much of `time` is left.
pub fn log_in<C, S>(
    credentials: impl IntoIterator<Item = C>,
    time: Duration,
    mut open: impl FnMut(C, Duration) -> Result<S, NotOpened>,
) -> Result<S, Failure> {
    let began = Instant::now();
    let mut refused = Failure::misconfigured("login", "the secret of the setting auth has no key");
    for one in credentials {
        match open(one, time.saturating_sub(began.elapsed())) {
            Ok(session) => return Ok(session),
            Err(NotOpened::Refused(failure)) => refused = failure,
            Err(NotOpened::Failed(failure)) => return Err(failure),
        }
    }
    Err(refused)
}

/// Every key of the secret, newest first; one login without a password where there is no secret.
pub fn passwords(secret: Option<&str>) -> Result<Vec<Option<Vec<u8>>>, Failure> {
    Ok(match secret {
        None => vec![None],
        Some(secret) => secrets::reveal(secret)?.into_iter().map(Some).collect(),
    })
}

/// For `configure`: a missing grant shows when the plugin is loaded, not when the first event comes.
pub fn try_password(secret: Option<&str>) -> Result<(), ConfigureError> {
    let Some(secret) = secret else { return Ok(()) };
    secrets::reveal(secret).map(drop).map_err(|error| error.in_settings("/auth/password"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    fn refused(why: &str) -> NotOpened {
        NotOpened::Refused(Failure::misconfigured("login", why))
    }

    #[test]
    fn an_older_password_is_tried_where_the_newer_is_refused_and_no_further_than_one_that_is_taken() {
        let mut tried = Vec::new();
        let opened = log_in(["new", "old", "oldest"], TIME, |password, left| {
            assert!(left <= TIME);
            tried.push(password);
            if password == "old" { Ok(7) } else { Err(refused(password)) }
        });
        assert_eq!((opened, tried), (Ok(7), vec!["new", "old"]));
    }

    #[test]
    fn what_is_no_refusal_ends_the_tries() {
        let mut tries = 0;
        let opened: Result<(), _> = log_in(["new", "old"], TIME, |_, _| {
            tries += 1;
            Err(Error::Closed.into())
        });
        assert!(matches!(opened, Err(Failure::Unavailable(_))), "{opened:?}");
        assert_eq!(tries, 1);
    }

    #[test]
    fn the_last_refusal_is_told_or_that_there_is_no_key() {
        let opened: Result<(), _> = log_in(["new", "old"], TIME, |password, _| Err(refused(password)));
        assert!(matches!(opened, Err(Failure::Misconfigured(detail)) if detail.message == "old"));
        let opened: Result<(), _> = log_in([""; 0], TIME, |_, _| panic!("there is nothing to try"));
        assert!(matches!(opened, Err(Failure::Misconfigured(detail)) if detail.message.contains("no key")));
    }
}
