//! Deliveries in an SQLite file that any number of processes share: WAL, one writer connection a
//! process, a few readers. Every write takes the write lock first (`BEGIN IMMEDIATE`): a read
//! transaction that upgrades fails with "database is locked" whatever the timeout.
//!
//! `synchronous = FULL`: a commit is on the disk when it returns, so an acknowledgement that was
//! reported survives a power loss. The claim's fence must too, or it would be given twice.

mod acts;
mod claim;
mod errors;
mod lanes;
mod lists;
mod open;
mod operate;
mod recorded;
mod register;
mod rows;
mod schema;
mod settle;
mod statements;
mod sweep;
mod wake;

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sqlx::sqlite::SqlitePool;
use sqlx::{Row, Sqlite, Transaction, query};
use tokio::sync::watch;

use super::*;
use errors::{Work, explain};
pub use open::missing_file;
use open::{Pools, file_of};
pub use schema::status_of_nothing;
use statements::Statements;
use sweep::Cursors;
use wake::Seen;

#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// `sqlite:path` or `sqlite://path`.
    pub url: String,
    /// Of one statement, and of the wait for the write lock.
    pub timeout: Duration,
    /// Connections that only read.
    pub readers: u32,
    /// Make the file if it is missing.
    pub create: bool,
    /// Write to it, and fail now if that can't be. Else it may be one that can only be read.
    pub write: bool,
    /// An SQL expression in place of the clock, for tests that say what time it is.
    pub now_sql: Option<String>,
}

impl SqliteOptions {
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            timeout: Duration::from_secs(5),
            readers: 3,
            create: true,
            write: true,
            now_sql: None,
        }
    }
}

pub struct SqliteStore {
    path: String,
    writer: SqlitePool,
    readers: SqlitePool,
    sql: Statements,
    timeout: Duration,
    commits: watch::Sender<u64>,
    seen: Mutex<Seen>,
    cursors: Mutex<Cursors>,
}

impl SqliteStore {
    /// Opens the file. The tables come with [`Schema::migrate`].
    pub async fn connect(options: &SqliteOptions) -> StoreResult<Self> {
        let path = file_of(&options.url)?;
        let Pools { writer, readers } = open::pools(&path, options).await?;
        let store = Self {
            path,
            writer,
            readers,
            sql: Statements::load(options.now_sql.as_deref()),
            timeout: options.timeout,
            commits: watch::Sender::new(0),
            seen: Mutex::default(),
            cursors: Mutex::default(),
        };
        store.refuse_other_encodings().await?;
        store.remember_version().await?;
        Ok(store)
    }

    /// Every statement by name, for tests that prepare them and read their plans.
    pub fn statements(&self) -> Vec<(&'static str, String)> {
        self.sql.all().into_iter().map(|(name, sql)| (name, sql.as_str().to_owned())).collect()
    }

    /// The durability of this host's commits, as the writer's connection has it: 2 is FULL.
    pub async fn synchronous(&self) -> StoreResult<i64> {
        self.limited(async { Ok(query("PRAGMA synchronous").fetch_one(&self.writer).await?.try_get(0)?) })
            .await
    }

    async fn begin(&self) -> Work<Transaction<'static, Sqlite>> {
        Ok(self.writer.begin_with("BEGIN IMMEDIATE").await?)
    }

    /// Runs one call against the clock of `outbox.timeout`. The wait for the write lock has that
    /// long on its own, so the whole has twice as much.
    async fn limited<T>(&self, work: impl Future<Output = Work<T>>) -> StoreResult<T> {
        let limit = self.timeout * 2;
        match tokio::time::timeout(limit, work).await {
            Ok(answer) => answer.map_err(|failure| explain(&self.path, failure)),
            Err(_) => Err(StoreError::Unavailable(format!(
                "SQLite file {:?}: no answer within {limit:?}, twice outbox.timeout",
                self.path
            ))),
        }
    }

    fn announce(&self) {
        self.commits.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn server_version(&self) -> StoreResult<String> {
        self.limited(async {
            let row = query("SELECT sqlite_version()").fetch_one(&self.readers).await?;
            Ok(format!("SQLite {}", row.try_get::<String, _>(0)?))
        })
        .await
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.limited(async {
            let row = query(self.sql.now.clone()).fetch_one(&self.readers).await?;
            Ok(rows::time(&row, "now")?)
        })
        .await
    }

    async fn register(&self, host: &HostRegistration) -> StoreResult<Registered> {
        let registered = self.limited(self.register_host(host)).await;
        self.announce();
        registered
    }

    async fn heartbeat(&self, host_id: &str, notes: &HostNotes) -> StoreResult<ConfigStanding> {
        self.limited(self.beat(host_id, notes)).await
    }

    async fn lanes(&self, destinations: &[DestinationId]) -> StoreResult<Vec<LaneView>> {
        self.limited(self.lane_views(destinations)).await
    }

    async fn claim(&self, request: &ClaimRequest) -> StoreResult<Claims> {
        self.limited(self.take(request)).await
    }

    async fn payloads(&self, events: &[EventSeq]) -> StoreResult<Vec<(EventSeq, Bytes)>> {
        self.limited(self.read_payloads(events)).await
    }

    async fn renew(&self, claims: &[ClaimRef], lease: Duration) -> StoreResult<Vec<Settled>> {
        self.limited(self.extend(claims, lease)).await
    }

    async fn acknowledge(&self, results: &[Acknowledgement]) -> StoreResult<Vec<Settled>> {
        self.limited(self.settle(results)).await
    }

    async fn release(&self, claims: &[ClaimRef]) -> StoreResult<Vec<Settled>> {
        self.limited(self.give_back(claims)).await
    }

    async fn take_probe(
        &self,
        destination: DestinationId,
        lease: Duration,
    ) -> StoreResult<Option<ProbeToken>> {
        self.limited(self.probe(destination, lease)).await
    }

    async fn change_lane(
        &self,
        destination: DestinationId,
        epoch: i64,
        change: LaneChange,
    ) -> StoreResult<bool> {
        self.limited(self.move_lane(destination, epoch, change)).await
    }

    async fn count_rejection(&self, destination: DestinationId, event: Option<EventSeq>) -> StoreResult<u32> {
        self.limited(self.reject(destination, event)).await
    }

    async fn sweep(&self, destinations: &[DestinationId], limit: u32) -> StoreResult<Swept> {
        self.limited(self.sweep_once(destinations, limit)).await
    }

    async fn attend(&self, _: &[DestinationId], _: Duration) -> StoreResult<bool> {
        // A commit is seen by looking at the file: producers do nothing for it.
        Ok(false)
    }

    // Written out, because an `async fn` would subscribe only when it is first polled.
    fn wait_for_wake<'life0, 'async_trait>(
        &'life0 self,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let commits = self.commits.subscribe();
        Box::pin(self.woken(commits))
    }
}
