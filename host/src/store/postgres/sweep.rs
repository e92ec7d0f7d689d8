//! Housekeeping: what no producer's trigger and no claim has taken care of.
//!
//! Each round looks at a bounded number of rows and remembers where it stopped. Events without a
//! delivery are looked for everywhere once, then behind a low-water mark again and again, and the
//! whole outbox slowly: a transaction that took its sequence number early may commit late.

use sqlx::Row;

use super::claim::Key;
use super::*;

/// Events looked at in one round, in the hope of finding none without a delivery: the most, and the
/// fewest where a server can't look at more in the time of a statement.
const EVENTS_SEEN_MAX: i64 = 4_000;
const EVENTS_SEEN_MIN: i64 = 100;

#[derive(Clone, Copy)]
enum Part {
    RouteUnrouted,
    AdoptTail,
    AdoptHistory,
    BuryExpired,
    UnparkUnordered,
    UnparkStuck,
    ForgetHosts,
}

const PARTS: [Part; 7] = [
    Part::RouteUnrouted,
    Part::AdoptTail,
    Part::AdoptHistory,
    Part::BuryExpired,
    Part::UnparkUnordered,
    Part::UnparkStuck,
    Part::ForgetHosts,
];

#[derive(Default)]
pub(super) struct Progress {
    /// The place in `PARTS` of the part that runs next.
    next_part: usize,
    window: Window,
    unrouted: Unrouted,
    tail: Tail,
    /// Where the slow round over everything stands.
    history_after: i64,
    /// The last key looked at for a parked head.
    key_after: Key,
}

/// How many events the next look is at: half as many after one that did not end, twice as many
/// after one that did.
struct Window(i64);

impl Default for Window {
    fn default() -> Self {
        Self(EVENTS_SEEN_MAX)
    }
}

#[derive(Default)]
struct Unrouted {
    after: i64,
    /// The generation whose routes all unrouted events have been compared with.
    compared_with: i64,
    /// The generation at the start of the round under way.
    comparing_with: i64,
}

/// The end of the outbox, where events still appear.
#[derive(Default)]
struct Tail {
    after: i64,
    /// Everything up to here has been seen, and nothing more can appear.
    settled: i64,
    mark: Mark,
}

/// How a sequence number comes to be settled: whoever may still write one up to it has ended.
#[derive(Default)]
enum Mark {
    #[default]
    None,
    /// Taken one round earlier than the transaction number: a sequence number is drawn just before
    /// its transaction gets a number.
    Top(i64),
    /// Settled, once every transaction below `xid` has ended.
    Waiting { top: i64, xid: i64 },
    /// Nothing up to `top` can appear any more; the round that starts now sees it all.
    Quiet(i64),
}

