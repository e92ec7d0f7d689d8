//! How a claim ends or goes on: each judged by its own token and unexpired lease.

use sqlx::types::Uuid;
use sqlx::{PgConnection, Row, SqlStr};

use super::claim::Key;
use super::*;
use crate::domain::Write;

/// Claims as the columns of `unnest`.
struct ClaimColumns {
    destinations: Vec<i64>,
    events: Vec<i64>,
    tokens: Vec<Uuid>,
    fences: Vec<i64>,
}

impl ClaimColumns {
    fn of<'a>(claims: impl Iterator<Item = &'a ClaimRef>) -> Self {
        let mut columns =
            Self { destinations: Vec::new(), events: Vec::new(), tokens: Vec::new(), fences: Vec::new() };
        for claim in claims {
            columns.destinations.push(claim.destination.0);
            columns.events.push(claim.event.0);
            columns.tokens.push(Uuid::from_bytes(claim.token.0));
            columns.fences.push(claim.fence.0);
        }
        columns
    }
}

impl PostgresStore {
    pub(super) async fn renew_claims(
        &self,
        claims: &[ClaimRef],
        lease: Duration,
    ) -> StoreResult<Vec<Settled>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let columns = ClaimColumns::of(claims.iter());
        let mut work = self.one().await?;
        let rows = sqlx::query(self.statements.renew.clone())
            .bind(columns.destinations)
            .bind(columns.events)
            .bind(columns.tokens)
            .bind(columns.fences)
            .bind(wait_us(lease))
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        settled(claims.len(), &rows)
    }

    pub(super) async fn give_back(&self, claims: &[ClaimRef]) -> StoreResult<Vec<Settled>> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let columns = ClaimColumns::of(claims.iter());
        let query = |statement: SqlStr| {
            sqlx::query(statement)
                .bind(columns.destinations.clone())
                .bind(columns.events.clone())
                .bind(columns.tokens.clone())
                .bind(columns.fences.clone())
        };
        self.settle(claims.len(), &columns.destinations, query(self.statements.release.clone())).await
    }

    pub(super) async fn record_results(&self, results: &[Acknowledgement]) -> StoreResult<Vec<Settled>> {
        if results.is_empty() {
            return Ok(Vec::new());
        }
        let columns = ClaimColumns::of(results.iter().map(|result| &result.claim));
        let destinations = columns.destinations.clone();
        let records = || results.iter().map(|result| &result.record);
        let query = sqlx::query(self.statements.acknowledge.clone())
            .bind(columns.destinations)
            .bind(columns.events)
            .bind(columns.tokens)
            .bind(columns.fences)
            .bind(results.iter().map(|result| code(&result.write)).collect::<Vec<i16>>())
            .bind(results.iter().map(|result| wait(&result.write)).collect::<Vec<i64>>())
            .bind(results.iter().map(disposition).collect::<Vec<Option<String>>>())
            .bind(results.iter().map(reference).collect::<Vec<Option<String>>>())
            .bind(results.iter().map(last_error).collect::<Vec<Option<String>>>())
            .bind(records().map(|record| text(&record.host_id)).collect::<Vec<String>>())
            .bind(records().map(|record| int(record.attempt)).collect::<Vec<i32>>())
            .bind(records().map(|record| PgTime(record.started_at)).collect::<Vec<PgTime>>())
            .bind(records().map(|record| PgTime(record.ended_at)).collect::<Vec<PgTime>>())
            .bind(records().map(|record| text(&record.outcome)).collect::<Vec<String>>())
            .bind(records().map(|record| some(&record.code)).collect::<Vec<Option<String>>>())
            .bind(records().map(|record| some(&record.message)).collect::<Vec<Option<String>>>())
            .bind(records().map(|record| record.uncertain).collect::<Vec<bool>>())
            .bind(records().map(|record| some(&record.component_digest)).collect::<Vec<Option<String>>>())
            .bind(results.iter().map(|result| result.lane_works).collect::<Vec<bool>>());
        self.settle(results.len(), &destinations, query).await
    }

    /// Runs a statement that ends leases. Where a lane keeps an order, the next of each key is let
    /// go in the same transaction.
    async fn settle(
        &self,
        length: usize,
        destinations: &[i64],
        query: sqlx::query::Query<'_, Postgres, sqlx::postgres::PgArguments>,
    ) -> StoreResult<Vec<Settled>> {
        if !self.any_keeps_order(destinations.iter().copied()) {
            let mut work = self.one().await?;
            let rows = query.fetch_all(work.connection()).await.map_err(map)?;
            work.done().await?;
            return settled(length, &rows);
        }
        let mut transaction = self.transaction().await?;
        let rows = query.fetch_all(&mut *transaction).await.map_err(map)?;
        self.let_next_go(&mut transaction, &keys(&rows)?).await?;
        transaction.commit().await.map_err(map)?;
        settled(length, &rows)
    }

    /// Lets the next of each key go whose delivery a statement has just changed.
    pub(super) async fn let_next_of(
        &self,
        connection: &mut PgConnection,
        rows: &[sqlx::postgres::PgRow],
    ) -> StoreResult<u64> {
        self.let_next_go(connection, &keys(rows)?).await
    }
}

fn keys(rows: &[sqlx::postgres::PgRow]) -> StoreResult<Vec<Key>> {
    let mut keys = Vec::new();
    for row in rows {
        if let Some(key) = row.try_get::<Option<String>, _>("partition_key").map_err(map)? {
            let tenant = row.try_get("tenant_id").map_err(map)?;
            keys.push((row.try_get("destination_id").map_err(map)?, tenant, key));
        }
    }
    Ok(keys)
}

fn settled(length: usize, rows: &[sqlx::postgres::PgRow]) -> StoreResult<Vec<Settled>> {
    let mut answer = vec![Settled::Fenced; length];
    for row in rows {
        let place: i64 = row.try_get("place").map_err(map)?;
        let slot = usize::try_from(place - 1).ok().and_then(|index| answer.get_mut(index));
        *slot.ok_or_else(|| StoreError::Fault(format!("the statement answered for place {place}")))? =
            Settled::Recorded;
    }
    Ok(answer)
}

/// The numbers in `acknowledge.sql`.
fn code(write: &Write) -> i16 {
    match write {
        Write::Delivered => 0,
        Write::Dead(_) => 1,
        Write::Retry(_) => 2,
        Write::Defer => 3,
    }
}

fn wait(write: &Write) -> i64 {
    match write {
        Write::Retry(wait) => wait_us(*wait),
        Write::Delivered | Write::Dead(_) | Write::Defer => 0,
    }
}

fn disposition(result: &Acknowledgement) -> Option<String> {
    match &result.write {
        Write::Delivered => Some(text(&result.record.outcome)),
        Write::Dead(reason) => Some(reason.as_str().to_owned()),
        Write::Retry(_) | Write::Defer => None,
    }
}

fn reference(result: &Acknowledgement) -> Option<String> {
    match &result.write {
        Write::Delivered => result.record.reference.as_deref().map(text),
        Write::Dead(_) | Write::Retry(_) | Write::Defer => None,
    }
}

fn last_error(result: &Acknowledgement) -> Option<String> {
    match &result.write {
        Write::Delivered => None,
        Write::Dead(_) | Write::Retry(_) | Write::Defer => result.record.error_text().as_deref().map(text),
    }
}

fn some(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| text(value))
}
