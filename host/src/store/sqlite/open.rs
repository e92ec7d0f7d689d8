//! Opening the file: made if it is missing, taken as it is, or only read where this user can't write.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, query};

use super::SqliteOptions;
use super::errors::{Failure, explain, result_code};
use crate::store::{StoreError, StoreResult};

pub(super) struct Pools {
    pub writer: SqlitePool,
    pub readers: SqlitePool,
}

/// So many connections: one, and a new one for each question.
const ANEW: u32 = 0;

/// Result codes of a file, or of the files beside it, that can't be written: read-only, can't open.
const UNWRITABLE: [i64; 2] = [8, 14];

pub(super) async fn pools(path: &str, options: &SqliteOptions) -> StoreResult<Pools> {
    let file = SqliteConnectOptions::from_str("sqlite::memory:")
        .map_err(|error| StoreError::Fault(error.to_string()))?
        .in_memory(false)
        .shared_cache(false)
        .filename(path)
        .create_if_missing(options.create)
        .busy_timeout(options.timeout)
        .statement_cache_capacity(256)
        .disable_statement_logging();
    if !options.create && Path::new(path).try_exists().is_ok_and(|exists| !exists) {
        return Err(StoreError::Refused(missing(path)));
    }
    if options.write {
        return writable(file, options).await.map_err(|error| explain(path, Failure::Sql(error)));
    }
    // The journal stays as it is: who only looks changes nothing.
    let error = match readable(file.clone(), options).await {
        Ok(pools) => return Ok(pools),
        Err(error) => error,
    };
    if !result_code(&error).is_some_and(|code| UNWRITABLE.contains(&code)) {
        return Err(explain(path, Failure::Sql(error)));
    }
    // The files beside it can't be made. Without a log, all there is stands in the file itself.
    if has_log(path) {
        return Err(StoreError::Refused(format!(
            "SQLite file {path:?} can't be read by this user: the changes in its -wal file are not in it yet, and \
             reading them takes a -shm file beside it, which can't be made here ({error}); run this as a user who may \
             write to its directory, or copy the file and its -wal file to a directory of your own"
        )));
    }
    let unchanging = file.read_only(true).immutable(true);
    let anew = SqliteOptions { readers: ANEW, ..options.clone() };
    readable(unchanging, &anew).await.map_err(|error| explain(path, Failure::Sql(error)))
}

/// A connection to a file that can't be written is told of it only by what it writes, and stays one even when
/// the file can be written again: it is found out here, where the host tries again with a new one.
async fn writable(file: SqliteConnectOptions, options: &SqliteOptions) -> sqlx::Result<Pools> {
    let pools = pair(file.journal_mode(SqliteJournalMode::Wal), options).await?;
    try_write(&pools.writer).await?;
    Ok(pools)
}

/// Writes and takes it back. The lock alone says nothing: SQLite makes a reader's of it where it can't write.
pub(super) async fn try_write(writer: &SqlitePool) -> sqlx::Result<()> {
    let mut tried = writer.begin_with("BEGIN IMMEDIATE").await?;
    query("CREATE TABLE outhaul_tries_to_write (a)").execute(&mut *tried).await?;
    tried.rollback().await
}

/// Opens it and reads something: what the first statement would meet is met here.
async fn readable(file: SqliteConnectOptions, options: &SqliteOptions) -> sqlx::Result<Pools> {
    let pools = pair(file, options).await?;
    query("SELECT count(*) FROM sqlite_schema").fetch_one(&pools.readers).await?;
    Ok(pools)
}

async fn pair(file: SqliteConnectOptions, options: &SqliteOptions) -> sqlx::Result<Pools> {
    let SqliteOptions { timeout, readers, .. } = options;
    let writing = file.clone().synchronous(SqliteSynchronous::Full);
    let writer = open(pool((*readers).min(1), *timeout), writing, *timeout).await?;
    let reading = file.pragma("query_only", "on");
    let readers = open(pool(*readers, *timeout), reading, *timeout).await?;
    Ok(Pools { writer, readers })
}

fn pool(connections: u32, timeout: Duration) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections.max(1))
        // What others write to a file that is taken for unchanging shows in no connection that has read of it.
        .before_acquire(move |_, _| Box::pin(async move { Ok(connections != ANEW) }))
        .acquire_timeout(timeout * 2)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
}

/// Two processes that create one file at the same moment both switch it to WAL, which does not wait
/// for the other by itself.
async fn open(
    pool: SqlitePoolOptions,
    options: SqliteConnectOptions,
    timeout: Duration,
) -> sqlx::Result<SqlitePool> {
    const PAUSE: Duration = Duration::from_millis(10);
    let mut pauses_left = timeout.as_millis() / PAUSE.as_millis();
    loop {
        match pool.clone().connect_with(options.clone()).await {
            Err(error) if result_code(&error) == Some(5) && pauses_left > 0 => {
                pauses_left -= 1;
                tokio::time::sleep(PAUSE).await;
            }
            opened => return opened,
        }
    }
}

fn has_log(path: &str) -> bool {
    std::fs::metadata(format!("{path}-wal")).is_ok_and(|log| log.len() > 0)
}

fn missing(path: &str) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.into());
    format!(
        "the SQLite file {} does not exist; if outbox.url is right, make it and its tables with  outhaul migrate",
        whole.display()
    )
}

/// The file of a `sqlite:` address, if it is not there.
pub fn missing_file(url: &str) -> Option<PathBuf> {
    let path = PathBuf::from(file_of(url).ok()?);
    path.try_exists().is_ok_and(|exists| !exists).then_some(path)
}

/// The file of a `sqlite:` address.
pub(super) fn file_of(url: &str) -> StoreResult<String> {
    // What is behind the ? may be a key.
    let shown = url.split('?').next().unwrap_or_default();
    let refused = |why: &str| {
        Err(StoreError::Refused(format!("outbox.url {shown:?}: {why}; write  url = \"sqlite:outhaul.db\"")))
    };
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return refused("it does not begin with sqlite:");
    };
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() {
        return refused("it names no file");
    }
    if path == ":memory:" || path.contains("mode=memory") {
        return refused("a database in memory can't be shared with the application that inserts events");
    }
    if path.contains('?') {
        return refused("options after ? are not taken, the host sets what it needs");
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_file_and_nothing_that_cannot_be_shared() {
        for (url, path) in [
            ("sqlite:outhaul.db", "outhaul.db"),
            ("sqlite://data/outhaul.db", "data/outhaul.db"),
            ("sqlite:///srv/outhaul.db", "/srv/outhaul.db"),
        ] {
            assert_eq!(file_of(url).expect("an address"), path);
        }
        for url in ["sqlite::memory:", "sqlite://:memory:", "sqlite:", "x.db", "sqlite:a.db?mode=ro"] {
            let refusal = file_of(url).expect_err(url).to_string();
            assert!(refusal.contains("sqlite:outhaul.db") && !refusal.contains("mode=ro"), "{refusal}");
        }
    }
}
