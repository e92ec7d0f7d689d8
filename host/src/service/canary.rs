//! The canary of a destination: loaded beside the stable plugin, told of in `status`, and counted for
//! `/metrics`.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::board::Running;
use super::config::file::Destination;
use super::inventory::Target;
use super::mapping::canary_spec;
use crate::plugin::{Canary, Deliver, LoadedPlugin, Numbers, Runtime, Unloaded};
use crate::relay::metrics::ByDestination;
use crate::store::{CanaryNote, VariantNote};

/// How old what `status` compares may be.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// What a destination has beside its stable plugin.
#[derive(Clone)]
pub struct Second {
    /// Stands in front of both.
    pub canary: Arc<Canary>,
    /// The canary's own plugin; none if it did not load.
    pub loaded: Option<Arc<LoadedPlugin>>,
    /// It did not load, and may later though nothing changes.
    pub may_load_later: bool,
}

/// Loads the canary, if the config names one. One that fails leaves everything to the stable plugin.
pub async fn beside(
    runtime: &Runtime,
    name: &str,
    destination: &Destination,
    stable: &Arc<LoadedPlugin>,
    before: Option<&Second>,
) -> Option<Second> {
    let given = destination.canary.as_ref()?;
    let found = runtime.load(canary_spec(name, destination)?).await;
    let may_load_later = found.as_ref().is_err_and(|error| error.problem.is_passing());
    let (plugin, loaded): (Arc<dyn Deliver>, _) = match found {
        Ok(loaded) => {
            tracing::info!(destination = name, digest = loaded.component_digest(), "the canary is loaded");
            (loaded.clone(), Some(loaded))
        }
        Err(error) => {
            let error = error.problem.to_string();
            // Told before; trying again is no news.
            if before.and_then(|before| before.canary.off()).as_deref() != Some(&error) {
                tracing::error!(
                    destination = name,
                    error,
                    "the canary can't run on this host; its share goes to the stable component"
                );
            }
            (Arc::new(Unloaded::because(error)), None)
        }
    };
    let mut canary = Canary::new(runtime, name, stable.clone(), plugin, given.share.0);
    if let Some(before) = before {
        canary = canary.continuing(&before.canary);
    }
    Some(Second { canary: Arc::new(canary), loaded, may_load_later })
}

/// What the relay hands deliveries to.
pub fn in_front(stable: &Arc<LoadedPlugin>, second: Option<&Second>) -> Arc<dyn Deliver> {
    match second {
        Some(second) => second.canary.clone(),
        None => stable.clone(),
    }
}

/// Tells the database every few seconds how the two compare, for ever.
pub async fn tell(running: Arc<Running>) {
    let mut had_one = false;
    loop {
        tokio::time::sleep(TELL_EVERY).await;
        let inventory = running.inventory.get();
        let has_one = inventory.targets.iter().any(|target| target.second.is_some());
        // Once more after the last one went: what was told may have been of before.
        if has_one || had_one {
            running.relay.tell(inventory.notes());
        }
        had_one = has_one;
    }
}

pub fn note(second: &Second) -> CanaryNote {
    let canary = &second.canary;
    let compared = canary.compared();
    let side = |numbers: &Numbers| VariantNote {
        outcomes: numbers.outcomes.iter().map(|(outcome, count)| ((*outcome).to_owned(), *count)).collect(),
        p50_micros: numbers.quantile(0.5).map(micros),
        p99_micros: numbers.quantile(0.99).map(micros),
    };
    CanaryNote {
        component_digest: canary.canary_digest().to_owned(),
        share: canary.share().to_string(),
        off: canary.off(),
        handed_over: compared.handed_over,
        stable: side(&compared.stable),
        canary: side(&compared.canary),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVariant {
    destination: String,
    variant: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVariantAndOutcome {
    destination: String,
    variant: &'static str,
    outcome: &'static str,
}

/// Both components of each destination that has a canary.
pub fn encode(targets: &[Target], encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let found: Vec<_> = targets
        .iter()
        .filter_map(|target| {
            let canary = &target.second.as_ref()?.canary;
            Some((target.name.clone(), canary.compared(), canary.off().is_some()))
        })
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let sides = || {
        found.iter().flat_map(|(name, compared, _)| {
            [(name, "stable", &compared.stable), (name, "canary", &compared.canary)]
        })
    };
    let help = "Events by what the stable component and the canary made of them";
    let mut family = encoder.encode_descriptor("variant_outcomes", help, None, MetricType::Counter)?;
    for (destination, variant, numbers) in sides() {
        for (outcome, count) in &numbers.outcomes {
            let label = ByVariantAndOutcome { destination: destination.clone(), variant, outcome };
            ConstCounter::new(*count).encode(family.encode_family(&label)?)?;
        }
    }
    let help = "Time of a call to the stable component and to the canary";
    let mut family = encoder.encode_descriptor("variant_call_seconds", help, None, MetricType::Histogram)?;
    for (destination, variant, numbers) in sides() {
        let label = ByVariant { destination: destination.clone(), variant };
        Times(numbers).encode(family.encode_family(&label)?)?;
    }
    let by = |destination: &String| ByDestination { destination: destination.clone() };
    let help = "Events of the canary's share that the stable component decided while the canary was on";
    let mut family = encoder.encode_descriptor("canary_handed_over", help, None, MetricType::Counter)?;
    for (destination, compared, _) in &found {
        ConstCounter::new(compared.handed_over).encode(family.encode_family(&by(destination))?)?;
    }
    let help = "1 while the canary gets nothing because it failed to load, or says gone or misconfigured";
    let mut family = encoder.encode_descriptor("canary_off", help, None, MetricType::Gauge)?;
    for (destination, _, is_off) in &found {
        ConstGauge::new(i64::from(*is_off)).encode(family.encode_family(&by(destination))?)?;
    }
    Ok(())
}

struct Times<'n>(&'n Numbers);

impl EncodeMetric for Times<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Self(numbers) = self;
        encoder.encode_histogram::<NoLabelSet>(numbers.seconds, numbers.calls, &numbers.octaves(), None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
