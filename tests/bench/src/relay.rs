//! Events per second through the relay, and how long an idle relay takes from commit to plugin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use clap::Args;
use outhaul::clock::SystemClock;
use outhaul::domain::{DestinationId, Outcome, Receipt, RetryPolicy};
use outhaul::plugin::{Call, Deliver};
use outhaul::relay::metrics::ByDestination;
use outhaul::relay::{Lane, LaneSettings, Relay, RelayHandle, RelaySettings};
use outhaul::store::memory::MemoryStore;
use outhaul::store::postgres::{PostgresOptions, PostgresStore};
use outhaul::store::sqlite::{SqliteOptions, SqliteStore};
use outhaul::store::{
    DestinationConfig, Emitted, HostRegistration, NewEvent, Operate, Order, Schema, SharedStore, Takeover,
};
use tokio::sync::Notify;

#[derive(Args)]
pub struct Options {
    /// `sqlite:FILE`, `postgres://…` (a database of its own) or `memory`
    #[arg(long, default_value = "memory")]
    url: String,
    #[arg(long, default_value_t = 20_000)]
    events: usize,
    #[arg(long, default_value_t = 100)]
    concurrency: u32,
    #[arg(long, default_value_t = 100)]
    batch: u32,
    /// Single commits to an idle relay
    #[arg(long, default_value_t = 200)]
    singles: usize,
}

const NAME: &str = "bench";

/// Does nothing, and counts.
struct Nothing {
    calls: AtomicU64,
    called: Notify,
}

#[async_trait]
impl Deliver for Nothing {
    async fn deliver(&self, _: Call) -> Outcome {
        self.calls.fetch_add(1, Relaxed);
        self.called.notify_waiters();
        Outcome::Delivered(Receipt::default())
    }

    fn component_digest(&self) -> &str {
        "none"
    }

    fn unready(&self) -> Option<String> {
        None
    }
}

struct Database {
    store: SharedStore,
    operate: Arc<dyn Operate>,
}

async fn open(url: &str) -> Result<Database> {
    if url == "memory" {
        return database(Arc::new(MemoryStore::new(Arc::new(SystemClock)))).await;
    }
    if url.starts_with("postgres") {
        return database(Arc::new(PostgresStore::connect(&PostgresOptions::new(url)).await?)).await;
    }
    database(Arc::new(SqliteStore::connect(&SqliteOptions::new(url)).await?)).await
}

async fn database<S: outhaul::store::Store + Operate + Schema>(store: Arc<S>) -> Result<Database> {
    store.migrate().await?;
    println!("{}", store.server_version().await?);
    Ok(Database { store: store.clone(), operate: store })
}

pub async fn run(options: Options) -> Result<()> {
    let database = open(&options.url).await?;
    let destination = register(&database.store).await?;
    let plugin = Arc::new(Nothing { calls: AtomicU64::new(0), called: Notify::new() });

    emit(&database, options.events).await?;
    let started = Instant::now();
    let relay = start(&database.store, destination, plugin.clone(), &options);
    until_delivered(&relay, options.events as u64).await;
    let took = started.elapsed();
    println!(
        "{} events in {took:.2?}: {:.0} events/s (concurrency {}, batch {})",
        options.events,
        options.events as f64 / took.as_secs_f64(),
        options.concurrency,
        options.batch,
    );

    let mut waits = Vec::new();
    for _ in 0..options.singles {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let called = plugin.called.notified();
        emit(&database, 1).await?;
        let committed = Instant::now();
        called.await;
        waits.push(committed.elapsed());
    }
    waits.sort();
    if let (Some(half), Some(most)) = (waits.get(waits.len() / 2), waits.get(waits.len() * 99 / 100)) {
        println!("commit to plugin, idle: p50 {half:.2?}, p99 {most:.2?} of {}", waits.len());
    }
    relay.drain().await;
    Ok(())
}

async fn register(store: &SharedStore) -> Result<DestinationId> {
    let destination = DestinationConfig {
        name: NAME.to_owned(),
        renamed_from: None,
        topics: vec!["*".to_owned()],
        order: Order::None,
        digest: "bench".to_owned(),
    };
    let host = HostRegistration {
        host_id: NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config_digest: "bench".to_owned(),
        destinations: vec![destination],
        takeover: Takeover::UnlessCurrent,
    };
    let registered = store.register(&host).await?;
    registered.destinations.first().and_then(|(_, id)| *id).context("the destination got no id")
}

async fn emit(database: &Database, count: usize) -> Result<()> {
    for chunk in (0..count).collect::<Vec<_>>().chunks(1_000) {
        let events = chunk.iter().map(|_| NewEvent {
            id: uuid(),
            topic: "bench.event".to_owned(),
            payload: vec![b'x'; 195],
            ..NewEvent::default()
        });
        let emitted = database.operate.emit(&events.collect::<Vec<_>>()).await?;
        if emitted.contains(&Emitted::Existed) {
            bail!("an event existed already; use a new database");
        }
    }
    Ok(())
}

fn uuid() -> String {
    let token = outhaul::clock::Clock::token(&SystemClock);
    token.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn start(store: &SharedStore, id: DestinationId, plugin: Arc<dyn Deliver>, options: &Options) -> RelayHandle {
    let settings = LaneSettings {
        name: NAME.to_owned(),
        concurrency: options.concurrency,
        batch: options.batch,
        lease: Duration::from_secs(30),
        margin: Duration::from_secs(2),
        renew: true,
        order: Order::None,
        retry: RetryPolicy::default(),
        call_budget: Duration::from_secs(10),
        payload_bytes_max: 1 << 20,
        stop_after_rejections: 0,
    };
    let lanes = vec![Lane { id, settings, plugin }];
    Relay::start(store.clone(), Arc::new(SystemClock), RelaySettings::new(NAME), lanes)
}

async fn until_delivered(relay: &RelayHandle, count: u64) {
    let labels = ByDestination { destination: NAME.to_owned() };
    loop {
        let claimed = relay.metrics().claimed.get_or_create(&labels).get();
        if claimed >= count && relay.status().in_flight == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
