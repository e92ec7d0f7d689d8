//! What an error of a database means for an event.

use super::SqlError;
use crate::Failure;

impl SqlError {
    /// Its sentence.
    pub fn message(&self) -> &str {
        match self {
            Self::UniqueViolation(violation) => &violation.message,
            Self::Constraint(text)
            | Self::Data(text)
            | Self::Serialization(text)
            | Self::Deadlock(text)
            | Self::Unavailable(text)
            | Self::Denied(text)
            | Self::Timeout(text)
            | Self::CommitUnknown(text)
            | Self::Syntax(text)
            | Self::TooLarge(text)
            | Self::Other(text) => text,
            Self::Closed => "the transaction has ended",
        }
    }
}

/// What the database refuses of this event is `rejected`; what a lost race or a lock did is `retry`; a
/// database that can't be reached is `unavailable`; a login, a grant or a statement that is wrong is
/// `misconfigured`. A commit of which nobody knows is a `retry` that may have been applied.
impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        let message = error.message().to_owned();
        match error {
            SqlError::UniqueViolation(_) => Self::rejected("sql-unique-violation", message),
            SqlError::Constraint(_) => Self::rejected("sql-constraint", message),
            SqlError::Data(_) => Self::rejected("sql-data", message),
            SqlError::TooLarge(_) => Self::rejected("sql-too-large", message),
            SqlError::Serialization(_) => Self::retry("sql-serialization", message),
            SqlError::Deadlock(_) => Self::retry("sql-deadlock", message),
            SqlError::Timeout(_) => Self::retry("sql-timeout", message),
            SqlError::CommitUnknown(_) => Self::retry("sql-commit-unknown", message).maybe_applied(),
            SqlError::Unavailable(_) => Self::unavailable("sql-unavailable", message),
            SqlError::Denied(_) => Self::misconfigured("sql-denied", message),
            SqlError::Syntax(_) => Self::misconfigured("sql-statement", message),
            SqlError::Closed | SqlError::Other(_) => Self::other("sql", message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_is_the_failure_it_means() {
        assert_eq!(Failure::from(SqlError::Deadlock("d".into())), Failure::retry("sql-deadlock", "d"));
        assert_eq!(Failure::from(SqlError::Denied("d".into())), Failure::misconfigured("sql-denied", "d"));
        let Failure::Retry(info) = SqlError::CommitUnknown("c".into()).into() else { panic!() };
        assert!(info.maybe_applied);
    }
}
