//! PostgreSQL 15 or newer. The statements are in `sql/`, one a file; this module binds and reads.
//!
//! Claims lock rows and keys without waiting for either; everything that ends a lease locks its
//! rows first, in one order, and its keys after them. So nobody waits in a circle.

mod claim;
mod dialect;
mod errors;
mod lanes;
mod operate;
mod pgtime;
mod recorded;
mod register;
mod reports;
mod schema;
mod settle;
mod statements;
mod sweep;
mod wake;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row, SqlSafeStr, SqlStr, Transaction};

use super::*;
use dialect::Dialect;
use errors::map;
use pgtime::PgTime;
use statements::Statements;

/// How to reach the database and what to agree with it.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://…`
    pub url: String,
    /// `outbox.schema`; without it, names are found by the role's search path.
    pub schema: Option<String>,
    /// Connections for statements. One more listens for wake-ups.
    pub pool: u32,
    /// Of one statement.
    pub timeout: Duration,
    /// Listen for notifications, and have the routing trigger send them.
    pub wake: bool,
    /// There is a transaction pooler in between: every statement runs in a transaction of its own
    /// that pins isolation, zone and timeout, and nothing is prepared for longer than that.
    pub pooler: bool,
    /// In tests, an SQL expression in place of the database's clock.
    pub clock_sql: Option<String>,
}

impl PostgresOptions {
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: None,
            pool: 4,
            timeout: Duration::from_secs(5),
            wake: true,
            pooler: false,
            clock_sql: None,
        }
    }
}

/// The store on PostgreSQL.
pub struct PostgresStore {
    pool: PgPool,
    statements: Statements,
    dialect: Dialect,
    begin: SqlStr,
    options: PostgresOptions,
    /// Destinations seen to keep an order: where one of their leases ends, the next of the key is
    /// looked for.
    ordered: Mutex<BTreeSet<i64>>,
    sweep: tokio::sync::Mutex<sweep::Progress>,
    wake: wake::Wake,
}

impl PostgresStore {
    /// Checks the options; connections are opened when they are needed, so that a database that is
    /// down at the start is an error of the statement and not of the host.
    pub fn open(options: &PostgresOptions) -> StoreResult<Self> {
        let refused = |error| StoreError::Refused(format!("outbox.url: {error}"));
        let mut connect =
            PgConnectOptions::from_str(&options.url).map_err(refused)?.application_name("outhaul");
        if options.pooler {
            // A pooler hands each transaction to another session: nothing of it may be remembered.
            connect = connect.statement_cache_capacity(0).extra_float_digits(None);
        }
        let dialect = dialect(options);
        let timeout_ms = options.timeout.as_millis();
        let session = format!(
            "set statement_timeout = {timeout_ms}; set lock_timeout = {timeout_ms}; set time zone 'UTC'; \
             set default_transaction_isolation = 'read committed'; set jit = off; \
             set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3"
        );
        let pooler = options.pooler;
        let pool = PgPoolOptions::new()
            .max_connections(options.pool.max(1))
            .acquire_timeout(options.timeout)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    // A connection that has just worked works; an idle one may be dead by now.
                    if meta.idle_for < Duration::from_secs(1) {
                        return Ok(true);
                    }
                    Ok(sqlx::Connection::ping(connection).await.is_ok())
                })
            })
            .after_connect(move |connection, _| {
                let session = session.clone();
                Box::pin(async move {
                    if !pooler {
                        sqlx::raw_sql(AssertSqlSafe(session)).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(connect.clone());
        Ok(Self {
            statements: Statements::load(&dialect),
            dialect,
            begin: begin(options),
            ordered: Mutex::default(),
            sweep: tokio::sync::Mutex::default(),
            wake: wake::Wake::new(connect, pool.clone(), options.wake),
            pool,
            options: options.clone(),
        })
    }

    /// As [`PostgresStore::open`], and makes sure that the database answers and keeps text as UTF-8.
    pub async fn connect(options: &PostgresOptions) -> StoreResult<Self> {
        let store = Self::open(options)?;
        schema::refuse_other_encodings(&store.encoding().await?)?;
        Ok(store)
    }

    async fn encoding(&self) -> StoreResult<String> {
        self.bounded(async {
            let mut work = self.one().await?;
            let encoding =
                sqlx::query_scalar("show server_encoding").fetch_one(work.connection()).await.map_err(map)?;
            work.done().await?;
            Ok(encoding)
        })
        .await
    }

    /// Every statement with its name, for the test that prepares each against a real server.
    pub fn statements(&self) -> Vec<(&'static str, SqlStr)> {
        self.statements.all()
    }

    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Closes the connections; a host that drains does so last.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// For one statement: a connection as it is, or behind a pooler a transaction of its own.
    async fn one(&self) -> StoreResult<Work> {
        if self.options.pooler {
            return Ok(Work::Pinned(self.transaction().await?));
        }
        Ok(Work::Plain(self.pool.acquire().await.map_err(map)?))
    }

    async fn transaction(&self) -> StoreResult<Transaction<'static, Postgres>> {
        self.pool.begin_with(self.begin.clone()).await.map_err(map)
    }

    /// The server ends a statement after the timeout; this ends the wait for a server that is gone.
    async fn bounded<T>(&self, work: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
        let limit = self.options.timeout * 2;
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable(format!("no answer within {} s", limit.as_secs_f64())))
        })
    }
}

/// What one statement runs on.
enum Work {
    Plain(PoolConnection<Postgres>),
    Pinned(Transaction<'static, Postgres>),
}

impl Work {
    fn connection(&mut self) -> &mut PgConnection {
        match self {
            Self::Plain(connection) => connection,
            Self::Pinned(transaction) => transaction,
        }
    }

