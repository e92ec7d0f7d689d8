//! A PostgreSQL database of a test's own.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Names the server that tests may create databases on.
pub const SERVER: &str = "OUTHAUL_TEST_POSTGRES";

/// The server's URL. A test that can't run fails: it is never counted as passed.
pub fn server_url() -> String {
    std::env::var(SERVER).unwrap_or_else(|_| {
        panic!(
            "{SERVER} is not set: run `cargo xtask test`, which starts a server, or set it to postgres://…"
        )
    })
}

/// Created empty; dropped with this value.
pub struct TestDatabase {
    name: String,
    url: String,
}

impl TestDatabase {
    pub async fn create() -> Self {
        Self::create_with("").await
    }

    /// With options of `create database`.
    pub async fn create_with(options: &str) -> Self {
        let server = server_url();
        let name = format!("outhaul_test_{}", uuid::Uuid::new_v4().simple());
        let mut admin = PgConnection::connect(&server).await.expect("connect to the test server");
        run(&mut admin, format!("create database {name} {options}")).await;
        let url = with_database(&server, &name);
        Self { name, url }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The same database for another role, as an application's own.
    pub fn url_as(&self, role: &str, password: &str) -> String {
        let (_, after_login) = self.url.split_once('@').expect("the test server's URL names a user");
        format!("postgres://{role}:{password}@{after_login}")
    }

    pub async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("connect to the test database")
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let name = self.name.clone();
        // A thread, because a test may end inside or outside of any runtime.
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async {
                let drop = async {
                    if let Ok(mut admin) = PgConnection::connect(&server_url()).await {
                        let sql = format!("drop database if exists {name} with (force)");
                        let _ = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await;
                    }
                };
                let _ = tokio::time::timeout(Duration::from_secs(30), drop).await;
            });
        });
        let _ = dropped.join();
    }
}

pub async fn run(connection: &mut PgConnection, sql: impl Into<String>) {
    let sql = sql.into();
    sqlx::raw_sql(AssertSqlSafe(sql.clone()))
        .execute(connection)
        .await
        .unwrap_or_else(|error| panic!("{error}: {sql}"));
}

fn with_database(server: &str, name: &str) -> String {
    let (server, query) = server.split_once('?').map_or((server, None), |(url, query)| (url, Some(query)));
    let (root, _) = server.rsplit_once('/').expect("the test server's URL names a database");
    match query {
        Some(query) => format!("{root}/{name}?{query}"),
        None => format!("{root}/{name}"),
    }
}
