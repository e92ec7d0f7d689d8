//! A destination's database, of each kind, as the test looks at it: with drivers of its own, beside the host.

use std::str::FromStr;
use std::time::Duration;

use outhaul::plugin::spec::{SqlGrant, SqlIsolation, SqlUrl};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, MySqlConnection, PgConnection, SqliteConnection};

use crate::{mariadb, postgres};

/// Declares test functions that take a [`Database`] once for each kind.
#[macro_export]
macro_rules! on_each_database {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() {
                super::$name($crate::databases::Database::sqlite().await).await
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() {
                super::$name($crate::databases::Database::postgres().await).await
            })+
        }
        mod mariadb {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)] async fn $name() {
                super::$name($crate::databases::Database::mariadb().await).await
            })+
        }
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
    MariaDb,
}

/// Created empty; dropped with this value.
pub struct Database {
    pub kind: Kind,
    url: String,
    _keeps: Keeps,
}

enum Keeps {
    Folder(#[expect(dead_code, reason = "dropped with the database")] tempfile::TempDir),
    Postgres(#[expect(dead_code, reason = "dropped with the database")] postgres::TestDatabase),
    MariaDb(#[expect(dead_code, reason = "dropped with the database")] mariadb::TestDatabase),
}

impl Database {
    pub async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = format!("sqlite:{}", folder.path().join("shop.db").display());
        let options = SqliteConnectOptions::from_str(&url).expect("a URL").create_if_missing(true);
        options.connect().await.expect("the file is made").close().await.expect("it is closed");
        Self { kind: Kind::Sqlite, url, _keeps: Keeps::Folder(folder) }
    }

    pub async fn postgres() -> Self {
        let database = postgres::TestDatabase::create().await;
        Self { kind: Kind::Postgres, url: database.url().to_owned(), _keeps: Keeps::Postgres(database) }
    }

    pub async fn mariadb() -> Self {
        let database = mariadb::TestDatabase::create().await;
        Self { kind: Kind::MariaDb, url: database.url().to_owned(), _keeps: Keeps::MariaDb(database) }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The statement as it goes over the wire, so that `read committed` is another.
    pub fn commit_word(&self) -> &'static str {
        match self.kind {
            Kind::Sqlite => "commit",
            Kind::Postgres => "commit; set",
            Kind::MariaDb => "\u{3}commit",
        }
    }

    /// What a destination is granted of it.
    pub fn grant(&self) -> SqlGrant {
        grant(&self.url)
    }

    pub async fn connect(&self) -> Hand {
        match self.kind {
            Kind::Sqlite => {
                let options = SqliteConnectOptions::from_str(&self.url).expect("a URL");
                let options = options.busy_timeout(Duration::from_secs(30));
                Hand::Sqlite(options.connect().await.expect("the file opens"))
            }
            Kind::Postgres => Hand::Postgres(PgConnection::connect(&self.url).await.expect("it answers")),
            Kind::MariaDb => Hand::MariaDb(MySqlConnection::connect(&self.url).await.expect("it answers")),
        }
    }

    pub async fn run(&self, sql: &str) {
        self.connect().await.run(sql).await;
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.connect().await.number(sql).await
    }

    pub async fn text(&self, sql: &str) -> String {
        self.connect().await.text(sql).await
    }
}

pub fn grant(url: &str) -> SqlGrant {
    SqlGrant { url: SqlUrl::Text(url.to_owned()), pool: 4, isolation: SqlIsolation::ReadCommitted }
}

/// A connection of the test's own.
pub enum Hand {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

impl Hand {
    pub async fn run(&mut self, sql: &str) {
        let text = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::raw_sql(text).execute(connection).await.map(drop),
            Self::Postgres(connection) => sqlx::raw_sql(text).execute(connection).await.map(drop),
            Self::MariaDb(connection) => sqlx::raw_sql(text).execute(connection).await.map(drop),
        }
        .unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    pub async fn number(&mut self, sql: &str) -> i64 {
        let text = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(text).fetch_one(connection).await,
            Self::Postgres(connection) => sqlx::query_scalar(text).fetch_one(connection).await,
            Self::MariaDb(connection) => sqlx::query_scalar(text).fetch_one(connection).await,
        }
        .unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    pub async fn text(&mut self, sql: &str) -> String {
        let text = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(connection) => sqlx::query_scalar(text).fetch_one(connection).await,
            Self::Postgres(connection) => sqlx::query_scalar(text).fetch_one(connection).await,
            Self::MariaDb(connection) => sqlx::query_scalar(text).fetch_one(connection).await,
        }
        .unwrap_or_else(|error| panic!("{error}: {sql}"))
    }
}
