//! Housekeeping, in rounds of a bounded size: each part first looks through a reader, and takes the
//! write lock only when there is something to write.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use sqlx::{Row, SqliteConnection, query};

use super::SqliteStore;
use super::errors::Work;
use super::rows::*;
use crate::domain::time::micros;
use crate::domain::{DeadReason, DestinationId};
use crate::store::{HOSTS_KEPT, Swept};

/// Rows looked at by one part of one round.
const WINDOW: i64 = 1_000;

/// Where the next round goes on. Kept in memory: after a restart a pass begins anew.
#[derive(Default)]
pub(super) struct Cursors {
    unrouted: Unrouted,
    orphans: i64,
    /// By destination: the last (tenant, key) looked at.
    parked: BTreeMap<i64, (String, String)>,
}

#[derive(Clone, Copy, Default)]
struct Unrouted {
    after: i64,
    /// The generation whose routes all unrouted events have been compared with.
    compared_with: i64,
    /// The generation at the start of the pass under way.
    comparing_with: i64,
}

impl SqliteStore {
    pub(super) async fn sweep_once(&self, destinations: &[DestinationId], limit: u32) -> Work<Swept> {
        let mut swept = Swept::default();
        let mut left = u64::from(limit);
        let more_unrouted = self.sweep_unrouted(&mut left, &mut swept).await?;
        self.sweep_orphans(&mut left, &mut swept).await?;
        for destination in destinations {
            self.sweep_expired(*destination, &mut left, &mut swept).await?;
            self.sweep_parked(*destination, &mut left, &mut swept).await?;
        }
        self.forget_silent_hosts().await?;
        if swept != Swept::default() {
            self.announce();
        }
        swept.more = left == 0 || more_unrouted;
        Ok(swept)
    }

