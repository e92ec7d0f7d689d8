//! The promises on PostgreSQL, and those that only it can make.

mod keys;
mod leases;
mod producers;
mod proxy;
mod schema;
mod sweeps;
mod trouble;
mod wake;

use std::sync::Arc;

use async_trait::async_trait;
use outhaul::domain::{DestinationId, Timestamp};
use outhaul::store::postgres::{PostgresOptions, PostgresStore};
use outhaul::store::{ClaimRequest, NewEvent, Order, Schema, Store, Which};
use outhaul_tests::postgres::{TestDatabase, run};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::harness::{AnyStore, Database, Isolation, Producer, SqlDatabase};

/// Stands in for the database's clock in every statement.
const CLOCK: &str = "(select now from public.test_clock)";

pub struct PostgresDatabase {
    store: Arc<PostgresStore>,
    database: TestDatabase,
}

impl PostgresDatabase {
    pub async fn open() -> Self {
        let database = TestDatabase::create().await;
        let mut connection = database.connection().await;
        run(&mut connection, "create table test_clock (now timestamptz not null)").await;
        run(&mut connection, "insert into test_clock values (to_timestamp(100))").await;
        run(&mut connection, "grant select on test_clock to public").await;
        let store = Arc::new(open_store(&database).await);
        store.migrate().await.expect("migrate");
        run(
            &mut connection,
            "create function public.test_now() returns timestamptz language sql stable as $$
                 select now from public.test_clock
             $$;
             alter table outbox_event alter column created_at set default public.test_now()",
        )
        .await;
        print_version(store.as_ref()).await;
        Self { store, database }
    }

    pub async fn connection(&self) -> PgConnection {
        self.database.connection().await
    }

    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    pub fn postgres(&self) -> &Arc<PostgresStore> {
        &self.store
    }
}

pub fn options(url: &str) -> PostgresOptions {
    PostgresOptions { clock_sql: Some(CLOCK.to_owned()), ..PostgresOptions::new(url) }
}

/// A claim by the real clock.
pub fn request(destination: DestinationId) -> ClaimRequest {
    ClaimRequest {
        host_id: "host-a".to_owned(),
        destination,
        limit: 10,
        lease: crate::scene::LEASE,
        order: Order::None,
        max_attempts: 3,
        which: Which::Ordinary,
        probe: None,
    }
}

async fn open_store(database: &TestDatabase) -> PostgresStore {
    PostgresStore::connect(&options(database.url())).await.expect("connect")
}

/// Once a suite.
async fn print_version(store: &PostgresStore) {
    static SAID: std::sync::Once = std::sync::Once::new();
    let version = store.server_version().await.expect("version");
    SAID.call_once(|| println!("{version}"));
}

#[async_trait]
impl Database for PostgresDatabase {
    fn store(&self) -> Arc<dyn AnyStore> {
        self.store.clone()
    }

    async fn second_store(&self) -> Arc<dyn AnyStore> {
        Arc::new(open_store(&self.database).await)
    }

    async fn set_now(&self, now: Timestamp) {
        let sql =
            format!("update test_clock set now = timestamptz 'epoch' + {} * interval '1 microsecond'", now.0);
        run(&mut self.connection().await, sql).await;
    }

    async fn begin(&self, isolation: Isolation) -> Box<dyn Producer> {
        let mut connection = self.connection().await;
        let level = match isolation {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        };
        run(&mut connection, format!("begin isolation level {level}")).await;
        Box::new(PostgresProducer { connection })
    }
}

/// Knows nothing but the table.
struct PostgresProducer {
    connection: PgConnection,
}

impl PostgresProducer {
    async fn run(&mut self, sql: &'static str) -> Result<(), String> {
        sqlx::raw_sql(sql).execute(&mut self.connection).await.map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[async_trait]
impl Producer for PostgresProducer {
    async fn insert(&mut self, event: &NewEvent) -> Result<(), String> {
        let headers = (!event.headers.is_empty()).then(|| {
            let object: serde_json::Map<_, _> =
                event.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
            serde_json::Value::Object(object)
        });
        let micros = |at: Option<Timestamp>| at.map(|Timestamp(micros)| micros);
        sqlx::query(
            "insert into outbox_event (tenant_id, event_id, topic, payload, partition_key, headers, content_type,
                                       available_at, expires_at)
             values ($1, $2, $3, $4, $5, $6, coalesce($7, 'application/json'),
                     timestamptz 'epoch' + $8 * interval '1 microsecond',
                     timestamptz 'epoch' + $9 * interval '1 microsecond')",
        )
        .bind(&event.tenant)
        .bind(&event.id)
        .bind(&event.topic)
        .bind(&event.payload)
        .bind(&event.key)
        .bind(headers)
        .bind(&event.content_type)
        .bind(micros(event.available_at))
        .bind(micros(event.expires_at))
        .execute(&mut self.connection)
        .await
        .map_err(|error| error.to_string())?;
        Ok(())
    }

    async fn insert_without_routing(&mut self, event: &NewEvent) -> Result<(), String> {
        // As a restored dump and a replication worker do.
        self.run("set local session_replication_role = replica").await?;
        self.insert(event).await?;
        self.run("set local session_replication_role = origin").await
    }

    async fn commit(mut self: Box<Self>) -> Result<(), String> {
        self.run("commit").await
    }

    async fn rollback(mut self: Box<Self>) {
        self.run("rollback").await.expect("rollback");
    }
}

#[async_trait]
impl SqlDatabase for PostgresDatabase {
    async fn execute(&self, sql: &str) -> Result<u64, String> {
        let mut connection = self.connection().await;
        let done = sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await;
        // An error is told before its transaction has let its locks go; the next answer is after.
        connection.ping().await.map_err(|error| error.to_string())?;
        connection.close().await.map_err(|error| error.to_string())?;
        done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
    }

    fn bytes_literal(&self, text: &str) -> String {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("'\\x{hex}'::bytea")
    }
}

crate::promises!(crate::postgres::PostgresDatabase);
crate::promises_of_overlapping_producers!(crate::postgres::PostgresDatabase);
crate::promises_of_the_tables!(crate::postgres::PostgresDatabase);

#[tokio::test]
async fn every_statement_is_prepared_by_the_real_server() {
    let database = PostgresDatabase::open().await;
    let mut connection = database.connection().await;
    let real = PostgresStore::open(&PostgresOptions::new(database.database().url())).expect("open");
    let prefixed =
        PostgresOptions { schema: Some("public".to_owned()), ..options(database.database().url()) };
    let prefixed = PostgresStore::open(&prefixed).expect("open");
    for store in [&real, &prefixed, database.postgres().as_ref()] {
        let statements = store.statements();
        assert!(statements.len() > 40, "{}", statements.len());
        for (name, statement) in statements {
            for placeholder in ["{schema}", "{now}", "{statement_now}", "{which}", "{ordinary}", "{suspect}"]
            {
                assert!(!statement.as_str().contains(placeholder), "{name} has {placeholder} left");
            }
            let prepared = format!("prepare {name}_statement as {}", statement.as_str());
            run(&mut connection, prepared).await;
        }
        run(&mut connection, "deallocate all").await;
    }
}
