//! What tells two configs apart: across hosts, and before and after a change.

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::file::{ConfigFile, Destination};

/// Over destination names, topics, order and `renamed_from`: what routes are made of. Two hosts
/// with the same digest may differ in everything else.
pub fn of_routes(file: &ConfigFile) -> String {
    let destinations: Vec<Value> = file
        .destination
        .iter()
        .map(|(name, destination)| {
            let mut topics = destination.topics.clone();
            topics.sort();
            topics.dedup();
            json!([name, topics, destination.order, destination.on_dead, destination.renamed_from])
        })
        .collect();
    hash(&destinations)
}

/// Over everything of one destination, so that a mended setting revives a stopped lane.
pub fn of_destination(destination: &Destination) -> String {
    hash(destination)
}

fn hash(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).expect("the config is JSON");
    let mut hasher = Sha256::new();
    feed(&value, &mut hasher);
    hex(&hasher.finalize())
}

/// One text for one value: keys sorted, whatever order a map keeps.
fn feed(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            hasher.update(b"{");
            for key in keys {
                feed(&Value::String(key.clone()), hasher);
                feed(&map[key], hasher);
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            items.iter().for_each(|item| feed(item, hasher));
            hasher.update(b"]");
        }
        scalar => {
            hasher.update(scalar.to_string());
            hasher.update(b",");
        }
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
