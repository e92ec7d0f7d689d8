//! One call of a component on a warm instance, as the relay makes it, beside a native deliverer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;
use outhaul::domain::{Event, EventSeq, Fence, Timestamp};
use outhaul::plugin::{Call, Deliver, WentTo};

use crate::peer::Nothing;
use crate::receiver::noop;
use crate::rig::{Database, Rig};
use crate::{Common, median};

pub async fn run(common: &Common, calls: u32) -> Result<()> {
    let rig = Rig::new(common, Database::Sqlite, "poll", 1, &noop(&common.guests)).await?;
    let component = rig.component().await?;
    let native: Arc<dyn Deliver> = Arc::new(Nothing::default());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..common.runs {
        ours.push(one(&component, calls).await?);
        theirs.push(one(&native, calls).await?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!(
        "calls: component {ours:.2} µs, native peer {theirs:.2} µs, overhead {:.2} µs an event (200 bytes, median of {})",
        ours - theirs,
        common.runs
    );
    Ok(())
}

async fn one(plugin: &Arc<dyn Deliver>, calls: u32) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..calls {
        let outcome = plugin.deliver(call()).await;
        if !outcome.is_success() {
            bail!("the call failed: {outcome:?}");
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}

pub fn call() -> Call {
    let payload: &[u8] = &[b'x'; 200];
    Call {
        event: Event {
            seq: EventSeq(1),
            tenant: String::new(),
            id: "event-1".to_owned(),
            topic: "order.created".to_owned(),
            key: None,
            headers: Vec::new(),
            content_type: "application/json".to_owned(),
            created_at: Timestamp(0),
            expires_at: None,
            payload_bytes: payload.len() as u64,
        },
        dedup_id: "event-1".to_owned(),
        payload: Bytes::from_static(payload),
        attempt: 1,
        is_last_attempt: false,
        uncertain_before: false,
        fence: Fence(1),
        budget: Duration::from_secs(10),
        is_probe: false,
        went_to: WentTo::default(),
    }
}
