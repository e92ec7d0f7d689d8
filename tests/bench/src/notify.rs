//! What the wake-up by NOTIFY costs producers: single inserts, each committed, with and without it.
//! With no host running every commit notifies; a running host that is busy looks by itself, and
//! promises to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Result;
use sqlx::{Connection, PgConnection};

use crate::peer::Nothing;
use crate::receiver::noop;
use crate::rig::{Database, Rig};
use crate::{Common, median};

const CONCURRENCY: u32 = 100;

pub async fn run(common: &Common, producers: usize, seconds: u64) -> Result<()> {
    for (host, is_running) in [("no host", false), ("a running host", true)] {
        let (mut notified, mut polled) = (Vec::new(), Vec::new());
        for _ in 0..common.runs {
            notified.push(one(common, "notify", producers, seconds, is_running).await?);
            polled.push(one(common, "poll", producers, seconds, is_running).await?);
        }
        let (notified, polled) = (median(notified), median(polled));
        println!(
            "notify, {host}: {producers} producers commit {notified:.0}/s with it, {polled:.0}/s without, \
             ratio {:.2} (median of {})",
            notified / polled,
            common.runs
        );
    }
    Ok(())
}

async fn one(common: &Common, wake: &str, producers: usize, seconds: u64, is_running: bool) -> Result<f64> {
    let rig = Rig::new(common, Database::Postgres, wake, CONCURRENCY, &noop(&common.guests)).await?;
    let _relay = match is_running {
        true => Some(rig.start(Arc::new(Nothing::default())).await?),
        false => None,
    };
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
