//! Wake-ups: commits of this process by a channel, commits of others by looking. A look is first a
//! `stat` of the write-ahead log, a microsecond; only if that changed, `PRAGMA data_version`, asked on
//! the writer's connection because there it tells only of *other* connections' commits.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use sqlx::{Row, query};
use tokio::sync::watch;

use super::errors::explain;
use super::{SqliteStore, StoreResult};

/// Between two looks: the first after something happened, the last when nothing does.
const LOOK_SHORTEST: Duration = Duration::from_millis(1);
const LOOK_LONGEST: Duration = Duration::from_millis(5);

/// Looks that ask the database after the log changed: file times move in steps of some
/// milliseconds, so a second commit may leave the same one.
const ASKED_AFTER_A_CHANGE: u32 = 4;

impl SqliteStore {
    pub(super) async fn woken(&self, mut commits: watch::Receiver<u64>) {
        let mut log = self.log_stamp();
        // The first looks always ask: something may have been committed since the last wait.
        let mut ask = ASKED_AFTER_A_CHANGE;
        let mut wait = LOOK_SHORTEST;
        loop {
            let stamp = self.log_stamp();
            if stamp != log {
                (log, ask, wait) = (stamp, ASKED_AFTER_A_CHANGE, LOOK_SHORTEST);
            }
            if ask > 0 {
                ask -= 1;
                // A failed look is not a wake-up: the poll beside it goes on, and the next look tells.
                if let Ok(version) = self.data_version().await
                    && self.seen_version.swap(version, Ordering::Relaxed) != version
                {
                    return;
                }
            }
            tokio::select! {
                // The sender lives as long as the store, so this can't fail.
                _ = commits.changed() => return,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait + wait / 4).min(LOOK_LONGEST);
        }
    }

    /// Size and time of the write-ahead log.
    fn log_stamp(&self) -> Option<(u64, SystemTime)> {
        let log = std::fs::metadata(format!("{}-wal", self.path)).ok()?;
        Some((log.len(), log.modified().ok()?))
    }

    pub(super) async fn remember_version(&self) -> StoreResult<()> {
        let version = self.data_version().await.map_err(|error| explain(&self.path, error.into()))?;
        self.seen_version.store(version, Ordering::Relaxed);
        Ok(())
    }

    async fn data_version(&self) -> sqlx::Result<i64> {
        query(self.sql.data_version.clone()).fetch_one(&self.writer).await?.try_get(0)
    }
}
