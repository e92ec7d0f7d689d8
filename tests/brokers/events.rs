//! Events of every kind that a broker must carry, and whether they arrived so.

use std::collections::{BTreeMap, BTreeSet};

use outhaul::service::stores::Stores;
use outhaul::store::NewEvent;
use outhaul_tests::clients::Got;

/// More than a batch may hold at once, so that batches are full.
const KEYS: usize = 150;
const MIB: usize = 1 << 20;

/// How many events go through a broker; `cargo xtask test --full` says 10,000.
pub fn budget() -> usize {
    outhaul_tests::budget::from_env("OUTHAUL_BROKER_EVENTS").map_or(300, |events| events as usize)
}

/// Numbered events of many keys; the first have payloads of every odd kind.
pub fn numbered(count: usize) -> Vec<NewEvent> {
    (0..count).map(event).collect()
}

pub fn event(number: usize) -> NewEvent {
    NewEvent {
        id: format!("event-{number:06}"),
        topic: format!("order.{}", ["created", "paid", "shipped"][number % 3]),
        payload: payload(number),
        key: Some(format!("customer-{}", number % KEYS)),
        headers: vec![
            ("traceparent".to_owned(), format!("00-0af7651916cd43dd8448eb211c80319c-{number:016x}-01")),
            ("X-Shop".to_owned(), "north: a=b, \"c\"; 100%".to_owned()),
        ],
        content_type: Some("application/octet-stream".to_owned()),
        ..NewEvent::default()
    }
}

fn payload(number: usize) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1 => vec![b'x'],
        2 => (0..MIB).map(|at| (at * 31 % 251) as u8).collect(),
        3 => vec![0xff, 0xfe, 0x00, 0xc3, 0x28, b'\r', b'\n'],
        _ => format!("{{\"order\":{number}}}\r\n").into_bytes(),
    }
}

pub async fn emit(stores: &Stores, events: &[NewEvent]) {
    for some in events.chunks(1_000) {
        stores.operate.emit(some).await.expect("they are taken");
    }
}

/// Every event is there, with its topic, headers and exact payload. Returns how many were there again.
pub fn assert_all_there(events: &[NewEvent], got: &[Got]) -> usize {
    let mut times = BTreeMap::<&str, usize>::new();
    let by_id: BTreeMap<&str, &NewEvent> = events.iter().map(|event| (event.id.as_str(), event)).collect();
    for message in got {
        let id = message.id();
        *times.entry(id).or_default() += 1;
        let event = by_id.get(id).unwrap_or_else(|| panic!("{id} was never emitted"));
        assert_eq!(message.headers["Outhaul-Topic"], event.topic, "{id}");
        assert_eq!(message.headers.get("Outhaul-Key"), event.key.as_ref(), "{id}");
        for (name, value) in &event.headers {
            assert_eq!(message.headers.get(name), Some(value), "{id}: {name}");
        }
        assert!(message.payload() == event.payload, "{id}: another payload");
    }
    let missing: BTreeSet<&str> = by_id.keys().filter(|id| !times.contains_key(*id)).copied().collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    got.len() - times.len()
}

/// The first time each was there, the events of a key came in the order they were emitted in.
pub fn assert_keys_in_order(got: &[Got]) {
    let mut seen = BTreeSet::new();
    let mut last = BTreeMap::<&str, &str>::new();
    for message in got.iter().filter(|message| seen.insert(message.id())) {
        let key = message.headers["Outhaul-Key"].as_str();
        let before = last.insert(key, message.id());
        assert!(before < Some(message.id()), "{} came after {before:?}", message.id());
    }
}