    async fn forget_silent_hosts(&self) -> Work<()> {
        let kept = micros(HOSTS_KEPT);
        if query(self.sql.silent_hosts.clone()).bind(kept).fetch_optional(&self.readers).await?.is_none() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        query(self.sql.prune_hosts.clone()).bind(kept).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Routes change only with a generation, so a pass that finds nothing is repeated only then, or
    /// slowly, for rows that a restored dump brought.
    pub(super) fn look_again_at_unrouted(&self) {
        self.cursors.lock().expect("never poisoned: no code panics under it").unrouted.after = 0;
    }

    fn cursor<T>(&self, read: impl FnOnce(&mut Cursors) -> T) -> T {
        read(&mut self.cursors.lock().expect("never poisoned: no code panics under it"))
    }

    /// Whether the pass over the unrouted events has not ended, and has a reason to hurry: it found
    /// some to route, or a new generation's routes have not been compared with all of them.
    async fn sweep_unrouted(&self, left: &mut u64, swept: &mut Swept) -> Work<bool> {
        let mut at = self.cursor(|cursors| cursors.unrouted);
        let rows = query(self.sql.unrouted_window.clone())
            .bind(at.after)
            .bind(WINDOW.min(*left as i64))
            .fetch_all(&self.readers)
            .await?;
        let mut routed = Vec::new();
        let mut last = 0;
        let mut generation = at.comparing_with;
        for row in &rows {
            last = row.try_get("event_seq")?;
            generation = row.try_get("generation")?;
            if row.try_get("is_routed")? {
                routed.push(last);
            }
        }
        let full = rows.len() as i64 == WINDOW.min(*left as i64);
        if at.after == 0 {
            at.comparing_with = generation;
        }
        if full {
            at.after = last;
        } else {
            at.after = 0;
            at.compared_with = at.comparing_with;
        }
        self.cursor(|cursors| cursors.unrouted = at);
        if routed.is_empty() {
            // A backlog that no route matches is no reason to hurry, once it was compared.
            return Ok(full && at.compared_with != generation);
        }
        let events = json!(routed).to_string();
        let mut tx = self.begin().await?;
        let inserted = query(self.sql.route_events.clone()).bind(&events).execute(&mut *tx).await?;
        query(self.sql.drop_unrouted.clone()).bind(&events).execute(&mut *tx).await?;
        tx.commit().await?;
        swept.routed += inserted.rows_affected();
        *left = left.saturating_sub(routed.len() as u64);
        Ok(full)
    }

    /// Looks at the newest events, where a switched-off trigger leaves its gaps now, and at one
    /// window of a slow pass over all, where a restored dump may have left some.
    async fn sweep_orphans(&self, left: &mut u64, swept: &mut Swept) -> Work<()> {
        let newest: i64 =
            query(self.sql.newest_event.clone()).fetch_one(&self.readers).await?.try_get("seq")?;
        let (mut orphans, _) = self.orphans_after(newest.saturating_sub(WINDOW)).await?;
        let after = self.cursor(|cursors| cursors.orphans);
        let (older, last) = self.orphans_after(after).await?;
        orphans.extend(older);
        let adopted: Vec<i64> = orphans.into_iter().take(*left as usize).collect();
        if !adopted.is_empty() {
            self.adopt(&adopted).await?;
            swept.adopted += adopted.len() as u64;
            *left -= adopted.len() as u64;
        }
        // What was found and not adopted yet is found again before the pass goes on.
        if *left > 0 {
            self.cursor(|cursors| cursors.orphans = last.unwrap_or(0));
        }
        Ok(())
    }

    /// The orphans of one window, and where it ended if it was full.
    async fn orphans_after(&self, after: i64) -> Work<(BTreeSet<i64>, Option<i64>)> {
        let rows =
            query(self.sql.orphan_window.clone()).bind(after).bind(WINDOW).fetch_all(&self.readers).await?;
        let mut orphans = BTreeSet::new();
        let mut last = None;
        for row in &rows {
            let seq: i64 = row.try_get("seq")?;
            if row.try_get("is_orphan")? {
                orphans.insert(seq);
            }
            last = Some(seq);
        }
        Ok((orphans, last.filter(|_| rows.len() as i64 == WINDOW)))
    }

    async fn adopt(&self, events: &[i64]) -> Work<()> {
        let events = json!(events).to_string();
        let mut tx = self.begin().await?;
        query(self.sql.route_events.clone()).bind(&events).execute(&mut *tx).await?;
        query(self.sql.keep_unrouted.clone()).bind(&events).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    async fn sweep_expired(&self, destination: DestinationId, left: &mut u64, swept: &mut Swept) -> Work<()> {
        let expired = |left: u64| {
            query(self.sql.expired_of_lane.clone()).bind(destination.0).bind(WINDOW.min(left as i64))
        };
        if expired(*left).fetch_optional(&self.readers).await?.is_none() {
            return Ok(());
        }
        // Asked again under the write lock: a claim may have taken some of them since.
        let mut tx = self.begin().await?;
        let now = time(&query(self.sql.now.clone()).fetch_one(&mut *tx).await?, "now")?;
        let rows = expired(*left).fetch_all(&mut *tx).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let mut buried = Vec::new();
        let mut keys = BTreeSet::new();
        for row in &rows {
            let seq: i64 = row.try_get("event_seq")?;
            buried.push((destination.0, seq, DeadReason::Expired.as_str()));
            if let Some(key) = maybe_text(row, "partition_key")? {
                keys.insert((destination.0, text(row, "tenant_id")?, key));
            }
        }
        query(self.sql.bury.clone()).bind(json!(buried).to_string()).bind(now.0).execute(&mut *tx).await?;
        self.unpark_keys(&mut tx, keys, now).await?;
        tx.commit().await?;
        *swept.expired.entry(destination).or_default() += buried.len() as u64;
        *left -= buried.len() as u64;
        Ok(())
    }

    /// The floor under unparking: heads of keys that nothing put back.
    async fn sweep_parked(&self, destination: DestinationId, left: &mut u64, swept: &mut Swept) -> Work<()> {
        let keys = self.next_parked_keys(&mut *self.readers.acquire().await?, destination, *left).await?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        let now = time(&query(self.sql.now.clone()).fetch_one(&mut *tx).await?, "now")?;
        // All at once where the lane no longer keeps an order, the first of each key where it does.
        let unordered = query(self.sql.unpark_unordered.clone())
            .bind(destination.0)
            .bind(WINDOW.min(*left as i64))
            .execute(&mut *tx)
            .await?;
        let heads = self.unpark_keys(&mut tx, keys, now).await?;
        tx.commit().await?;
        let unparked = unordered.rows_affected() + heads;
        swept.unparked += unparked;
        *left = left.saturating_sub(unparked);
        Ok(())
    }

    async fn next_parked_keys(
        &self,
        connection: &mut SqliteConnection,
        destination: DestinationId,
        left: u64,
    ) -> Work<BTreeSet<(i64, String, String)>> {
        let mut keys = BTreeSet::new();
        let mut after = self.cursor(|cursors| cursors.parked.remove(&destination.0)).unwrap_or_default();
        // From the start again when the pass came to its end, but only once a round.
        let mut wrapped = after == (String::new(), String::new());
        while (keys.len() as u64) < left.min(200) {
            let row = query(self.sql.next_parked_key.clone())
                .bind(destination.0)
                .bind(&after.0)
                .bind(&after.1)
                .fetch_optional(&mut *connection)
                .await?;
            match row {
                Some(row) => {
                    after = (text(&row, "tenant_id")?, text(&row, "partition_key")?);
                    if !keys.insert((destination.0, after.0.clone(), after.1.clone())) {
                        break;
                    }
                }
                None if wrapped => return Ok(keys),
                None => {
                    wrapped = true;
                    after = Default::default();
                }
            }
        }
        self.cursor(|cursors| cursors.parked.insert(destination.0, after));
        Ok(keys)
    }
}
