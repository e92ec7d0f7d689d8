//! Events a second from a full outbox to recorded deliveries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use outhaul::plugin::Deliver;
use outhaul::relay::RelayHandle;

use crate::peer::{Nothing, Post};
use crate::receiver::{Receiver, noop};
use crate::rig::{Database, Rig};
use crate::{Common, median};

const CONCURRENCY: [u32; 2] = [16, 100];

pub async fn run(common: &Common, events: usize) -> Result<()> {
    let receiver = Receiver::start(true)?;
    for database in [Database::Sqlite, Database::Postgres] {
        for concurrency in CONCURRENCY {
            let destination = noop(&common.guests);
            compare(common, database, concurrency, events, "no-op", &destination, || {
                Arc::new(Nothing::default())
            })
            .await?;
            let destination = receiver.destination(&common.guests);
            let url = receiver.origin.clone();
            compare(common, database, concurrency, events, "HTTP", &destination, || {
                Arc::new(Post::new(url.clone()))
            })
            .await?;
        }
    }
    Ok(())
}

async fn compare(
    common: &Common,
    database: Database,
    concurrency: u32,
    events: usize,
    what: &str,
    destination: &str,
    native: impl Fn() -> Arc<dyn Deliver>,
) -> Result<()> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..common.runs {
        let rig = Rig::new(common, database, "notify", concurrency, destination).await?;
        let component = rig.component().await?;
        ours.push(one(&rig, events, component).await?);
        let rig = Rig::new(common, database, "notify", concurrency, destination).await?;
        theirs.push(one(&rig, events, native()).await?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "throughput {database:?} {what} concurrency {concurrency}: component {ours:.0}/s, native peer {theirs:.0}/s, \
         ratio {:.2} (median of {})",
        ours / theirs,
        common.runs
    );
    Ok(())
}

pub async fn one(rig: &Rig, events: usize, plugin: Arc<dyn Deliver>) -> Result<f64> {
    rig.emit(events).await?;
    let began = Instant::now();
    let relay = rig.start(plugin).await?;
    all_recorded(rig, &relay, began).await?;
    let rate = events as f64 / began.elapsed().as_secs_f64();
    relay.drain().await;
    Ok(rate)
}

/// Until nothing is pending. Asks the database, which alone knows what is recorded, but only once
/// this host has nothing in flight.
async fn all_recorded(rig: &Rig, relay: &RelayHandle, began: Instant) -> Result<()> {
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if relay.status().in_flight == 0 {
            let reports = rig.stores.operate.lane_reports().await?;
            if reports.iter().all(|lane| lane.pending == 0 && lane.leased == 0) {
                return match reports.iter().all(|lane| lane.dead == 0) {
                    true => Ok(()),
                    false => bail!("events ended as dead letters"),
                };
            }
        }
        if began.elapsed() > Duration::from_secs(300) {
            bail!("not all events were delivered in 300 s");
        }
    }
}
