//! How a claim ends: each statement matches the token and an unexpired lease, and the rows it
//! returns are the answer.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection, query};

use super::SqliteStore;
use super::errors::Work;
use super::rows::*;
use crate::domain::{Timestamp, Write};
use crate::store::*;

/// Which claims a statement changed.
#[derive(Default)]
struct Changed {
    claims: BTreeSet<(i64, i64, i64)>,
    keys: BTreeSet<(i64, String, String)>,
}

impl Changed {
    fn read(rows: &[SqliteRow]) -> sqlx::Result<Self> {
        let mut changed = Self::default();
        for row in rows {
            let destination: i64 = row.try_get("destination_id")?;
            changed.claims.insert((destination, row.try_get("event_seq")?, row.try_get("fence")?));
            if let Some(key) = maybe_text(row, "partition_key")? {
                changed.keys.insert((destination, text(row, "tenant_id")?, key));
            }
        }
        Ok(changed)
    }

    /// The answer for each claim. One that was named twice was settled by the first.
    fn answers<'a>(&self, claims: impl Iterator<Item = &'a ClaimRef>) -> Vec<Settled> {
        let mut left = self.claims.clone();
        claims
            .map(|claim| match left.remove(&(claim.destination.0, claim.event.0, claim.fence.0)) {
                true => Settled::Recorded,
                false => Settled::Fenced,
            })
            .collect()
    }
}

fn claims_json(claims: &[ClaimRef]) -> String {
    let rows: Vec<Value> = claims
        .iter()
        .map(|claim| json!([claim.destination.0, claim.event.0, claim.fence.0, hex(&claim.token.0)]))
        .collect();
    Value::from(rows).to_string()
}

impl SqliteStore {
    async fn read_now(&self, tx: &mut SqliteConnection) -> sqlx::Result<Timestamp> {
        time(&query(self.sql.now.clone()).fetch_one(tx).await?, "now")
    }

    pub(super) async fn extend(&self, claims: &[ClaimRef], lease: Duration) -> Work<Vec<Settled>> {
        let mut tx = self.begin().await?;
        let now = self.read_now(&mut tx).await?;
        let rows = query(self.sql.renew.clone())
            .bind(claims_json(claims))
            .bind(now.0)
            .bind(now.plus(lease).0)
            .fetch_all(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Changed::read(&rows)?.answers(claims.iter()))
    }

    pub(super) async fn give_back(&self, claims: &[ClaimRef]) -> Work<Vec<Settled>> {
        let mut tx = self.begin().await?;
        let now = self.read_now(&mut tx).await?;
        let rows =
            query(self.sql.release.clone()).bind(claims_json(claims)).bind(now.0).fetch_all(&mut *tx).await?;
        let changed = Changed::read(&rows)?;
        let answers = changed.answers(claims.iter());
        self.unpark_keys(&mut tx, changed.keys, now).await?;
        tx.commit().await?;
        Ok(answers)
    }

    pub(super) async fn settle(&self, results: &[Acknowledgement]) -> Work<Vec<Settled>> {
        let mut tx = self.begin().await?;
        let now = self.read_now(&mut tx).await?;
        let rows: Vec<Value> = results.iter().map(|result| result_json(result, now)).collect();
        let rows = query(self.sql.acknowledge.clone())
            .bind(Value::from(rows).to_string())
            .bind(now.0)
            .fetch_all(&mut *tx)
            .await?;
        let changed = Changed::read(&rows)?;
        let answers = changed.answers(results.iter().map(|result| &result.claim));
        self.record(&mut tx, results, &answers).await?;
        self.note_lanes(&mut tx, results, &answers, now).await?;
        self.unpark_keys(&mut tx, changed.keys, now).await?;
        tx.commit().await?;
        Ok(answers)
    }

    async fn record(
        &self,
        tx: &mut SqliteConnection,
        results: &[Acknowledgement],
        answers: &[Settled],
    ) -> sqlx::Result<()> {
        let rows: Vec<Value> = results
            .iter()
            .zip(answers)
            .map(|(result, answer)| history_json(result, *answer == Settled::Recorded))
            .collect();
        query(self.sql.record_attempts.clone()).bind(Value::from(rows).to_string()).execute(tx).await?;
        Ok(())
    }

    /// What a lane must remember to tell an event's trouble from its destination's.
    async fn note_lanes(
        &self,
        tx: &mut SqliteConnection,
        results: &[Acknowledgement],
        answers: &[Settled],
        now: Timestamp,
    ) -> sqlx::Result<()> {
        let lanes_with = |tells: fn(&Acknowledgement) -> bool| -> BTreeSet<i64> {
            results
                .iter()
                .zip(answers)
                .filter(|(result, answer)| tells(result) && **answer == Settled::Recorded)
                .map(|(result, _)| result.claim.destination.0)
                .collect()
        };
        for (lanes, sql) in [
            (lanes_with(|result| result.write == Write::Defer), &self.sql.note_deferral),
            (lanes_with(|result| result.lane_works), &self.sql.note_success),
        ] {
            if !lanes.is_empty() {
                query(sql.clone()).bind(json!(lanes).to_string()).bind(now.0).execute(&mut *tx).await?;
            }
        }
        Ok(())
    }
}

fn result_json(result: &Acknowledgement, now: Timestamp) -> Value {
    let Acknowledgement { claim, write, record, .. } = result;
    let error = record.error_text();
    let (code, due, disposition, reference, error) = match write {
        Write::Delivered => (0, None, Some(record.outcome.as_str()), record.reference.clone(), None),
        Write::Dead(reason) => (1, None, Some(reason.as_str()), None, error),
        Write::Retry(wait) => (2, Some(now.plus(*wait).0), None, None, error),
        Write::Defer => (3, Some(now.0), None, None, error),
    };
    let uncertain = record.uncertain && *write != Write::Delivered;
    let token = hex(&claim.token.0);
    json!([
        claim.destination.0,
        claim.event.0,
        claim.fence.0,
        token,
        code,
        due,
        disposition,
        reference,
        error,
        i64::from(uncertain)
    ])
}

fn history_json(result: &Acknowledgement, recorded: bool) -> Value {
    let Acknowledgement { claim, record, .. } = result;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!([
        claim.event.0,
        claim.destination.0,
        claim.fence.0,
        record.attempt,
        record.host_id,
        record.started_at.0,
        record.ended_at.0,
        record.outcome,
        some(&record.code),
        some(&record.message),
        i64::from(record.uncertain || !recorded),
        some(&record.component_digest)
    ])
}
