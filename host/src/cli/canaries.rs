//! What `status` says of canaries: both components side by side, on each host.

use std::collections::BTreeMap;
use std::time::Duration;

use super::show::Table;
use super::time::short;
use crate::store::{CanaryNote, HostReport, VariantNote};

/// Hex digits of a digest in a table; `--json` has all of them.
const DIGEST_SHOWN: usize = 8;

/// A row for each component of each destination that has a canary.
pub fn table(hosts: &[HostReport]) -> Table {
    let mut table =
        Table::new(&["CANARY OF", "HOST", "VARIANT", "COMPONENT", "EVENTS", "P50", "P99", "OUTCOMES"]);
    for (destination, host, digest, note) in canaries(hosts) {
        let share = format!("canary {}", note.share);
        let mut row = |variant: &str, digest: &str, numbers: &VariantNote| {
            table.row([
                destination.to_owned(),
                host.to_owned(),
                variant.to_owned(),
                digest.get(..DIGEST_SHOWN).unwrap_or("none").to_owned(),
                numbers.outcomes.values().sum::<u64>().to_string(),
                time(numbers.p50_micros),
                time(numbers.p99_micros),
                outcomes(&numbers.outcomes),
            ]);
        };
        row("stable", digest, &note.stable);
        row(&share, &note.component_digest, &note.canary);
    }
    table
}

/// A line for each canary that is off, or whose answers were not taken as final.
pub fn lines(hosts: &[HostReport]) -> Vec<String> {
    let of_one = |(destination, host, _, note): (&str, &str, &str, &CanaryNote)| {
        let off = note.off.as_ref().map(|why| format!("canary: {destination} on {host} is off: {why}"));
        let handed_over = (note.handed_over > 0).then(|| {
            let count = note.handed_over;
            format!("canary: {destination} on {host}: the stable component decided {count} of its events")
        });
        off.into_iter().chain(handed_over)
    };
    canaries(hosts).flat_map(of_one).collect()
}

/// Destination, host, and the digest of the stable component.
fn canaries(hosts: &[HostReport]) -> impl Iterator<Item = (&str, &str, &str, &CanaryNote)> {
    hosts.iter().flat_map(|host| {
        host.notes.loaded.iter().filter_map(|loaded| {
            let note = loaded.canary.as_ref()?;
            Some((&*loaded.destination, &*host.host, &*loaded.component_digest, note))
        })
    })
}

fn outcomes(outcomes: &BTreeMap<String, u64>) -> String {
    outcomes.iter().map(|(outcome, count)| format!("{outcome} {count}")).collect::<Vec<_>>().join(", ")
}

fn time(micros: Option<u64>) -> String {
    match micros {
        None => String::new(),
        Some(micros) if micros < 1_000_000 => format!("{:.1}ms", micros as f64 / 1e3),
        Some(micros) => short(Duration::from_micros(micros)),
    }
}
