//! Resident memory with so many instances of the HTTP plugin warm at once.

use anyhow::{Context, Result};
use futures_util::future::join_all;

use crate::Common;
use crate::calls::call;
use crate::receiver::Receiver;
use crate::rig::{Database, Rig};

const INSTANCES: [u32; 2] = [4, 64];

pub async fn run(common: &Common) -> Result<()> {
    let receiver = Receiver::start(false)?;
    for instances in INSTANCES {
        let destination = receiver.destination(&common.guests);
        let rig = Rig::new(common, Database::Sqlite, "poll", instances, &destination).await?;
        let plugin = rig.component().await?;
        let before = resident_mib()?;
        let calls = join_all((0..instances).map(|_| plugin.deliver(call())));
        let hold = async {
            receiver.arrived.acquire_many(instances).await?.forget();
            let during = resident_mib()?;
            receiver.gate.add_permits(instances as usize);
            anyhow::Ok(during)
        };
        let (outcomes, during) = tokio::join!(calls, hold);
        anyhow::ensure!(outcomes.iter().all(|outcome| outcome.is_success()), "{outcomes:?}");
        println!(
            "memory: {instances} instances of the HTTP plugin in a call: {:.1} MiB resident, {:.2} MiB an instance",
            during.as_ref().copied().unwrap_or_default(),
            (during? - before) / f64::from(instances)
        );
    }
    Ok(())
}

pub fn resident_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("the kernel tells VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).context("VmRSS has a number")?.parse()?;
    Ok(kib / 1024.0)
}
