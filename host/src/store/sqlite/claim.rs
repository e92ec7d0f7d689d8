//! Taking due deliveries: look at candidates, sort them by what becomes of each, write. All under
//! the write lock, so what was looked at is what is written.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite, SqliteConnection, Transaction, query};

use super::SqliteStore;
use super::errors::Work;
use super::rows::*;
use crate::domain::{DeadReason, Event, EventSeq, Fence, Timestamp};
use crate::store::*;

/// More than the limit are looked at in an ordered claim, so that what stands behind a blocked head
/// doesn't cost a transaction each; bounded, so that its backlog can't slow a claim down.
const BEHIND_MAX: u32 = 100;

/// The lane at the moment of the claim.
struct Admission {
    now: Timestamp,
    epoch: i64,
    pauses: u32,
    last_success_at: Option<Timestamp>,
}

struct Candidate {
    event: Event,
    attempts: u32,
    deferrals: u32,
    /// Its last claim expired without a word.
    is_lost: bool,
    is_expired: bool,
    is_behind: bool,
    waits_until: Option<i64>,
    last_deferred_at: Option<Timestamp>,
}

/// What becomes of each candidate.
#[derive(Default)]
struct Plan {
    lost: Vec<i64>,
    buried: Vec<(EventSeq, DeadReason)>,
    taken: BTreeMap<i64, Candidate>,
    /// In due order, as `taken` is not.
    order: Vec<i64>,
    parked: Vec<(i64, Option<i64>)>,
    /// (tenant, key) where another delivery's turn may have come.
    keys: BTreeSet<(String, String)>,
}

impl SqliteStore {
    pub(super) async fn take(&self, request: &ClaimRequest) -> Work<Claims> {
        let mut tx = self.begin().await?;
        let Some(lane) = self.admit(&mut tx, request).await? else { return Ok(Claims::default()) };
        let candidates = self.candidates(&mut tx, request, lane.now).await?;
        let plan = Plan::sort(candidates, request);
        self.write_ends(&mut tx, request, &plan, lane.now).await?;
        let claims = self.write_claims(&mut tx, request, plan, &lane).await?;
        tx.commit().await?;
        Ok(claims)
    }

    async fn admit(
        &self,
        tx: &mut SqliteConnection,
        request: &ClaimRequest,
    ) -> sqlx::Result<Option<Admission>> {
        let row = query(self.sql.claim_lane.clone())
            .bind(request.destination.0)
            .bind(request.probe.map(|probe| probe.0.to_vec()))
            .bind(request.order.as_str())
            .fetch_optional(tx)
            .await?;
        let Some(row) = row else { return Ok(None) };
        if text(&row, "state")? != LaneState::Active.as_str() && !row.try_get::<bool, _>("is_probe")? {
            return Ok(None);
        }
        Ok(Some(Admission {
            now: time(&row, "now")?,
            epoch: row.try_get("epoch")?,
            pauses: count(&row, "pauses")?,
            last_success_at: maybe_time(&row, "last_success_at")?,
        }))
    }

