//! One connection, whatever the database, and what a failure on it means.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Database, Either};

use super::{mysql, postgres, sqlite};
use crate::clock::SharedClock;
use crate::plugin::bindings::sql::{Dialect, Rows, SqlError, Value, Violation};
use crate::plugin::capability::dial::tls::rustls_error;
use crate::plugin::spec::SqlIsolation;

/// What a transaction is begun with.
#[derive(Clone, Copy)]
pub struct Terms {
    pub isolation: SqlIsolation,
    /// Of one statement, waits for locks included.
    pub statement: Duration,
    /// Of the whole: a server ends one whose host says nothing for so long.
    pub transaction: Duration,
    /// Of one value or row in the memory of an engine that runs in this process.
    pub value_bytes: usize,
}

/// How much of a result is taken.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub rows: usize,
    pub bytes: usize,
}

/// A statement that failed.
pub struct Failed {
    pub error: SqlError,
    /// The database answered, so the connection can be used again after a rollback.
    pub is_clean: bool,
}

impl Failed {
    pub fn clean(error: SqlError) -> Self {
        Self { error, is_clean: true }
    }

    pub fn broken(error: SqlError) -> Self {
        Self { error, is_clean: false }
    }

    /// The database may still be at it: the host no longer waits, or wants no more of the answer. Who is
    /// refused or cut off runs nothing.
    pub fn goes_on(&self) -> bool {
        !self.is_clean && !matches!(self.error, SqlError::Unavailable(_) | SqlError::Denied(_))
    }
}

/// What a server does for one transaction. It goes on when its connection is gone: a server looks at that
/// one only when it has something to say.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Process and start of the transaction, in microseconds: a pooler in between may hand the process to
    /// another in the meantime.
    Postgres {
        process: i32,
        begun_us: i64,
    },
    MySql {
        connection: u64,
    },
}

#[async_trait]
pub trait Session: Send {
    async fn begin(&mut self, terms: &Terms) -> Result<(), Failed>;

    async fn execute(&mut self, statement: &str, parameters: &[Value]) -> Result<u64, Failed>;

    async fn query(&mut self, statement: &str, parameters: &[Value], bounds: Bounds) -> Result<Rows, Failed>;

    /// Fails as `commit-unknown` unless the database says that it did not commit.
    async fn commit(&mut self) -> Result<After, Failed>;

    async fn rollback(&mut self) -> Result<After, Failed>;

    async fn is_alive(&mut self) -> bool;

    async fn version(&mut self) -> Result<String, Failed>;

    /// Where the transaction runs, for another connection to end it there. None where a connection's end
    /// is the end of what it runs.
    fn work(&self) -> Option<Work> {
        None
    }

    /// Ends another connection's work, whatever it does there.
    async fn end_other(&mut self, _work: Work) -> Result<(), Failed> {
        Ok(())
    }

    async fn close(self: Box<Self>);
}

/// What a connection is worth once its transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing of the session outlives the transaction: the next can have it.
    Clean,
    /// Something may: a lock, a setting, a table of the session's own.
    Spent,
}

type Answers<'c, D> =
    BoxStream<'c, Result<Either<<D as Database>::QueryResult, <D as Database>::Row>, sqlx::Error>>;

/// Reads the answers to the end of a transaction and to what cleans the session, sent together. A failure
/// before the first is the end's own; one after it only costs the connection.
pub async fn ended<D: Database>(
    mut answers: Answers<'_, D>,
    failed: fn(sqlx::Error) -> Failed,
) -> Result<After, Failed> {
    answers.try_next().await.map_err(failed)?;
    loop {
        match answers.try_next().await {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(After::Clean),
            Err(_) => return Ok(After::Spent),
        }
    }
}

/// A database as its URL says.
#[derive(Clone)]
pub enum Server {
    Sqlite(SqliteConnectOptions),
    Postgres(PgConnectOptions),
    MySql(MySqlConnectOptions),
}

impl Server {
    /// The message never repeats the URL, which may hold a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let unusable = |error: sqlx::Error| match error {
            sqlx::Error::Configuration(why) => format!("it can't be used: {why}"),
            other => format!("it can't be used: {other}"),
        };
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => {
                let options = SqliteConnectOptions::from_str(url).map_err(unusable)?;
                Ok(Self::Sqlite(options.disable_statement_logging()))
            }
            Some("postgres" | "postgresql") => {
                let options = PgConnectOptions::from_str(url).map_err(unusable)?;
                Ok(Self::Postgres(options.application_name("outhaul").disable_statement_logging()))
            }
            Some("mysql" | "mariadb") => {
                let options = MySqlConnectOptions::from_str(url).map_err(unusable)?;
                Ok(Self::MySql(options.disable_statement_logging()))
            }
            _ => Err("it is no URL of a database; write sqlite:PATH, postgres://USER@HOST/DATABASE or \
                      mysql://USER@HOST/DATABASE"
                .to_owned()),
        }
    }

    /// Where it is, without user and password.
    pub fn address(&self) -> String {
        match self {
            Self::Sqlite(options) => options.get_filename().display().to_string(),
            Self::Postgres(options) => match options.get_socket() {
                Some(socket) => socket.display().to_string(),
                None => format!("{}:{}", options.get_host(), options.get_port()),
            },
            Self::MySql(options) => match options.get_socket() {
                Some(socket) => socket.display().to_string(),
                None => format!("{}:{}", options.get_host(), options.get_port()),
            },
        }
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgresql,
            Self::MySql(_) => Dialect::Mysql,
        }
    }

    pub async fn connect(&self, clock: &SharedClock) -> Result<Box<dyn Session>, Failed> {
        Ok(match self {
            Self::Sqlite(options) => Box::new(sqlite::connect(options, clock.clone()).await?),
            Self::Postgres(options) => Box::new(postgres::connect(options).await?),
            Self::MySql(options) => Box::new(mysql::connect(options).await?),
        })
    }
}

