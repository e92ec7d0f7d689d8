//! `/metrics`: what the relay counts, what the plugins count, and the backlog as the database
//! sees it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::board::Running;
use super::canary;
use super::inventory::{Inventory, Target};
use crate::clock::SharedClock;
use crate::relay::metrics::ByDestination;

pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The backlog is counted in the database, which a scrape every second must not burden.
const BACKLOG_EVERY: Duration = Duration::from_secs(10);

pub struct Exporter {
    registry: Registry,
    backlog: Backlog,
    clock: SharedClock,
    counted_at: Mutex<Option<Duration>>,
}

#[derive(Default)]
struct Backlog {
    pending: Family<ByDestination, Gauge>,
    dead: Family<ByDestination, Gauge>,
    oldest: Family<ByDestination, Gauge>,
}

impl Exporter {
    pub fn new(running: &Arc<Running>, clock: SharedClock) -> Self {
        let mut registry = Registry::with_prefix("outhaul");
        running.relay.metrics().register(&mut registry);
        running.reloads.register(&mut registry);
        registry.register_collector(Box::new(OfPlugins(running.clone())));
        let backlog = Backlog::default();
        registry.register(
            "pending",
            "Deliveries pending in the database, counted up to a bound",
            backlog.pending.clone(),
        );
        registry.register(
            "dead_letters",
            "Dead letters in the database, counted up to a bound",
            backlog.dead.clone(),
        );
        registry.register(
            "oldest_pending_age_seconds",
            "Age of the oldest event that is pending for a destination",
            backlog.oldest.clone(),
        );
        Self { registry, backlog, clock, counted_at: Mutex::default() }
    }

    pub async fn text(&self, running: &Running) -> Result<String, std::fmt::Error> {
        if self.backlog_is_stale() {
            self.count_backlog(running).await;
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn backlog_is_stale(&self) -> bool {
        let now = self.clock.since_boot();
        let mut counted_at = self.counted_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stale = counted_at.is_none_or(|at| now.saturating_sub(at) >= BACKLOG_EVERY);
        if is_stale {
            *counted_at = Some(now);
        }
        is_stale
    }

    /// A database that does not answer leaves the last count; the relay's own metrics tell of it.
    async fn count_backlog(&self, running: &Running) {
        let count = running.stores.operate.lane_reports();
        let Ok(Ok(lanes)) = tokio::time::timeout(Duration::from_secs(3), count).await else { return };
        // A lane that was renamed is not counted twice.
        for family in [&self.backlog.pending, &self.backlog.dead, &self.backlog.oldest] {
            family.clear();
        }
        let gauge = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for lane in lanes {
            let label = ByDestination { destination: lane.destination };
            let age = lane.oldest_pending.map_or(Duration::ZERO, |at| lane.now.since(at));
            self.backlog.pending.get_or_create(&label).set(gauge(lane.pending));
            self.backlog.dead.get_or_create(&label).set(gauge(lane.dead));
            self.backlog.oldest.get_or_create(&label).set(gauge(age.as_secs()));
        }
    }
}

/// The label of a config that can't be used, beside those of destinations.
pub const THE_CONFIG: &str = "(config)";

/// Reloads that changed nothing where they should have.
#[derive(Debug, Default)]
pub struct Reloads {
    failures: Family<ByDestination, Counter>,
}

impl Reloads {
    pub fn failed(&self, destination: &str) {
        self.failures.get_or_create(&by(destination)).inc();
    }

    fn register(&self, registry: &mut Registry) {
        let help = "Candidates that were refused, and configs that could not be used";
        registry.register("reload_failures", help, self.failures.clone());
    }
}

fn by(destination: &str) -> ByDestination {
    ByDestination { destination: destination.to_owned() }
}

/// Reads at the scrape what stands behind each destination, and each plugin's own counters.
struct OfPlugins(Arc<Running>);

impl std::fmt::Debug for OfPlugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OfPlugins")
    }
}

impl Collector for OfPlugins {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let inventory = self.0.inventory.get();
        generations(&inventory, &mut encoder)?;
        counters(&inventory.targets, &mut encoder)?;
        denied(&inventory.targets, &mut encoder)?;
        canary::encode(&inventory.targets, &mut encoder)
    }
}

fn generations(inventory: &Inventory, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let help = "Which generation of its plugin a destination runs; 0 if none has loaded";
    let mut family = encoder.encode_descriptor("generation", help, None, MetricType::Gauge)?;
    for target in &inventory.targets {
        let generation = i64::try_from(target.generation).unwrap_or(i64::MAX);
        ConstGauge::new(generation).encode(family.encode_family(&by(&target.name))?)?;
    }
    let help = "1 while the latest candidate, or the config on disk, can't be used";
    let mut family = encoder.encode_descriptor("reload_failing", help, None, MetricType::Gauge)?;
    let of_config = (THE_CONFIG, inventory.reload_error.is_some());
    let of_targets = inventory.targets.iter().map(|target| (&*target.name, target.reload_error.is_some()));
    for (name, is_failing) in of_targets.chain([of_config]) {
        ConstGauge::new(i64::from(is_failing)).encode(family.encode_family(&by(name))?)?;
    }
    Ok(())
}

fn counters(targets: &[Target], encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let plugins: Vec<_> = targets
        .iter()
        .filter_map(|target| Some((&target.name, target.loaded.as_ref()?.stats().entries())))
        .collect();
    let Some((_, first)) = plugins.first() else { return Ok(()) };
    for (index, (counter, _)) in first.iter().enumerate() {
        let name = format!("plugin_{counter}");
        let help = format!("{} of the plugin", counter.replace('_', " "));
        let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
        for (destination, entries) in &plugins {
            ConstCounter::new(entries[index].1).encode(family.encode_family(&by(destination))?)?;
        }
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCapability {
    destination: String,
    capability: &'static str,
}

/// What plugins asked for and were not granted.
fn denied(targets: &[Target], encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let help = "What plugins asked for and are not granted; the log says what would grant it";
    let mut family = encoder.encode_descriptor("denied", help, None, MetricType::Counter)?;
    for target in targets {
        for (capability, count) in target.loaded.iter().flat_map(|loaded| loaded.denied()) {
            let label = ByCapability { destination: target.name.clone(), capability };
            ConstCounter::new(count).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}

pub type SharedExporter = Arc<Exporter>;
