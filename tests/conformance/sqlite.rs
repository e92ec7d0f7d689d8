//! The promises on SQLite: a file of the test's own, and a clock in a one-row table.

use std::sync::Arc;

use async_trait::async_trait;
use outhaul::domain::Timestamp;
use outhaul::store::sqlite::{SqliteOptions, SqliteStore};
use outhaul::store::{NewEvent, Schema};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Executor, Row, SqlSafeStr, Sqlite, Transaction, query};
use tempfile::TempDir;

use crate::harness::{AnyStore, Database, Isolation, Producer, SqlDatabase};

const CLOCK: &str = "SELECT micros FROM test_clock";
/// The clock of the routing trigger, which is the machine's for every producer but a test's.
const MACHINE_CLOCK: &str = "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000";
const ROUTING: &str = "outbox_route_inserted";

pub struct SqliteDatabase {
    pub dir: TempDir,
    store: Arc<SqliteStore>,
    /// The application's own connections, which know nothing of Outhaul.
    application: SqlitePool,
}

impl SqliteDatabase {
    pub async fn open() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Arc::new(connect(&dir).await);
        store.migrate().await.expect("migrate");
        let file = SqliteConnectOptions::new().filename(dir.path().join("outbox.db"));
        let application =
            SqlitePoolOptions::new().max_connections(4).connect_with(file).await.expect("connect");
        for sql in ["CREATE TABLE test_clock (micros INTEGER NOT NULL)", "INSERT INTO test_clock VALUES (0)"]
        {
            application.execute(sql).await.expect("the clock's table");
        }
        // On one connection: another may still know the trigger that was dropped.
        let mut connection = application.acquire().await.expect("a connection");
        let trigger = routing(&mut connection).await;
        assert!(trigger.contains(MACHINE_CLOCK), "{trigger}");
        let trigger = trigger.replace(MACHINE_CLOCK, &format!("({CLOCK})"));
        connection.execute("DROP TRIGGER outbox_route_inserted").await.expect("drop");
        connection.execute(AssertSqlSafe(trigger)).await.expect("create");
        drop(connection);
        Self { dir, store, application }
    }
}

async fn routing(connection: &mut SqliteConnection) -> String {
    query("SELECT sql FROM sqlite_schema WHERE name = ?1")
        .bind(ROUTING)
        .fetch_one(connection)
        .await
        .and_then(|row| row.try_get(0))
        .expect("the trigger's text")
}

fn url(dir: &TempDir) -> String {
    format!("sqlite://{}", dir.path().join("outbox.db").display())
}

async fn connect(dir: &TempDir) -> SqliteStore {
    let options = SqliteOptions { now_sql: Some(CLOCK.to_owned()), ..SqliteOptions::new(&url(dir)) };
    SqliteStore::connect(&options).await.expect("connect")
}

#[async_trait]
impl Database for SqliteDatabase {
    fn store(&self) -> Arc<dyn AnyStore> {
        self.store.clone()
    }

    async fn second_store(&self) -> Arc<dyn AnyStore> {
        Arc::new(connect(&self.dir).await)
    }

    async fn set_now(&self, now: Timestamp) {
        let set = query("UPDATE test_clock SET micros = ?1").bind(now.0);
        set.execute(&self.application).await.expect("set the clock");
    }

    // SQLite knows one isolation level: one writer at a time, which is serializable.
    async fn begin(&self, _isolation: Isolation) -> Box<dyn Producer> {
        let tx = self.application.begin_with("BEGIN IMMEDIATE").await.expect("begin");
        Box::new(SqliteProducer { tx })
    }
}

struct SqliteProducer {
    tx: Transaction<'static, Sqlite>,
}

#[async_trait]
impl Producer for SqliteProducer {
    async fn insert(&mut self, event: &NewEvent) -> Result<(), String> {
        let pairs = event.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        let headers = serde_json::Value::Object(pairs.collect());
        query(
            "INSERT INTO outbox_event (tenant_id, event_id, topic, payload, partition_key, headers, content_type,
                                       available_at, expires_at, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, 'application/json'), ?8, ?9,
                     (SELECT micros FROM test_clock))",
        )
        .bind(&event.tenant)
        .bind(&event.id)
        .bind(&event.topic)
        .bind(&event.payload)
        .bind(&event.key)
        .bind((!event.headers.is_empty()).then(|| headers.to_string()))
        .bind(&event.content_type)
        .bind(event.available_at.map(|at| at.0))
        .bind(event.expires_at.map(|at| at.0))
        .execute(&mut *self.tx)
        .await
        .map(|_| ())
        .map_err(|error| error.to_string())
    }

    async fn insert_without_routing(&mut self, event: &NewEvent) -> Result<(), String> {
        let text = routing(&mut self.tx).await;
        self.tx.execute("DROP TRIGGER outbox_route_inserted").await.expect("drop");
        let inserted = self.insert(event).await;
        self.tx.execute(AssertSqlSafe(text)).await.expect("create");
        inserted
    }

    async fn commit(self: Box<Self>) -> Result<(), String> {
        self.tx.commit().await.map_err(|error| error.to_string())
    }

    async fn rollback(self: Box<Self>) {
        self.tx.rollback().await.expect("rollback");
    }
}

#[async_trait]
impl SqlDatabase for SqliteDatabase {
    async fn execute(&self, sql: &str) -> Result<u64, String> {
        let done = self.application.execute(AssertSqlSafe(sql.to_owned())).await;
        done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
    }

    fn bytes_literal(&self, text: &str) -> String {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("x'{hex}'")
    }
}

crate::promises!(crate::sqlite::SqliteDatabase);
crate::promises_of_the_tables!(crate::sqlite::SqliteDatabase);

/// Every statement is prepared against a real database: a typing error shows here, not at three in
/// the morning.
#[tokio::test]
async fn every_statement_is_one_that_sqlite_understands() {
    let database = SqliteDatabase::open().await;
    println!("{}", database.store().server_version().await.expect("version"));
    let statements = database.store.statements();
    assert!(statements.len() > 60, "{}", statements.len());
    for (name, sql) in statements {
        let prepared = (&database.application).prepare(AssertSqlSafe(sql).into_sql_str()).await;
        assert!(prepared.is_ok(), "{name}: {:?}", prepared.err());
    }
}