/// What is no answer of the database: the connection broke, or the driver could not use it.
pub fn no_answer(error: &sqlx::Error) -> Failed {
    let text = error.to_string();
    Failed::broken(match error {
        sqlx::Error::Io(_) => match rustls_error(error).and_then(distrusted) {
            Some(why) => SqlError::Denied(why),
            None => SqlError::Unavailable(text),
        },
        sqlx::Error::WorkerCrashed => SqlError::Unavailable(text),
        sqlx::Error::Tls(_) => {
            SqlError::Denied(format!("TLS failed: {text}; mend it, or the URL's parameters"))
        }
        // Drivers count parameters before they send them.
        sqlx::Error::Protocol(_) if text.contains("parameters") => SqlError::Syntax(text),
        sqlx::Error::Protocol(_) => SqlError::Unavailable(text),
        sqlx::Error::Encode(_) => SqlError::Data(text),
        sqlx::Error::Configuration(_) => SqlError::Denied(text),
        _ => SqlError::Other(text),
    })
}

/// What one side has against the other, which no later handshake mends. Anything else may be a broken line.
fn distrusted(why: &rustls::Error) -> Option<String> {
    match why {
        rustls::Error::InvalidCertificate(_) => Some(format!(
            "its certificate is not trusted: {why}; name the certificate of the authority that signed it in the \
             URL, with  sslrootcert=FILE  (PostgreSQL) or  ssl-ca=FILE  (MySQL, MariaDB)"
        )),
        rustls::Error::PeerIncompatible(_) | rustls::Error::AlertReceived(_) => {
            Some(format!("TLS failed: {why}; mend it, or the URL's parameters"))
        }
        _ => None,
    }
}

/// The same error with these words in front.
pub fn told(error: SqlError, words: &str) -> SqlError {
    let told = |text: String| format!("{words}: {text}");
    match error {
        SqlError::UniqueViolation(Violation { constraint, message }) => {
            SqlError::UniqueViolation(Violation { constraint, message: told(message) })
        }
        SqlError::Constraint(text) => SqlError::Constraint(told(text)),
        SqlError::Data(text) => SqlError::Data(told(text)),
        SqlError::Serialization(text) => SqlError::Serialization(told(text)),
        SqlError::Deadlock(text) => SqlError::Deadlock(told(text)),
        SqlError::Unavailable(text) => SqlError::Unavailable(told(text)),
        SqlError::Denied(text) => SqlError::Denied(told(text)),
        SqlError::Timeout(text) => SqlError::Timeout(told(text)),
        SqlError::CommitUnknown(text) => SqlError::CommitUnknown(told(text)),
        SqlError::Closed => SqlError::Closed,
        SqlError::Syntax(text) => SqlError::Syntax(told(text)),
        SqlError::TooLarge(text) => SqlError::TooLarge(told(text)),
        SqlError::Other(text) => SqlError::Other(told(text)),
    }
}

/// A commit that was not answered by a refusal may have happened.
pub fn commit_failed(failed: Failed) -> Failed {
    match failed.error {
        SqlError::UniqueViolation(_)
        | SqlError::Constraint(_)
        | SqlError::Data(_)
        | SqlError::Serialization(_)
        | SqlError::Deadlock(_) => failed,
        SqlError::Unavailable(text)
        | SqlError::Denied(text)
        | SqlError::Timeout(text)
        | SqlError::Syntax(text)
        | SqlError::Other(text)
        | SqlError::TooLarge(text)
        | SqlError::CommitUnknown(text) => Failed::broken(SqlError::CommitUnknown(format!(
            "{text}; whether the transaction was committed is not known"
        ))),
        SqlError::Closed => failed,
    }
}

/// Rows as they arrive, until there are too many.
pub struct Gathered {
    pub rows: Rows,
    bounds: Bounds,
    bytes: usize,
}

impl Gathered {
    pub fn new(bounds: Bounds) -> Self {
        Self { rows: Rows { columns: Vec::new(), rows: Vec::new() }, bounds, bytes: 0 }
    }

    /// Asked before a row is decoded, with the bytes it came in: what is too large is not copied first.
    pub fn fits(&self, raw_bytes: usize) -> Result<(), Failed> {
        let Bounds { rows, bytes } = self.bounds;
        if self.rows.rows.len() < rows && self.bytes.saturating_add(raw_bytes) <= bytes {
            return Ok(());
        }
        // What is left of it would have to be read off the connection.
        Err(Failed::broken(SqlError::TooLarge(format!(
            "the result has more than {rows} rows or {bytes} bytes; ask for less, or raise  rows  or  result  in \
             the destination's limits.sql"
        ))))
    }

    pub fn add(&mut self, row: Vec<Value>) -> Result<(), Failed> {
        let size = row.iter().map(size).sum();
        self.fits(size)?;
        self.bytes += size;
        self.rows.rows.push(row);
        Ok(())
    }
}

/// What a value takes of the guest's memory, about.
fn size(value: &Value) -> usize {
    std::mem::size_of::<Value>()
        + match value {
            Value::Decimal(text) | Value::Text(text) | Value::Json(text) | Value::Uuid(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Null | Value::Boolean(_) | Value::Integer(_) | Value::Float(_) | Value::Timestamp(_) => 0,
        }
}

pub fn unreadable(column: &str, what: impl std::fmt::Display) -> Failed {
    Failed::broken(SqlError::Other(format!("column \"{column}\" can't be handed to a plugin: {what}")))
}
