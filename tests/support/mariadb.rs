//! A MariaDB database of a test's own.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

/// Names the server that tests may create databases on.
pub const SERVER: &str = "OUTHAUL_TEST_MARIADB";

/// The server's URL. A test that can't run fails: it is never counted as passed.
pub fn server_url() -> String {
    std::env::var(SERVER).unwrap_or_else(|_| {
        panic!("{SERVER} is not set: run `cargo xtask test`, which starts a server, or set it to mysql://…")
    })
}

/// Created empty; dropped with this value.
pub struct TestDatabase {
    name: String,
    url: String,
}

impl TestDatabase {
    pub async fn create() -> Self {
        let server = server_url();
        let name = format!("outhaul_test_{}", uuid::Uuid::new_v4().simple());
        let mut admin = MySqlConnection::connect(&server).await.expect("connect to the test server");
        let create = format!("create database {name} character set utf8mb4");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await.expect("create the database");
        let (root, _) = server.rsplit_once('/').expect("the test server's URL names a database");
        Self { url: format!("{root}/{name}"), name }
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let sql = format!("drop database if exists {}", self.name);
        // A thread, because a test may end inside or outside of any runtime.
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async {
                let drop = async {
                    if let Ok(mut admin) = MySqlConnection::connect(&server_url()).await {
                        let _ = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await;
                    }
                };
                let _ = tokio::time::timeout(Duration::from_secs(30), drop).await;
            });
        });
        let _ = dropped.join();
    }
}
