//! The same template in each language, and the Rust plugin beside it in the same run: what an engine
//! inside the sandbox costs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures_util::future::join_all;
use outhaul::plugin::Deliver;

use crate::calls::call;
use crate::memory::resident_mib;
use crate::receiver::Receiver;
use crate::rig::{Database, Rig};
use crate::throughput::one;
use crate::{Common, median};

const COMPONENTS: [&str; 6] =
    ["http", "template-rust", "template-go", "template-c", "template-python", "template-js"];

/// Instances that are warm at once.
const CONCURRENCY: u32 = 4;

/// Those of the components that are there.
pub async fn run(common: &Common, events: usize, calls: u32, only: &[String]) -> Result<()> {
    let open = Receiver::start(true)?;
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| name.ends_with(one.as_str()));
    for name in COMPONENTS.into_iter().filter(|name| wanted(name)) {
        let component = common.guests.join(format!("{name}.wasm"));
        if !component.is_file() {
            println!("languages {name}: not built");
            continue;
        }
        let size_mib = component.metadata()?.len() as f64 / f64::from(1 << 20);
        let (cold, cached) = load_times(common, &open.destination_of(&component)).await?;
        println!(
            "languages {name}: {size_mib:.1} MiB, loaded in {:.2} s, from the cache in {:.0} ms",
            cold.as_secs_f64(),
            cached.as_secs_f64() * 1e3
        );
        println!("languages {name}: {:.1} MiB resident an instance", instance_mib(common, &component).await?);
        let (mut call_us, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..common.runs {
            let rig = rig(common, &open.destination_of(&component)).await?;
            let plugin = rig.component().await?;
            call_us.push(one_call_us(plugin.as_ref(), calls).await?);
            rates.push(one(&rig, events, plugin).await?);
        }
        println!(
            "languages {name}: {:.0} µs a call with its request, {:.0} events/s (SQLite, concurrency {CONCURRENCY}, \
             median of {})",
            median(call_us),
            median(rates),
            common.runs
        );
    }
    for language in ["rust", "go", "c", "python", "js"].into_iter().filter(|language| wanted(language)) {
        no_ops(common, language, calls).await?;
    }
    Ok(())
}

async fn rig(common: &Common, destination: &str) -> Result<Rig> {
    Rig::new(common, Database::Sqlite, "poll", CONCURRENCY, destination).await
}

/// Without and with compiled code in the cache.
async fn load_times(common: &Common, destination: &str) -> Result<(Duration, Duration)> {
    let rig = rig(common, destination).await?;
    let began = Instant::now();
    rig.component().await?;
    let cold = began.elapsed();
    let began = Instant::now();
    rig.component().await?;
    Ok((cold, began.elapsed()))
}

/// What the second and further instances add, each held in a call.
async fn instance_mib(common: &Common, component: &Path) -> Result<f64> {
    let closed = Receiver::start(false)?;
    let rig = rig(common, &closed.destination_of(component)).await?;
    let plugin = rig.component().await?;
    let mut resident = Vec::new();
    for instances in [1, CONCURRENCY] {
        let calls = join_all((0..instances).map(|_| plugin.deliver(call())));
        let hold = async {
            closed.arrived.acquire_many(instances).await?.forget();
            let resident = resident_mib()?;
            closed.gate.add_permits(instances as usize);
            anyhow::Ok(resident)
        };
        let (outcomes, during) = tokio::join!(calls, hold);
        anyhow::ensure!(outcomes.iter().all(|outcome| outcome.is_success()), "{outcomes:?}");
        resident.push(during?);
    }
    Ok((resident[1] - resident[0]) / f64::from(CONCURRENCY - 1))
}

async fn one_call_us(plugin: &dyn Deliver, calls: u32) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..calls {
        let outcome = plugin.deliver(call()).await;
        if !outcome.is_success() {
            bail!("the call failed: {outcome:?}");
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}

/// A call that reads every field of its event and answers with them, without a request: the fixtures of the
/// contract, which do the same in each language.
async fn no_ops(common: &Common, language: &str, calls: u32) -> Result<()> {
    let Some(component) = fixture(common, language)? else {
        println!("languages {language}: its fixture of the contract is not built");
        return Ok(());
    };
    let rig = rig(common, &format!("component = \"{}\"\n", component.display())).await?;
    let plugin = rig.component().await.context(language.to_owned())?;
    let mut figures = Vec::new();
    for _ in 0..common.runs {
        figures.push(one_call_us(plugin.as_ref(), calls).await?);
    }
    println!("languages {language}: {:.1} µs a call without a request", median(figures));
    Ok(())
}

/// The latest one: committed as compiled, or built.
fn fixture(common: &Common, language: &str) -> Result<Option<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/contract");
    let mut versions = std::fs::read_dir(&folder)?.collect::<std::io::Result<Vec<_>>>()?;
    versions.sort_by_key(|version| version.file_name());
    let places = versions.iter().rev().flat_map(|version| {
        let name = version.file_name();
        let built = format!("contract-{}-{language}.wasm", name.to_string_lossy());
        [version.path().join(format!("{language}.wasm")), common.guests.join(built)]
    });
    Ok(places.into_iter().find(|place| place.is_file()))
}
