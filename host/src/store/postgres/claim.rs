//! Claims, and the order of a key.
//!
//! An ordered claim is two statements in one transaction: the first locks due deliveries and tries
//! to lock their keys, the second, whose snapshot is later than the locks, takes the heads and
//! parks the rest. A parked delivery is out of the due index; whatever ends a lease of its key, or
//! takes a delivery of it away, puts the head back ([`PostgresStore::unpark_heads`]).

use std::collections::BTreeMap;

use sqlx::postgres::PgRow;
use sqlx::types::{Json, Uuid};
use sqlx::{PgConnection, Row};

use super::pgtime::{PgTime, time};
use super::register::ordering;
use super::*;
use crate::domain::{ClaimToken, DeadReason, Event, Fence};

/// (destination, tenant, key)
pub(super) type Key = (i64, String, String);

/// More than the limit are looked at in an ordered claim, so that a few blocked keys in front don't
/// cost a round trip each; bounded, so that a hot key's backlog can't slow a claim down.
const BEHIND_MAX: u32 = 100;

impl PostgresStore {
    pub(super) async fn claim_unordered(&self, request: &ClaimRequest) -> StoreResult<Claims> {
        let statement = match request.which {
            Which::Ordinary => &self.statements.claim_ordinary,
            Which::Suspect => &self.statements.claim_suspect,
        };
        let mut work = self.one().await?;
        let rows = sqlx::query(statement.clone())
            .bind(request.destination.0)
            .bind(i64::from(limit(request)))
            .bind(wait_us(request.lease))
            .bind(int(request.max_attempts))
            .bind(&request.host_id)
            .bind(probe(request))
            .fetch_all(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        let mut claims = Claims::default();
        for row in &rows {
            claims.add(request.destination, row).map_err(map)?;
        }
        Ok(claims)
    }

    pub(super) async fn claim_in_order(
        &self,
        request: &ClaimRequest,
        on_dead: OnDead,
    ) -> StoreResult<Claims> {
        self.keeps_order(request.destination);
        let mut transaction = self.transaction().await?;
        let candidates = self.candidates(&mut transaction, request).await?;
        if candidates.is_empty() {
            transaction.commit().await.map_err(map)?;
            return Ok(Claims::default());
        }
        let seqs: Vec<i64> = candidates.iter().map(|(seq, _)| *seq).collect();
        let rows = sqlx::query(self.statements.claim_keyed.clone())
            .bind(request.destination.0)
            .bind(i64::from(limit(request)))
            .bind(wait_us(request.lease))
            .bind(int(request.max_attempts))
            .bind(&request.host_id)
            .bind(probe(request))
            .bind(seqs)
            .bind(on_dead == OnDead::Block)
            .fetch_all(&mut *transaction)
            .await
            .map_err(map)?;
        let mut claims = Claims::default();
        for row in &rows {
            if row.try_get::<Option<i64>, _>("event_seq").map_err(map)?.is_some() {
                claims.add(request.destination, row).map_err(map)?;
            }
        }
        if let Some(row) = rows.first() {
            claims.parked = count(row, "parked").map_err(map)?;
            claims.lost += count(row, "parked_lost").map_err(map)?;
        }
        if claims.parked > 0 || !claims.buried.is_empty() {
            // The locks are ours already, from the first statement.
            let keys: Vec<Key> = candidates.into_iter().filter_map(|(_, key)| key).collect();
            self.unpark_heads(&mut transaction, &keys, on_dead == OnDead::Block).await?;
        }
        transaction.commit().await.map_err(map)?;
        Ok(claims)
    }

    async fn candidates(
        &self,
        connection: &mut PgConnection,
        request: &ClaimRequest,
    ) -> StoreResult<Vec<(i64, Option<Key>)>> {
        let statement = match request.which {
            Which::Ordinary => &self.statements.candidates_ordinary,
            Which::Suspect => &self.statements.candidates_suspect,
        };
        let rows = sqlx::query(statement.clone())
            .bind(request.destination.0)
            .bind(i64::from(limit(request)) + i64::from(BEHIND_MAX))
            .bind(probe(request))
            .bind(ordering(request.order))
            .fetch_all(connection)
            .await
            .map_err(map)?;
        rows.iter()
            .map(|row| {
                let tenant: String = row.try_get("tenant_id")?;
                let key: Option<String> = row.try_get("partition_key")?;
                Ok((row.try_get("event_seq")?, key.map(|key| (request.destination.0, tenant, key))))
            })
            .collect::<Result<_, _>>()
            .map_err(map)
    }

    pub(super) fn keeps_order(&self, destination: DestinationId) {
        self.ordered.lock().expect("nothing panics while it is held").insert(destination.0);
    }

    pub(super) fn any_keeps_order(&self, mut destinations: impl Iterator<Item = i64>) -> bool {
        let ordered = self.ordered.lock().expect("nothing panics while it is held");
        destinations.any(|destination| ordered.contains(&destination))
    }

    /// Waits for the keys' locks and puts their heads back. For whatever has ended a lease or taken
    /// a delivery away earlier in the same transaction.
    pub(super) async fn let_next_go(&self, connection: &mut PgConnection, keys: &[Key]) -> StoreResult<u64> {
        if keys.is_empty() {
            return Ok(0);
        }
        let (destinations, tenants, names) = columns(keys);
        sqlx::query(self.statements.lock_keys.clone())
            .bind(destinations)
            .bind(tenants)
            .bind(names)
            .execute(&mut *connection)
            .await
            .map_err(map)?;
        self.unpark_heads(connection, keys, false).await
    }

    async fn unpark_heads(
        &self,
        connection: &mut PgConnection,
        keys: &[Key],
        dead_blocks: bool,
    ) -> StoreResult<u64> {
        let (destinations, tenants, names) = columns(keys);
        let done = sqlx::query(self.statements.unpark.clone())
            .bind(destinations)
            .bind(tenants)
            .bind(names)
            .bind(dead_blocks)
            .execute(connection)
            .await
            .map_err(map)?;
        Ok(done.rows_affected())
    }
}

fn columns(keys: &[Key]) -> (Vec<i64>, Vec<String>, Vec<String>) {
    let keys: std::collections::BTreeSet<&Key> = keys.iter().collect();
    let mut columns = (Vec::new(), Vec::new(), Vec::new());
    for (destination, tenant, key) in keys {
        columns.0.push(*destination);
        columns.1.push(tenant.clone());
        columns.2.push(key.clone());
    }
    columns
}

/// A probe is one delivery.
fn limit(request: &ClaimRequest) -> u32 {
    if request.probe.is_some() { request.limit.min(1) } else { request.limit }
}

fn probe(request: &ClaimRequest) -> Option<Uuid> {
    request.probe.map(|ProbeToken(token)| Uuid::from_bytes(token))
}

fn count(row: &PgRow, column: &str) -> sqlx::Result<u32> {
    Ok(u32::try_from(row.try_get::<i64, _>(column)?).unwrap_or(u32::MAX))
}

impl Claims {
    fn add(&mut self, destination: DestinationId, row: &PgRow) -> sqlx::Result<()> {
        let seq = EventSeq(row.try_get("event_seq")?);
        self.lost += u32::from(row.try_get::<bool, _>("is_lost")?);
        match row.try_get::<Option<String>, _>("death")? {
            Some(death) => self.buried.push((seq, dead_reason(&death))),
            None => self.claimed.push(claimed(destination, seq, row)?),
        }
        Ok(())
    }
}

fn dead_reason(death: &str) -> DeadReason {
    [DeadReason::Expired, DeadReason::AttemptsExhaustedUnknown]
        .into_iter()
        .find(|reason| reason.as_str() == death)
        .unwrap_or(DeadReason::AttemptsExhausted)
}

fn unsigned(row: &PgRow, column: &str) -> sqlx::Result<u32> {
    Ok(row.try_get::<i32, _>(column)?.unsigned_abs())
}

fn claimed(destination: DestinationId, seq: EventSeq, row: &PgRow) -> sqlx::Result<Claimed> {
    let PgTime(claimed_at) = row.try_get("claimed_at")?;
    let PgTime(first_claimed_at) = row.try_get("first_claimed_at")?;
    let token: Uuid = row.try_get("claim_token")?;
    Ok(Claimed {
        claim: ClaimRef {
            event: seq,
            destination,
            token: ClaimToken(token.into_bytes()),
            fence: Fence(row.try_get("fence")?),
        },
        event: event(seq, row)?,
        attempt: unsigned(row, "attempts")?,
        deferrals: unsigned(row, "deferrals")?,
        lost: unsigned(row, "lost")?,
        uncertain_before: row.try_get("uncertain")?,
        claimed_at,
        first_claimed_at,
        deferred_before_success: row.try_get("deferred_before_success")?,
        lane_epoch: row.try_get("epoch")?,
        lane_pauses: unsigned(row, "pauses")?,
    })
}

pub(super) fn event(seq: EventSeq, row: &PgRow) -> sqlx::Result<Event> {
    let headers: Option<Json<BTreeMap<String, String>>> = row.try_get("headers")?;
    let PgTime(created_at) = row.try_get("created_at")?;
    Ok(Event {
        seq,
        tenant: row.try_get("tenant_id")?,
        id: row.try_get("event_id")?,
        topic: row.try_get("topic")?,
        key: row.try_get("partition_key")?,
        headers: headers.map(|Json(headers)| headers.into_iter().collect()).unwrap_or_default(),
        content_type: row.try_get("content_type")?,
        created_at,
        expires_at: time(row.try_get("expires_at")?),
        payload_bytes: u64::from(row.try_get::<i32, _>("payload_bytes")?.unsigned_abs()),
    })
}
