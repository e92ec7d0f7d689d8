//! Events a second and the time of a call for each destination, beside the broker's own client for Rust (or, for
//! the ledger, beside its statements sent by `sqlx`) with the same messages and the same confirmation. Both sides
//! are called by the same relay, singly and in batches alike.

mod kafka;
mod ledger;
mod mqtt;
mod nats;
mod rabbitmq;
mod redis;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;
use outhaul::domain::{Detail, Outcome, Receipt};
use outhaul::plugin::{BatchLimits, Call, Deliver};
use sha2::{Digest, Sha256};

use crate::rig::{Database, Rig};
use crate::throughput::one;
use crate::{Common, median, percentile};

/// By the names of the plugins.
pub const NAMES: [&str; 6] = ["nats", "redis", "mqtt", "amqp", "kafka", "stock-ledger"];

const CONCURRENCY: u32 = 100;
/// Delivered before it counts: the first calls make the connections.
const WARM_UP_EVENTS: usize = 1_000;

/// A destination, and what delivers to it on either side.
#[async_trait]
trait Peer {
    /// Makes it as if nothing had been delivered, and returns the destination's TOML.
    async fn fresh(&self) -> Result<String>;

    /// What delivers to it without a component.
    async fn native(&self) -> Result<Arc<dyn Deliver>>;
}

pub async fn run(common: &Common, events: usize, only: &[String]) -> Result<()> {
    for name in NAMES.into_iter().filter(|name| only.is_empty() || only.iter().any(|it| it == name)) {
        let component = common.guests.join(name).with_extension("wasm");
        // Each with its server, which ends before the next starts.
        let peer: Box<dyn Peer> = match name {
            "nats" => Box::new(nats::Nats::start(component)),
            "redis" => Box::new(redis::Redis::start(component)),
            "mqtt" => Box::new(mqtt::Mqtt::start(component)),
            "amqp" => Box::new(rabbitmq::RabbitMq::start(component)),
            "kafka" => Box::new(kafka::Kafka::start(component).await?),
            _ => Box::new(ledger::Ledger::start(component, &common.postgres, events).await?),
        };
        compare(common, events, name, &*peer).await?;
    }
    Ok(())
}

#[derive(Default)]
struct Figures {
    rates: Vec<f64>,
    p99s_ms: Vec<f64>,
}

async fn compare(common: &Common, events: usize, name: &str, peer: &dyn Peer) -> Result<()> {
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    for _ in 0..common.runs {
        let rig = rig(common, peer).await?;
        let component = rig.component().await?;
        let batches = component.batch_limits();
        ours.measure(&rig, events, Timed::new(component, batches)).await?;
        let rig = self::rig(common, peer).await?;
        theirs.measure(&rig, events, Timed::new(peer.native().await?, batches)).await?;
    }
    let (rate, native_rate) = (median(ours.rates), median(theirs.rates));
    let (p99_ms, native_p99_ms) = (median(ours.p99s_ms), median(theirs.p99s_ms));
    println!(
        "destination {name} concurrency {CONCURRENCY}: component {rate:.0}/s, p99 of a call {p99_ms:.1} ms; native \
         client {native_rate:.0}/s, {native_p99_ms:.1} ms; ratio {:.2} (median of {}, {events} events)",
        rate / native_rate,
        common.runs
    );
    Ok(())
}

async fn rig(common: &Common, peer: &dyn Peer) -> Result<Rig> {
    Rig::new(common, Database::Sqlite, "notify", CONCURRENCY, &peer.fresh().await?).await
}

impl Figures {
    async fn measure(&mut self, rig: &Rig, events: usize, timed: Arc<Timed>) -> Result<()> {
        one(rig, WARM_UP_EVENTS, timed.clone()).await?;
        timed.forget();
        self.rates.push(one(rig, events, timed.clone()).await?);
        self.p99s_ms.push(timed.p99_ms());
        Ok(())
    }
}

/// Keeps how long the call took that an event was in.
struct Timed {
    inner: Arc<dyn Deliver>,
    batches: Option<BatchLimits>,
    calls_ms: Mutex<Vec<f64>>,
}

impl Timed {
    /// Takes batches as the component does, whoever delivers.
    fn new(inner: Arc<dyn Deliver>, batches: Option<BatchLimits>) -> Arc<Self> {
        Arc::new(Self { inner, batches, calls_ms: Mutex::default() })
    }

    fn keep(&self, took: Duration, events: usize) {
        let mut calls_ms = self.calls_ms.lock().unwrap_or_else(PoisonError::into_inner);
        calls_ms.extend(std::iter::repeat_n(took.as_secs_f64() * 1e3, events));
    }

    fn forget(&self) {
        self.calls_ms.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn p99_ms(&self) -> f64 {
        let mut calls_ms = self.calls_ms.lock().unwrap_or_else(PoisonError::into_inner).clone();
        calls_ms.sort_by(f64::total_cmp);
        percentile(&calls_ms, 0.99)
    }
}

#[async_trait]
impl Deliver for Timed {
    async fn deliver(&self, call: Call) -> Outcome {
        let began = Instant::now();
        let outcome = self.inner.deliver(call).await;
        self.keep(began.elapsed(), 1);
        outcome
    }

    fn batch_limits(&self) -> Option<BatchLimits> {
        self.batches
    }

    async fn deliver_batch(&self, calls: Vec<Call>) -> Vec<Outcome> {
        let (began, events) = (Instant::now(), calls.len());
        let outcomes = self.inner.deliver_batch(calls).await;
        self.keep(began.elapsed(), events);
        outcomes
    }

    fn component_digest(&self) -> &str {
        self.inner.component_digest()
    }

    fn unready(&self) -> Option<String> {
        self.inner.unready()
    }
}

/// What a broker's own client does for one event. A batch is as many of them at once.
#[async_trait]
trait Publish: Send + Sync + 'static {
    /// Returns once the broker has confirmed it.
    async fn publish(&self, call: &Call) -> Result<()>;
}

struct Native<P>(P);

#[async_trait]
impl<P: Publish> Deliver for Native<P> {
    async fn deliver(&self, call: Call) -> Outcome {
        outcome(self.0.publish(&call).await)
    }

    fn component_digest(&self) -> &str {
        ""
    }

    fn unready(&self) -> Option<String> {
        None
    }
}

fn outcome(result: Result<()>) -> Outcome {
    match result {
        Ok(()) => Outcome::Delivered(Receipt::default()),
        Err(error) => Outcome::Other(Detail::new("failed", format!("{error:#}"))),
    }
}

/// TOML of a destination at a broker.
fn at_broker(component: &Path, address: &str, settings: &str) -> String {
    format!(
        "component = \"{}\"\nsettings = {{ {settings} }}\n\
         [destination.bench.net.broker]\naddress = \"{address}\"\nprivate = true\n",
        component.display()
    )
}

/// What the broker plugins write beside every event that has neither key nor tenant, as those of the rig.
fn own_headers(call: &Call) -> [(&'static str, &str); 2] {
    [("Outhaul-Event-Id", &call.event.id), ("Outhaul-Topic", &call.event.topic)]
}

/// What tells a repeat from another event of the same ID, in Redis and in the ledger.
fn content_digest(call: &Call) -> String {
    let mut digest = Sha256::new();
    for part in [call.event.topic.as_bytes(), call.event.content_type.as_bytes(), &call.payload] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
