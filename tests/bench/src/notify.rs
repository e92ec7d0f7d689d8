//! What the wake-up by NOTIFY costs producers: single inserts, each committed, with and without.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Result;
use sqlx::{Connection, PgConnection};

use crate::receiver::noop;
use crate::rig::{Database, Rig};
use crate::{Common, median};

pub async fn run(common: &Common, producers: usize, seconds: u64) -> Result<()> {
    let (mut notified, mut polled) = (Vec::new(), Vec::new());
    for _ in 0..common.runs {
        notified.push(one(common, "notify", producers, seconds).await?);
        polled.push(one(common, "poll", producers, seconds).await?);
    }
    let (notified, polled) = (median(notified), median(polled));
    println!(
        "notify: {producers} producers commit {notified:.0}/s with it, {polled:.0}/s without, ratio {:.2} (median of {})",
        notified / polled,
        common.runs
    );
    Ok(())
}

async fn one(common: &Common, wake: &str, producers: usize, seconds: u64) -> Result<f64> {
    let rig = Rig::new(common, Database::Postgres, wake, 16, &noop(&common.guests)).await?;
    let url = rig.config.database_url().map_err(anyhow::Error::msg)?;
    let committed = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut tasks: Vec<tokio::task::JoinHandle<sqlx::Result<()>>> = Vec::new();
    for _ in 0..producers {
        let mut connection = PgConnection::connect(&url).await?;
        let committed = committed.clone();
        tasks.push(tokio::spawn(async move {
            while Instant::now() < end {
                sqlx::query("insert into outbox_event (event_id, topic, payload) values ($1, 't', $2)")
                    .bind(uuid::Uuid::new_v4().to_string())
                    .bind(vec![b'x'; 200])
                    .execute(&mut connection)
                    .await?;
                committed.fetch_add(1, Relaxed);
            }
            Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(committed.load(Relaxed) as f64 / seconds as f64)
}
