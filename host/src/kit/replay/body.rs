//! Where two bodies differ: by JSON Pointer if both are JSON, else by the first byte.

use serde_json::Value;

use crate::plugin::offline::Sent;

/// Places told of one body.
const PLACES_MAX: usize = 5;

/// Each with its place (a JSON Pointer, or nothing), and what stands there in each.
pub fn differences(old: &Sent, new: &Sent) -> Vec<(String, String, String)> {
    if (old.body_bytes, &old.body_sha256) == (new.body_bytes, &new.body_sha256) {
        return Vec::new();
    }
    let mut places = Vec::new();
    if let Some((before, after)) = json(old).zip(json(new)) {
        compare(&before, &after, String::new(), &mut places);
        if places.is_empty() {
            let told = |sent: &Sent| format!("{} bytes", sent.body_bytes);
            return vec![("the same JSON, written differently".into(), told(old), told(new))];
        }
        return places;
    }
    let common = old.body.iter().zip(&new.body).take_while(|(a, b)| a == b).count();
    let told = |sent: &Sent| format!("{} bytes, sha256 {}", sent.body_bytes, &sent.body_sha256[..12]);
    vec![(format!("from byte {common} on"), told(old), told(new))]
}

/// None if it is none, or was not kept whole.
fn json(sent: &Sent) -> Option<Value> {
    let is_whole = sent.body.len() as u64 == sent.body_bytes;
    is_whole.then(|| serde_json::from_slice(&sent.body).ok()).flatten()
}

fn compare(old: &Value, new: &Value, pointer: String, places: &mut Vec<(String, String, String)>) {
    if places.len() == PLACES_MAX || old == new {
        return;
    }
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (before.get(name), after.get(name)) {
                    (Some(old), Some(new)) => compare(old, new, pointer, places),
                    (old, new) => push(places, pointer, old, new),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                compare(old, new, format!("{pointer}/{index}"), places);
            }
        }
        _ => push(places, pointer, Some(old), Some(new)),
    }
}

fn push(
    places: &mut Vec<(String, String, String)>,
    pointer: String,
    old: Option<&Value>,
    new: Option<&Value>,
) {
    let told = |value: Option<&Value>| value.map_or("none".to_owned(), Value::to_string);
    if places.len() < PLACES_MAX {
        places.push((pointer, told(old), told(new)));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sha2::Digest;

    use super::*;

    fn sent(body: &[u8]) -> Sent {
        Sent {
            method: "POST".into(),
            url: "http://h/".into(),
            headers: Vec::new(),
            body: Bytes::copy_from_slice(body),
            body_bytes: body.len() as u64,
            body_sha256: sha2::Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    fn places(old: &[u8], new: &[u8]) -> Vec<String> {
        let line = |(place, old, new): (String, String, String)| format!("{place}: {old} → {new}");
        differences(&sent(old), &sent(new)).into_iter().map(line).collect()
    }

    #[test]
    fn json_differs_at_its_pointers() {
        let found = places(br#"{"a":{"b/c":1},"d":[1,2],"e":1}"#, br#"{"a":{"b/c":"1"},"d":[1,3]}"#);
        assert_eq!(found, ["/a/b~1c: 1 → \"1\"", "/d/1: 2 → 3", "/e: 1 → none"]);
        assert!(places(b"{\"a\":1}", b"{\"a\":1}").is_empty());
        assert_eq!(places(b"[1]", b"[1,2]"), [": [1] → [1,2]"]);
        let spaced = places(b"{\"a\":1}", b"{ \"a\": 1 }");
        assert_eq!(spaced, ["the same JSON, written differently: 7 bytes → 10 bytes"]);
    }

    #[test]
    fn other_bodies_differ_from_a_byte_on_and_so_do_large_ones_past_what_was_kept() {
        let found = places(b"\xffabc", b"\xffabd");
        assert!(found[0].starts_with("from byte 3 on: 4 bytes, sha256 "), "{found:?}");
        // Only the beginning was kept, and that is the same.
        let large = |hash: &str| Sent { body_bytes: 9, body_sha256: hash.repeat(64), ..sent(b"[1]") };
        let found = differences(&large("a"), &large("b"));
        assert_eq!((found.len(), found[0].0.as_str()), (1, "from byte 3 on"));
    }
}