    async fn candidates(
        &self,
        tx: &mut SqliteConnection,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> sqlx::Result<Vec<Candidate>> {
        let sql = match request.which {
            Which::Ordinary => &self.sql.claim_ordinary,
            Which::Suspect => &self.sql.claim_suspect,
        };
        let behind = if request.order == Order::None { 0 } else { BEHIND_MAX };
        let rows = query(sql.clone())
            .bind(request.destination.0)
            .bind(now.0)
            .bind(i64::from(limit(request)) + i64::from(behind))
            .bind(request.order.as_str())
            .fetch_all(tx)
            .await?;
        rows.iter().map(Candidate::read).collect()
    }

    /// Losses, dead letters and parked rows, and whose turn comes by them.
    async fn write_ends(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        request: &ClaimRequest,
        plan: &Plan,
        now: Timestamp,
    ) -> sqlx::Result<()> {
        let destination = request.destination.0;
        if !plan.lost.is_empty() {
            query(self.sql.record_lost.clone())
                .bind(destination)
                .bind(json!(plan.lost).to_string())
                .execute(&mut **tx)
                .await?;
        }
        if !plan.buried.is_empty() {
            let rows = plan.buried.iter().map(|(seq, reason)| (destination, seq.0, reason.as_str()));
            let buried: Vec<_> = rows.collect();
            query(self.sql.bury.clone())
                .bind(json!(buried).to_string())
                .bind(now.0)
                .execute(&mut **tx)
                .await?;
        }
        if !plan.parked.is_empty() {
            let parked: Vec<_> = plan.parked.iter().map(|(seq, until)| (destination, seq, until)).collect();
            query(self.sql.park.clone())
                .bind(json!(parked).to_string())
                .bind(now.0)
                .execute(&mut **tx)
                .await?;
        }
        let keys = plan.keys.iter().map(|(tenant, key)| (destination, tenant.clone(), key.clone()));
        self.unpark_keys(tx, keys.collect(), now).await?;
        Ok(())
    }

    /// Puts the next delivery of each key back into the due order, if its turn has come.
    pub(super) async fn unpark_keys(
        &self,
        tx: &mut SqliteConnection,
        keys: BTreeSet<(i64, String, String)>,
        now: Timestamp,
    ) -> sqlx::Result<u64> {
        if keys.is_empty() {
            return Ok(0);
        }
        let done =
            query(self.sql.unpark.clone()).bind(json!(keys).to_string()).bind(now.0).execute(tx).await?;
        Ok(done.rows_affected())
    }

    async fn write_claims(
        &self,
        tx: &mut SqliteConnection,
        request: &ClaimRequest,
        mut plan: Plan,
        lane: &Admission,
    ) -> sqlx::Result<Claims> {
        let mut claims = Claims {
            claimed: Vec::new(),
            lost: plan.lost.len() as u32,
            buried: plan.buried,
            parked: plan.parked.len() as u32,
        };
        if plan.order.is_empty() {
            return Ok(claims);
        }
        let rows = query(self.sql.claim.clone())
            .bind(request.destination.0)
            .bind(json!(plan.order).to_string())
            .bind(&request.host_id)
            .bind(lane.now.0)
            .bind(lane.now.plus(request.lease).0)
            .fetch_all(tx)
            .await?;
        let mut written: BTreeMap<i64, Claimed> = BTreeMap::new();
        for row in &rows {
            let seq: i64 = row.try_get("event_seq")?;
            if let Some(candidate) = plan.taken.remove(&seq) {
                written.insert(seq, claimed(candidate, row, request, lane)?);
            }
        }
        claims.claimed = plan.order.iter().filter_map(|seq| written.remove(seq)).collect();
        Ok(claims)
    }

    pub(super) async fn read_payloads(&self, events: &[EventSeq]) -> Work<Vec<(EventSeq, Bytes)>> {
        let seqs: Vec<i64> = events.iter().map(|seq| seq.0).collect();
        let rows =
            query(self.sql.payloads.clone()).bind(json!(seqs).to_string()).fetch_all(&self.readers).await?;
        let mut payloads = Vec::with_capacity(rows.len());
        for row in rows {
            payloads.push((EventSeq(row.try_get("seq")?), row.try_get::<Vec<u8>, _>("payload")?.into()));
        }
        Ok(payloads)
    }
}

fn limit(request: &ClaimRequest) -> u32 {
    if request.probe.is_some() { request.limit.min(1) } else { request.limit }
}

impl Plan {
    fn sort(candidates: Vec<Candidate>, request: &ClaimRequest) -> Self {
        let mut plan = Self::default();
        let mut heads = BTreeSet::new();
        for candidate in candidates {
            let seq = candidate.event.seq;
            let key = candidate.event.key.clone().map(|key| (candidate.event.tenant.clone(), key));
            let burial = candidate.burial(request.max_attempts);
            // A batch holds one event of a key: the first of them leases it.
            let second = key.as_ref().is_some_and(|key| request.order != Order::None && heads.contains(key));
            let is_behind = candidate.is_behind || second;
            let is_head = burial.is_none() && !is_behind && candidate.waits_until.is_none();
            if is_head && plan.order.len() >= limit(request) as usize {
                // Stays due, for the next claim.
                continue;
            }
            if candidate.is_lost {
                plan.lost.push(seq.0);
            }
            if let Some(reason) = burial {
                plan.buried.push((seq, reason));
                plan.keys.extend(key);
                continue;
            }
            if is_behind {
                plan.parked.push((seq.0, None));
                plan.keys.extend(key);
            } else if let Some(until) = candidate.waits_until {
                plan.parked.push((seq.0, Some(until)));
            } else {
                heads.extend(key);
                plan.order.push(seq.0);
                plan.taken.insert(seq.0, candidate);
            }
        }
        // Behind a head that is about to be leased nobody's turn has come.
        plan.keys.retain(|key| !heads.contains(key));
        plan
    }
}

/// The event of a row, without its payload.
pub(super) fn event(row: &SqliteRow) -> sqlx::Result<Event> {
    Ok(Event {
        seq: EventSeq(row.try_get("event_seq")?),
        tenant: text(row, "tenant_id")?,
        id: text(row, "event_id")?,
        topic: text(row, "topic")?,
        key: maybe_text(row, "partition_key")?,
        headers: headers(row, "headers")?,
        content_type: text(row, "content_type")?,
        created_at: time(row, "created_at")?,
        expires_at: maybe_time(row, "expires_at")?,
        payload_bytes: big_count(row, "payload_bytes")?,
    })
}

impl Candidate {
    fn read(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            event: event(row)?,
            attempts: count(row, "attempts")?,
            deferrals: count(row, "deferrals")?,
            is_lost: row.try_get("is_lost")?,
            is_expired: row.try_get("is_expired")?,
            is_behind: row.try_get("is_behind")?,
            waits_until: row.try_get("waits_until")?,
            last_deferred_at: maybe_time(row, "last_deferred_at")?,
        })
    }

    /// Whether it becomes a dead letter instead of a claim. Expiry is asked first, because an
    /// expired delivery never blocks its key and an exhausted one may.
    fn burial(&self, max_attempts: u32) -> Option<DeadReason> {
        if self.is_expired {
            Some(DeadReason::Expired)
        } else if self.attempts < max_attempts {
            None
        } else if self.is_lost {
            Some(DeadReason::AttemptsExhaustedUnknown)
        } else {
            Some(DeadReason::AttemptsExhausted)
        }
    }
}

fn claimed(
    candidate: Candidate,
    row: &SqliteRow,
    request: &ClaimRequest,
    lane: &Admission,
) -> sqlx::Result<Claimed> {
    let deferred = candidate.last_deferred_at;
    Ok(Claimed {
        claim: ClaimRef {
            event: candidate.event.seq,
            destination: request.destination,
            token: token(row, "claim_token")?,
            fence: Fence(row.try_get("fence")?),
        },
        attempt: count(row, "attempts")?,
        deferrals: candidate.deferrals,
        lost: count(row, "lost")?,
        uncertain_before: row.try_get("uncertain")?,
        claimed_at: lane.now,
        first_claimed_at: time(row, "first_claimed_at")?,
        deferred_before_success: deferred
            .is_some_and(|deferred| lane.last_success_at.is_some_and(|success| deferred < success)),
        lane_epoch: lane.epoch,
        lane_pauses: lane.pauses,
        event: candidate.event,
    })
}
