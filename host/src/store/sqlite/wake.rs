//! Wake-ups: commits of this process by a channel, commits of others by looking. A look is first a
//! `stat` of the write-ahead log, a microsecond; only if that changed, `PRAGMA data_version`, asked on
//! the writer's connection because there it tells only of *other* connections' commits.

use std::time::{Duration, SystemTime};

use sqlx::{Row, query};
use tokio::sync::watch;

use super::errors::explain;
use super::{SqliteStore, StoreResult};

/// Between two looks: the first after something happened, the last when nothing does.
const LOOK_SHORTEST: Duration = Duration::from_millis(1);
const LOOK_LONGEST: Duration = Duration::from_millis(5);

/// Looks after the log changed, about three seconds of them: a commit writes the log first, waits
/// for the disk, and is visible only then, without another write to the log. What takes longer than
/// that is met by the poll.
const LOOKS_AFTER_A_CHANGE: u32 = 600;

/// Each of the first of these asks the database, and every tenth of the others.
const EAGER_LOOKS: u32 = 40;

/// What was seen last, over all waits.
#[derive(Default)]
pub(super) struct Seen {
    /// Size and time of the write-ahead log.
    log: Option<(u64, SystemTime)>,
    looks_left: u32,
    version: i64,
}

impl SqliteStore {
    pub(super) async fn woken(&self, mut commits: watch::Receiver<u64>) {
        let mut wait = LOOK_SHORTEST;
        loop {
            if self.log_moves() {
                // A failed look is not a wake-up: the poll beside it goes on, and the next look tells.
                if let Ok(version) = self.data_version().await
                    && self.is_news(version)
                {
                    // For whoever else waits: it is news once.
                    self.announce();
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

    /// Whether the log changed lately, so that asking the database is worth its while now.
    fn log_moves(&self) -> bool {
        let log = self.log_stamp();
        let mut seen = self.seen.lock().expect("never poisoned: no code panics under it");
        if seen.log != log {
            seen.log = log;
            seen.looks_left = LOOKS_AFTER_A_CHANGE;
        }
        let left = seen.looks_left;
        seen.looks_left = left.saturating_sub(1);
        left > LOOKS_AFTER_A_CHANGE - EAGER_LOOKS || (left > 0 && left.is_multiple_of(10))
    }

    fn is_news(&self, version: i64) -> bool {
        let mut seen = self.seen.lock().expect("never poisoned: no code panics under it");
        std::mem::replace(&mut seen.version, version) != version
    }

    /// Size and time of the write-ahead log.
    fn log_stamp(&self) -> Option<(u64, SystemTime)> {
        let log = std::fs::metadata(format!("{}-wal", self.path)).ok()?;
        Some((log.len(), log.modified().ok()?))
    }

    pub(super) async fn remember_version(&self) -> StoreResult<()> {
        let version = self.data_version().await.map_err(|error| explain(&self.path, error.into()))?;
        self.is_news(version);
        Ok(())
    }

    async fn data_version(&self) -> sqlx::Result<i64> {
        query(self.sql.data_version.clone()).fetch_one(&self.writer).await?.try_get(0)
    }
}
