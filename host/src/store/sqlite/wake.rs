//! Wake-ups: commits of this process by a channel, commits of others by `PRAGMA data_version`,
//! which costs microseconds on an open connection. It is asked on the writer's connection, because
//! there it tells only of *other* connections' commits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::{Row, query};
use tokio::sync::watch;

use super::errors::explain;
use super::{SqliteStore, StoreResult};

/// Between two looks: the first while something happened lately, the last when nothing did.
const LOOK_SHORTEST: Duration = Duration::from_millis(2);
const LOOK_LONGEST: Duration = Duration::from_millis(20);

impl SqliteStore {
    pub(super) async fn woken(&self, mut commits: watch::Receiver<u64>) {
        let mut wait = LOOK_SHORTEST;
        loop {
            tokio::select! {
                // The sender lives as long as the store, so this can't fail.
                _ = commits.changed() => return,
                () = tokio::time::sleep(wait) => {}
            }
            // A failed look is not a wake-up: the poll beside it goes on, and the next look tells.
            if let Ok(version) = self.data_version().await
                && self.seen_version.swap(version, Ordering::Relaxed) != version
            {
                return;
            }
            wait = (wait + wait / 8).min(LOOK_LONGEST);
        }
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
