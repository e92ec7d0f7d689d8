//! What makes two events the same: topic, key, content type and payload.

use outhaul_plugin::Event;
use sha2::{Digest, Sha256};

/// Hex SHA-256. Each part has its length in front, and a missing key is another than an empty one.
pub fn content_hash(event: &Event) -> String {
    let mut hasher = Sha256::new();
    let key = event.key.as_ref().map(|key| [b"k", key.as_bytes()].concat()).unwrap_or_default();
    for part in [event.topic.as_bytes(), &key, event.content_type.as_bytes(), &event.payload] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn event() -> Event {
        Event {
            id: "e".into(),
            dedup_id: "e".into(),
            destination: "d".into(),
            topic: "t".into(),
            key: Some("k".into()),
            tenant: String::new(),
            headers: Vec::new(),
            content_type: "application/json".into(),
            payload: b"{}".to_vec(),
            created_at: 0,
            sequence: 1,
            attempt: 1,
            last_attempt: false,
            uncertain_before: false,
            fence: 1,
            budget_ms: 1_000,
            attributes: Vec::new(),
        }
    }

    #[test]
    fn the_hash_sees_topic_key_content_type_and_payload_and_nothing_else() {
        let first = content_hash(&event());
        assert_eq!(first.len(), 64);
        let same = Event { attempt: 7, fence: 9, created_at: 5, sequence: 3, ..event() };
        assert_eq!(content_hash(&same), first);
        for other in [
            Event { topic: "u".into(), ..event() },
            Event { key: None, ..event() },
            Event { key: Some(String::new()), ..event() },
            Event { content_type: "text/plain".into(), ..event() },
            Event { payload: b"{ }".to_vec(), ..event() },
            // The same bytes, divided elsewhere.
            Event { topic: "tk".into(), key: Some(String::new()), ..event() },
        ] {
            assert_ne!(content_hash(&other), first, "{other:?}");
        }
        let (none, empty) = (Event { key: None, ..event() }, Event { key: Some(String::new()), ..event() });
        assert_ne!(content_hash(&none), content_hash(&empty));
    }
}
