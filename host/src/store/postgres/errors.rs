//! What a failed statement means to whoever asked.

use crate::store::StoreError;

/// Later may succeed, and nothing is known of the effect: connection trouble, shutdown and start,
/// too many connections, disk full, timeouts, a read-only server, and lost races.
const UNAVAILABLE_CLASSES: [&str; 5] = ["08", "40", "53", "57", "58"];
const READ_ONLY: &str = "25006";
const LOCK_NOT_AVAILABLE: &str = "55P03";
const WRONG_LOGIN_CLASS: &str = "28";
const NO_SUCH_DATABASE: &str = "3D000";
/// A statement that was prepared on another session, or is prepared on this one already.
const POOLED: [&str; 2] = ["26000", "42P05"];
const MISSING_TABLE: [&str; 4] = ["42P01", "42703", "42883", "3F000"];

pub(super) fn map(error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::Database(database) => {
            let code = database.code().unwrap_or_default().into_owned();
            let message = format!("{} (SQLSTATE {code})", database.message());
            classify(&code, message)
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => StoreError::Unavailable(error.to_string()),
        _ => StoreError::Fault(error.to_string()),
    }
}

fn classify(code: &str, message: String) -> StoreError {
    if UNAVAILABLE_CLASSES.iter().any(|class| code.starts_with(class))
        || [READ_ONLY, LOCK_NOT_AVAILABLE].contains(&code)
    {
        StoreError::Unavailable(message)
    } else if code.starts_with(WRONG_LOGIN_CLASS) || code == NO_SUCH_DATABASE {
        StoreError::Unavailable(format!("{message}; check outbox.url"))
    } else if POOLED.contains(&code) {
        StoreError::Unavailable(format!(
            "{message}: a pooler in transaction mode seems to be in between; set outbox.pooler = true, or let it keep \
             prepared statements"
        ))
    } else if MISSING_TABLE.contains(&code) {
        StoreError::Schema(format!(
            "{message}: the outbox tables are not as this host knows them; run `outhaul migrate`, and check \
             outbox.schema and the role's search_path"
        ))
    } else {
        StoreError::Fault(message)
    }
}

/// A producer's event that the table's own rules refuse is the caller's to mend.
pub(super) fn map_insert(error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::Database(database)
            if database.code().is_some_and(|code| code.starts_with("22") || code.starts_with("23")) =>
        {
            StoreError::Refused(format!("the event is refused: {}", database.message()))
        }
        _ => map(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_that_may_pass_is_unavailable_and_a_missing_table_names_the_command() {
        for code in ["57P01", "57P03", "57014", "08006", "53100", "53300", "40001", "40P01", "25006", "55P03"]
        {
            assert!(matches!(classify(code, code.to_owned()), StoreError::Unavailable(_)), "{code}");
        }
        assert!(matches!(classify("42601", String::new()), StoreError::Fault(_)));
        let StoreError::Unavailable(text) = classify("26000", String::new()) else { panic!() };
        assert!(text.contains("outbox.pooler = true"), "{text}");
        let StoreError::Schema(text) = classify("42P01", "relation missing".to_owned()) else { panic!() };
        assert!(text.contains("outhaul migrate"), "{text}");
    }
}
