//! What a failure of SQLite means to its caller.

use crate::store::StoreError;

/// Primary result codes that a later try may not meet: busy, locked, out of memory, read-only,
/// interrupted, input/output, full, can't open, protocol.
const PASSING: [i64; 9] = [5, 6, 7, 8, 9, 10, 13, 14, 15];

/// Inside the store, before the file's name is added.
pub(super) enum Failure {
    Sql(sqlx::Error),
    Store(StoreError),
}

pub(super) type Work<T> = Result<T, Failure>;

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The primary result code, if SQLite itself answered.
pub(super) fn result_code(error: &sqlx::Error) -> Option<i64> {
    let code = error.as_database_error()?.code()?;
    code.parse::<i64>().ok().map(|extended| extended & 0xff)
}

pub(super) fn explain(path: &str, failure: Failure) -> StoreError {
    let error = match failure {
        Failure::Store(error) => return error,
        Failure::Sql(error) => error,
    };
    let what = format!("SQLite file {path:?}: {error}");
    let Some(code) = result_code(&error) else {
        return match error {
            sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed
            | sqlx::Error::Io(_) => StoreError::Unavailable(what),
            _ => StoreError::Fault(what),
        };
    };
    let text = error.to_string();
    if code == 1 && text.contains("no such table") && text.contains("outbox_") {
        return StoreError::Schema(format!("{what}; create the tables with `outhaul migrate`"));
    }
    if !PASSING.contains(&code) {
        return StoreError::Fault(what);
    }
    let fix = match code {
        5 => "; another connection held the write lock for longer than outbox.timeout",
        8 => "; make the file, the -wal and -shm files beside it and its directory writable for this user",
        13 => "; free space on its disk",
        14 => "; its directory must exist and be writable, for the -wal and -shm files beside it",
        _ => "",
    };
    StoreError::Unavailable(format!("{what}{fix}"))
}
