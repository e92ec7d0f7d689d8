//! The same component with batches and without: what one call for many events saves.

use anyhow::Result;

use crate::rig::{Database, Rig};
use crate::throughput::one;
use crate::{Common, median};

const CONCURRENCY: [u32; 2] = [16, 100];

pub async fn run(common: &Common, events: usize) -> Result<()> {
    for database in [Database::Sqlite, Database::Postgres] {
        for concurrency in CONCURRENCY {
            let (mut batched, mut single) = (Vec::new(), Vec::new());
            for _ in 0..common.runs {
                for (batch_events, rates) in [(100, &mut batched), (1, &mut single)] {
                    let component = common.guests.join("full.wasm");
                    let destination = format!(
                        "component = \"{}\"\nlimits = {{ batch_events = {batch_events} }}\n",
                        component.display()
                    );
                    let rig = Rig::new(common, database, "notify", concurrency, &destination).await?;
                    let component = rig.component().await?;
                    rates.push(one(&rig, events, component).await?);
                }
            }
            let (batched, single) = (median(batched), median(single));
            println!(
                "batch {database:?} no-op concurrency {concurrency}: batches {batched:.0}/s, singly {single:.0}/s, \
                 ratio {:.2} (median of {})",
                batched / single,
                common.runs
            );
        }
    }
    Ok(())
}
