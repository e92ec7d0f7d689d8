//! Migrations: plain SQL, one a transaction, in a log of our own.

use async_trait::async_trait;
use sqlx::{Executor, Row, SqliteConnection, query};

use super::SqliteStore;
use super::errors::Work;
use super::open::try_write;
use crate::store::{Schema, SchemaStatus, StoreError, StoreResult};

/// (version, name, SQL), in order.
const MIGRATIONS: [(i64, &str, &str); 1] =
    [(1, "0001_outbox", include_str!("../../../../migrations/sqlite/0001_outbox.sql"))];

pub(super) const NEWEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

const CREATE_LOG: &str = "CREATE TABLE IF NOT EXISTS outbox_migration (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)
)";

async fn installed(connection: &mut SqliteConnection) -> sqlx::Result<Option<i64>> {
    let log = query("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'outbox_migration'")
        .fetch_optional(&mut *connection)
        .await?;
    if log.is_none() {
        return Ok(None);
    }
    query("SELECT max(version) FROM outbox_migration").fetch_one(connection).await?.try_get(0)
}

fn refuse_newer(path: &str, installed: Option<i64>) -> Result<(), StoreError> {
    match installed {
        Some(version) if version > NEWEST => Err(StoreError::Schema(format!(
            "SQLite file {path:?} has schema version {version}, and this host knows versions up to {NEWEST}; \
             run a host at least as new as the one that migrated it"
        ))),
        _ => Ok(()),
    }
}

impl SqliteStore {
    /// In UTF-16 the table's checks would count other bytes than the host reads.
    pub(super) async fn refuse_other_encodings(&self) -> StoreResult<()> {
        let encoding: String = self
            .limited(async { Ok(query("PRAGMA encoding").fetch_one(&self.readers).await?.try_get(0)?) })
            .await?;
        if encoding == "UTF-8" {
            return Ok(());
        }
        Err(StoreError::Refused(format!(
            "SQLite file {:?} has the encoding {encoding}, and an outbox needs UTF-8; make a new file with  PRAGMA \
             encoding = 'UTF-8'  before its first table, and copy the application's tables into it",
            self.path
        )))
    }

    /// Applies the first that is missing, under the write lock: of two hosts that start together,
    /// the second finds it applied.
    async fn migrate_one(&self) -> Work<Option<String>> {
        let mut tx = self.begin().await?;
        let installed = installed(&mut tx).await?;
        refuse_newer(&self.path, installed)?;
        let Some((version, name, sql)) =
            MIGRATIONS.into_iter().find(|(version, ..)| Some(*version) > installed)
        else {
            return Ok(None);
        };
        tx.execute(CREATE_LOG).await?;
        tx.execute(sqlx::raw_sql(sql)).await?;
        query("INSERT INTO outbox_migration (version, name) VALUES (?1, ?2)")
            .bind(version)
            .bind(name)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Some(name.to_owned()))
    }
}

/// Of a file that is not there yet.
pub fn status_of_nothing() -> SchemaStatus {
    SchemaStatus { installed: None, newest_known: NEWEST, pending: pending(None) }
}

fn pending(installed: Option<i64>) -> Vec<(String, String)> {
    let pending = MIGRATIONS.into_iter().filter(|(version, ..)| Some(*version) > installed);
    pending.map(|(_, name, sql)| (name.to_owned(), sql.to_owned())).collect()
}

#[async_trait]
impl Schema for SqliteStore {
    async fn refuses_writes(&self) -> StoreResult<Option<String>> {
        let tried = self.limited(async { Ok(try_write(&self.writer).await?) }).await;
        match tried {
            Ok(()) => Ok(None),
            Err(StoreError::Unavailable(why)) => Ok(Some(why)),
            Err(error) => Err(error),
        }
    }

    async fn status(&self) -> StoreResult<SchemaStatus> {
        self.limited(async {
            let installed = installed(&mut *self.readers.acquire().await?).await?;
            refuse_newer(&self.path, installed)?;
            Ok(SchemaStatus { installed, newest_known: NEWEST, pending: pending(installed) })
        })
        .await
    }

    async fn migrate(&self) -> StoreResult<Vec<String>> {
        let mut applied = Vec::new();
        while let Some(name) = self.limited(self.migrate_one()).await? {
            applied.push(name);
        }
        Ok(applied)
    }
}
