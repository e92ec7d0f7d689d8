//! From a commit to the call, and to the recorded delivery, on an idle host, one event at a time,
//! committed by another connection as a producer's process would.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use outhaul::service::stores::{Stores, open_stores};
use outhaul::store::{DeliveryStatus, NewEvent};

use crate::peer::Nothing;
use crate::receiver::noop;
use crate::rig::{Database, Rig};
use crate::{Common, percentile};

pub async fn run(common: &Common, events: usize) -> Result<()> {
    for (database, wake) in [(Database::Sqlite, "poll"), (Database::Postgres, "notify")] {
        let rig = Rig::new(common, database, wake, 16, &noop(&common.guests)).await?;
        let native = Arc::new(Nothing::that_keeps_arrivals());
        let relay = rig.start(native.clone()).await?;
        // Stores of their own: what they commit reaches the host by the database alone.
        let producer = open_stores(&rig.config).await?;
        let (mut to_call, mut to_record) = (Vec::new(), Vec::new());
        for number in 0..events {
            let id = format!("event-{number}");
            let event = NewEvent {
                id: id.clone(),
                topic: "t".to_owned(),
                payload: vec![b'x'; 200],
                ..NewEvent::default()
            };
            producer.operate.emit(&[event]).await?;
            let committed = Instant::now();
            recorded(&producer, &id, committed).await?;
            to_record.push(committed.elapsed().as_secs_f64() * 1e3);
            let arrived = native.arrival_of(&id).unwrap_or(committed);
            to_call.push(arrived.saturating_duration_since(committed).as_secs_f64() * 1e3);
            // Idle again, at another point of the poll interval each time.
            tokio::time::sleep(Duration::from_millis(5 + (number as u64 * 7) % 40)).await;
        }
        relay.drain().await;
        for (what, mut figures) in [("call", to_call), ("recorded delivery (seen by a query)", to_record)] {
            figures.sort_by(f64::total_cmp);
            println!(
                "latency {database:?} commit to {what}: p50 {:.2} ms, p99 {:.2} ms ({events} events)",
                percentile(&figures, 0.5),
                percentile(&figures, 0.99)
            );
        }
    }
    Ok(())
}

async fn recorded(stores: &Stores, id: &str, since: Instant) -> Result<()> {
    loop {
        if let Some(report) = stores.operate.show("", id).await?
            && report.deliveries.iter().all(|delivery| delivery.status == DeliveryStatus::Delivered)
        {
            return Ok(());
        }
        if since.elapsed() > Duration::from_secs(30) {
            bail!("event {id} was not delivered in 30 s");
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}