    async fn done(self) -> StoreResult<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Pinned(transaction) => transaction.commit().await.map_err(map),
        }
    }
}

fn begin(options: &PostgresOptions) -> SqlStr {
    let mut begin = "begin isolation level read committed".to_owned();
    if options.pooler {
        let timeout_ms = options.timeout.as_millis();
        begin += &format!(
            "; set local statement_timeout = {timeout_ms}; set local lock_timeout = {timeout_ms}; \
             set local time zone 'UTC'; set local jit = off"
        );
    }
    AssertSqlSafe(begin).into_sql_str()
}

fn dialect(options: &PostgresOptions) -> Dialect {
    let clock = |default: &str| options.clock_sql.clone().unwrap_or_else(|| default.to_owned());
    Dialect {
        schema: options.schema.as_deref().map(schema_prefix).unwrap_or_default(),
        statement_now: clock("statement_timestamp()"),
        now: clock("clock_timestamp()"),
    }
}

fn schema_prefix(schema: &str) -> String {
    format!("\"{}\".", schema.replace('"', "\"\""))
}

/// PostgreSQL keeps no NUL in text, and a plugin's error may hold one.
fn text(value: &str) -> String {
    value.replace('\0', "\u{FFFD}")
}

/// A count that a person or a policy set, as an SQL integer.
fn int(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// A wait in microseconds, capped where an interval and a timestamp still hold it.
fn wait_us(wait: Duration) -> i64 {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    crate::domain::time::micros(wait.min(CENTURY))
}

#[async_trait]
impl Store for PostgresStore {
    async fn server_version(&self) -> StoreResult<String> {
        self.bounded(async {
            let mut work = self.one().await?;
            let version: String =
                sqlx::query_scalar("show server_version").fetch_one(work.connection()).await.map_err(map)?;
            work.done().await?;
            Ok(format!("PostgreSQL {version}"))
        })
        .await
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.bounded(async {
            let mut work = self.one().await?;
            let PgTime(now) = sqlx::query_scalar(self.statements.now.clone())
                .fetch_one(work.connection())
                .await
                .map_err(map)?;
            work.done().await?;
            Ok(now)
        })
        .await
    }

    async fn register(&self, host: &HostRegistration) -> StoreResult<Registered> {
        self.bounded(self.register_host(host)).await
    }

    async fn heartbeat(&self, host_id: &str, notes: &HostNotes) -> StoreResult<ConfigStanding> {
        self.bounded(self.beat(host_id, notes)).await
    }

    async fn lanes(&self, destinations: &[DestinationId]) -> StoreResult<Vec<LaneView>> {
        self.bounded(self.lane_views(destinations)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> StoreResult<Claims> {
        self.bounded(async {
            match request.order {
                Order::None => self.claim_unordered(request).await,
                Order::Key(on_dead) => self.claim_in_order(request, on_dead).await,
            }
        })
        .await
    }

    async fn payloads(&self, events: &[EventSeq]) -> StoreResult<Vec<(EventSeq, Bytes)>> {
        self.bounded(async {
            let seqs: Vec<i64> = events.iter().map(|seq| seq.0).collect();
            let mut work = self.one().await?;
            let rows = sqlx::query(self.statements.payloads.clone())
                .bind(seqs)
                .fetch_all(work.connection())
                .await
                .map_err(map)?;
            work.done().await?;
            rows.iter()
                .map(|row| {
                    let payload: Vec<u8> = row.try_get("payload").map_err(map)?;
                    Ok((EventSeq(row.try_get("seq").map_err(map)?), Bytes::from(payload)))
                })
                .collect()
        })
        .await
    }

    async fn renew(&self, claims: &[ClaimRef], lease: Duration) -> StoreResult<Vec<Settled>> {
        self.bounded(self.renew_claims(claims, lease)).await
    }

    async fn acknowledge(&self, results: &[Acknowledgement]) -> StoreResult<Vec<Settled>> {
        self.bounded(self.record_results(results)).await
    }

    async fn release(&self, claims: &[ClaimRef]) -> StoreResult<Vec<Settled>> {
        self.bounded(self.give_back(claims)).await
    }

    async fn take_probe(
        &self,
        destination: DestinationId,
        lease: Duration,
    ) -> StoreResult<Option<ProbeToken>> {
        self.bounded(self.take_the_probe(destination, lease)).await
    }

    async fn change_lane(
        &self,
        destination: DestinationId,
        epoch: i64,
        change: LaneChange,
    ) -> StoreResult<bool> {
        self.bounded(self.change_the_lane(destination, epoch, change)).await
    }

    async fn count_rejection(&self, destination: DestinationId, event: Option<EventSeq>) -> StoreResult<u32> {
        self.bounded(self.count_a_rejection(destination, event)).await
    }

    async fn sweep(&self, destinations: &[DestinationId], limit: u32) -> StoreResult<Swept> {
        // Several statements, each of its own bounded time.
        self.sweep_once(destinations, limit).await
    }

    async fn attend(&self, destinations: &[DestinationId], wait: Duration) -> StoreResult<bool> {
        if !self.wake.listens() {
            return Ok(false);
        }
        self.bounded(self.promise_to_look(destinations, wait)).await?;
        Ok(true)
    }

    // Written out, because an `async fn` would subscribe only when it is first polled.
    fn wait_for_wake<'life0, 'async_trait>(
        &'life0 self,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(self.wake.next())
    }
}