impl PostgresStore {
    /// Each part runs whatever became of the others; the first failure is the answer.
    pub(super) async fn sweep_once(&self, destinations: &[DestinationId], limit: u32) -> StoreResult<Swept> {
        let mut progress = self.sweep.lock().await;
        let ids: Vec<i64> = destinations.iter().map(|id| id.0).collect();
        let mut swept = Swept::default();
        let mut failure = None;
        for _ in PARTS {
            let part = PARTS[progress.next_part];
            // Before it runs: a caller that gives up on a slow part begins the next round behind it.
            progress.next_part = (progress.next_part + 1) % PARTS.len();
            let work = self.sweep_part(part, &mut progress, &ids, limit, &mut swept);
            if let Err(error) = self.bounded(work).await {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(swept), Err)
    }

    async fn sweep_part(
        &self,
        part: Part,
        at: &mut Progress,
        ids: &[i64],
        limit: u32,
        swept: &mut Swept,
    ) -> StoreResult<()> {
        match part {
            Part::RouteUnrouted => self.route_unrouted(&mut at.unrouted, limit, swept).await,
            Part::AdoptTail => self.adopt_tail(&mut at.tail, &mut at.window, limit, swept).await,
            Part::AdoptHistory => {
                self.adopt_history(&mut at.history_after, &mut at.window, limit, swept).await
            }
            Part::BuryExpired => self.bury_expired(ids, limit, swept).await,
            Part::UnparkUnordered => self.unpark_unordered(ids, limit, swept).await,
            Part::UnparkStuck => self.unpark_stuck(ids, &mut at.key_after, limit, swept).await,
            Part::ForgetHosts => self.forget_silent_hosts().await,
        }
    }

    async fn route_unrouted(&self, at: &mut Unrouted, limit: u32, swept: &mut Swept) -> StoreResult<()> {
        let mut work = self.one().await?;
        let row = sqlx::query(self.statements.route_unrouted.clone())
            .bind(at.after)
            .bind(i64::from(limit))
            .fetch_one(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        let number = |column: &str| row.try_get::<i64, _>(column).map_err(map);
        let (routed, generation) = (number("routed")?, number("generation")?);
        if at.after == 0 {
            at.comparing_with = generation;
        }
        let is_full = number("examined")? >= i64::from(limit);
        if is_full {
            at.after = number("last_seq")?;
        } else {
            at.after = 0;
            at.compared_with = at.comparing_with;
        }
        swept.routed += routed.unsigned_abs();
        // A backlog that no route matches is no reason to hurry, once it was compared.
        swept.more |= is_full && (routed > 0 || at.compared_with != generation);
        Ok(())
    }

    async fn adopt_tail(
        &self,
        tail: &mut Tail,
        window: &mut Window,
        limit: u32,
        swept: &mut Swept,
    ) -> StoreResult<()> {
        self.move_mark(tail).await?;
        let is_last = self.adopt_events(&mut tail.after, window, limit, swept).await?;
        if is_last {
            if let Mark::Quiet(top) = tail.mark {
                tail.settled = top;
                tail.mark = Mark::None;
            }
            tail.after = tail.settled;
        } else {
            swept.more = true;
        }
        Ok(())
    }

    async fn adopt_history(
        &self,
        after: &mut i64,
        window: &mut Window,
        limit: u32,
        swept: &mut Swept,
    ) -> StoreResult<()> {
        if self.adopt_events(after, window, limit, swept).await? {
            *after = 0;
        }
        Ok(())
    }

    /// Looks at events after `after`, moves it, and says whether that was the end of the outbox.
    async fn adopt_events(
        &self,
        after: &mut i64,
        window: &mut Window,
        limit: u32,
        swept: &mut Swept,
    ) -> StoreResult<bool> {
        let mut work = self.one().await?;
        let seen = window.0;
        window.0 = (seen / 2).max(EVENTS_SEEN_MIN);
        let row = sqlx::query(self.statements.adopt.clone())
            .bind(*after)
            .bind(seen)
            .bind(i64::from(limit))
            .fetch_one(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        window.0 = (seen * 2).min(EVENTS_SEEN_MAX);
        let number = |column: &str| row.try_get::<Option<i64>, _>(column).map_err(map);
        let adopted = number("adopted")?.unwrap_or(0);
        swept.adopted += adopted.unsigned_abs();
        if adopted >= i64::from(limit) {
            *after = number("last_adopted")?.unwrap_or(*after);
            swept.more = true;
            return Ok(false);
        }
        let is_last = number("examined")?.unwrap_or(0) < seen;
        *after = number("last_seq")?.unwrap_or(*after);
        Ok(is_last)
    }

    async fn move_mark(&self, tail: &mut Tail) -> StoreResult<()> {
        let mut work = self.one().await?;
        let row =
            sqlx::query(self.statements.horizon.clone()).fetch_one(work.connection()).await.map_err(map)?;
        work.done().await?;
        let number = |column: &str| row.try_get::<i64, _>(column).map_err(map);
        let starts_over = tail.after == tail.settled;
        tail.mark = match std::mem::take(&mut tail.mark) {
            Mark::None => Mark::Top(number("top")?),
            Mark::Top(top) => Mark::Waiting { top, xid: number("next_xid")? },
            Mark::Waiting { top, xid } if starts_over && number("oldest_running")? >= xid => Mark::Quiet(top),
            unchanged => unchanged,
        };
        Ok(())
    }

    async fn bury_expired(&self, ids: &[i64], limit: u32, swept: &mut Swept) -> StoreResult<()> {
        let mut transaction = self.transaction().await?;
        let rows = sqlx::query(self.statements.bury_expired.clone())
            .bind(ids)
            .bind(i64::from(limit))
            .fetch_all(&mut *transaction)
            .await
            .map_err(map)?;
        self.let_next_of(&mut transaction, &rows).await?;
        transaction.commit().await.map_err(map)?;
        for row in &rows {
            let destination = DestinationId(row.try_get("destination_id").map_err(map)?);
            *swept.expired.entry(destination).or_default() += 1;
        }
        swept.more |= rows.len() >= limit as usize;
        Ok(())
    }

    async fn forget_silent_hosts(&self) -> StoreResult<()> {
        let mut work = self.one().await?;
        sqlx::query(self.statements.prune_hosts.clone())
            .bind(wait_us(HOSTS_KEPT))
            .execute(work.connection())
            .await
            .map_err(map)?;
        work.done().await
    }

    async fn unpark_unordered(&self, ids: &[i64], limit: u32, swept: &mut Swept) -> StoreResult<()> {
        let mut work = self.one().await?;
        let done = sqlx::query(self.statements.unpark_unordered.clone())
            .bind(ids)
            .bind(i64::from(limit))
            .execute(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        swept.unparked += done.rows_affected();
        swept.more |= done.rows_affected() >= u64::from(limit);
        Ok(())
    }

    async fn unpark_stuck(
        &self,
        ids: &[i64],
        after: &mut Key,
        limit: u32,
        swept: &mut Swept,
    ) -> StoreResult<()> {
        let mut transaction = self.transaction().await?;
        let rows = sqlx::query(self.statements.parked_keys.clone())
            .bind(ids)
            .bind(after.0)
            .bind(&after.1)
            .bind(&after.2)
            .bind(i64::from(limit))
            .fetch_all(&mut *transaction)
            .await
            .map_err(map)?;
        let mut stuck = Vec::new();
        let mut last = Key::default();
        for row in &rows {
            let key = || {
                Ok((row.try_get("destination_id")?, row.try_get("tenant_id")?, row.try_get("partition_key")?))
            };
            last = key().map_err(map)?;
            if row.try_get("is_stuck").map_err(map)? {
                stuck.push(last.clone());
            }
        }
        swept.unparked += self.let_next_go(&mut transaction, &stuck).await?;
        transaction.commit().await.map_err(map)?;
        *after = if rows.len() >= limit as usize { last } else { Key::default() };
        Ok(())
    }
}
