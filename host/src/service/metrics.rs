//! `/metrics`: what the relay counts, what the plugins count, and the backlog as the database
//! sees it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::board::Running;
use super::plugins::Target;
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
    pub fn new(running: &Running, clock: SharedClock) -> Self {
        let mut registry = Registry::with_prefix("outhaul");
        running.relay.metrics().register(&mut registry);
        registry.register_collector(Box::new(PluginCounters(running.targets.clone())));
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

/// Reads each plugin's own counters at the scrape.
struct PluginCounters(Vec<Target>);

impl std::fmt::Debug for PluginCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PluginCounters of {} destinations", self.0.len())
    }
}

impl Collector for PluginCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let plugins: Vec<_> = self
            .0
            .iter()
            .filter_map(|target| Some((target.name.clone(), target.loaded.as_ref()?.stats().entries())))
            .collect();
        let Some((_, first)) = plugins.first() else { return Ok(()) };
        for (index, (counter, _)) in first.iter().enumerate() {
            let name = format!("plugin_{counter}");
            let help = format!("{} of the plugin", counter.replace('_', " "));
            let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
            for (destination, entries) in &plugins {
                let label = ByDestination { destination: destination.clone() };
                ConstCounter::new(entries[index].1).encode(family.encode_family(&label)?)?;
            }
        }
        denied(&self.0, &mut encoder)
    }
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
