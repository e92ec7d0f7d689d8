//! The stock ledger on PostgreSQL, beside the same statements by `sqlx`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use outhaul::domain::Outcome;
use outhaul::plugin::{Call, Deliver};
use serde::Deserialize;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres, Transaction};

use super::{Peer, WARM_UP_EVENTS, content_digest, outcome};
use crate::rig::{fresh_postgres, sku};

/// The host's default for a database.
const CONNECTIONS: u32 = 10;

/// As the plugin makes them.
const TABLES: &str = "create table stock (sku text collate \"C\" not null primary key, quantity bigint not null); \
    create table stock_ledger (dedup_id text collate \"C\" not null primary key, content_hash text collate \"C\" not null, \
    event_id text collate \"C\" not null, tenant text collate \"C\" not null, topic text collate \"C\" not null, \
    fence bigint not null, attempt bigint not null, applied_at timestamptz not null)";

pub struct Ledger {
    pool: PgPool,
    url: String,
    component: PathBuf,
    events: usize,
}

impl Ledger {
    pub async fn start(component: PathBuf, server: &str, events: usize) -> Result<Self> {
        let url = fresh_postgres(server).await?;
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        Ok(Self { pool, url, component, events })
    }
}

#[async_trait]
impl Peer for Ledger {
    async fn fresh(&self) -> Result<String> {
        sqlx::raw_sql("truncate stock, stock_ledger").execute(&self.pool).await?;
        let skus: Vec<String> = (0..self.events.max(WARM_UP_EVENTS)).map(sku).collect();
        sqlx::query("insert into stock select sku, 10 from unnest($1::text[]) sku")
            .bind(skus)
            .execute(&self.pool)
            .await?;
        Ok(format!(
            "component = \"{}\"\nsql = [\"shop\"]\nsettings = {{ database = \"shop\" }}\n[sql.shop]\nurl = \"{}\"\n\
             pool = {CONNECTIONS}\n",
            self.component.display(),
            self.url
        ))
    }

    async fn native(&self) -> Result<Arc<dyn Deliver>> {
        Ok(Arc::new(Statements(self.pool.clone())))
    }
}

struct Statements(PgPool);

#[derive(Deserialize)]
struct Moved {
    sku: String,
    quantity: i64,
}

#[async_trait]
impl Deliver for Statements {
    async fn deliver(&self, call: Call) -> Outcome {
        outcome(self.apply(&[call]).await)
    }

    async fn deliver_batch(&self, calls: Vec<Call>) -> Vec<Outcome> {
        let applied = outcome(self.apply(&calls).await);
        vec![applied; calls.len()]
    }

    fn component_digest(&self) -> &str {
        ""
    }

    fn unready(&self) -> Option<String> {
        None
    }
}

impl Statements {
    /// In one transaction, as the plugin does it.
    async fn apply(&self, calls: &[Call]) -> Result<()> {
        let mut transaction = self.0.begin().await?;
        for call in calls {
            record(&mut transaction, call).await?;
            take(&mut transaction, serde_json::from_slice(&call.payload)?).await?;
        }
        transaction.commit().await.context("the commit")
    }
}

async fn record(transaction: &mut Transaction<'_, Postgres>, call: &Call) -> Result<()> {
    let insert = "insert into stock_ledger (dedup_id, content_hash, event_id, tenant, topic, fence, attempt, applied_at) \
                  values ($1, $2, $3, $4, $5, $6, $7, now())";
    let event = &call.event;
    sqlx::query(insert)
        .bind(&call.dedup_id)
        .bind(content_digest(call))
        .bind(&event.id)
        .bind(&event.tenant)
        .bind(&event.topic)
        .bind(call.fence.0)
        .bind(i64::from(call.attempt))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

async fn take(transaction: &mut Transaction<'_, Postgres>, moved: Moved) -> Result<()> {
    let Moved { sku, quantity } = moved;
    let update = "update stock set quantity = quantity + $1 where sku = $2 and quantity >= $3";
    let taken =
        sqlx::query(update).bind(-quantity).bind(&sku).bind(quantity).execute(&mut **transaction).await?;
    ensure!(taken.rows_affected() == 1, "there is too little of {sku}");
    Ok(())
}
