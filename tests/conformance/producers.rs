//! What a producer's transaction may count on (G1, G2), at every isolation level.

use outhaul::store::*;

use crate::harness::{Database, ISOLATIONS, Isolation};
use crate::scene::*;

pub async fn a_committed_event_is_delivered_at_every_isolation_level(db: &dyn Database) {
    let scene = Scene::open(db).await;
    for (n, isolation) in ISOLATIONS.into_iter().enumerate() {
        let mut producer = db.begin(isolation).await;
        producer.insert(&event(&format!("e{n}"))).await.expect("insert");
        producer.commit().await.expect("commit");
    }
    assert_eq!(scene.claim_ids("host-a").await, ["e0", "e1", "e2"]);
}

pub async fn a_rolled_back_event_never_appears(db: &dyn Database) {
    let scene = Scene::open(db).await;
    for (n, isolation) in ISOLATIONS.into_iter().enumerate() {
        let mut producer = db.begin(isolation).await;
        producer.insert(&event(&format!("gone{n}"))).await.expect("insert");
        producer.rollback().await;
    }
    let mut dropped = db.begin(Isolation::ReadCommitted).await;
    dropped.insert(&event("dropped")).await.expect("insert");
    drop(dropped);
    scene.insert_ids(&["e1"]).await;
    scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    assert_eq!(scene.claim_ids("host-a").await, ["e1"]);
    for id in ["gone0", "gone1", "gone2", "dropped"] {
        assert!(scene.store.show("", id).await.expect("show").is_none(), "{id}");
    }
    // The ID is free again.
    scene.insert_ids(&["gone0"]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["gone0"]);
}

pub async fn s11_a_lower_sequence_number_that_commits_later_is_delivered(db: &dyn Database) {
    let scene = Scene::open(db).await;
    for isolation in ISOLATIONS {
        let (low, high) = (format!("low-{isolation:?}"), format!("high-{isolation:?}"));
        let mut slow = db.begin(isolation).await;
        slow.insert(&event(&low)).await.expect("insert");
        let mut quick = db.begin(isolation).await;
        quick.insert(&event(&high)).await.expect("insert");
        quick.commit().await.expect("commit");
        let claimed = scene.claim_one("host-a").await;
        assert_eq!(claimed.event.id, high);
        scene.deliver(&claimed).await;
        scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
        assert!(scene.claim("host-a").await.is_empty(), "the other has not committed");
        slow.commit().await.expect("commit");
        let late = scene.claim_one("host-a").await;
        assert_eq!(late.event.id, low);
        assert!(late.event.seq < claimed.event.seq);
        scene.deliver(&late).await;
    }
}

pub async fn s11_an_event_of_a_key_that_commits_late_waits_for_the_leased_one(db: &dyn Database) {
    let scene = Scene::ordered(db, Order::Key(OnDead::Block)).await;
    let mut slow = db.begin(Isolation::ReadCommitted).await;
    slow.insert(&keyed("low", "a")).await.expect("insert");
    scene.insert(&[keyed("high", "a"), keyed("next", "a")]).await;
    let high = scene.claim_all("host-a").await;
    assert_eq!(ids(&high), ["high"], "nothing earlier is visible");
    slow.commit().await.expect("commit");
    assert!(scene.claim_ids("host-b").await.is_empty(), "one of a key at a time");
    scene.deliver(&high[0]).await;
    let low = scene.claim_all("host-b").await;
    assert_eq!(ids(&low), ["low"]);
    scene.deliver(&low[0]).await;
    assert_eq!(scene.claim_ids("host-b").await, ["next"]);
}

pub async fn an_orphan_that_commits_late_is_adopted(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let mut slow = db.begin(Isolation::ReadCommitted).await;
    slow.insert_without_routing(&event("low")).await.expect("insert");
    // Nothing is routed while another transaction has the trigger switched off only for itself.
    slow.commit().await.expect("commit");
    scene.insert_ids(&["high"]).await;
    let claimed = scene.claim_one("host-a").await;
    scene.deliver(&claimed).await;
    for _ in 0..3 {
        scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    }
    assert_eq!(scene.claim_ids("host-a").await, ["low"]);
}

pub async fn an_event_id_is_unique_within_its_tenant_byte_by_byte(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let of = |tenant: &str, id: &str| NewEvent { tenant: tenant.to_owned(), ..event(id) };
    let distinct = [of("", "a"), of("", "A"), of("", "a "), of("", "á"), of("acme", "a"), of("acme ", "a")];
    scene.insert(&distinct).await;
    for event in &distinct {
        let mut producer = db.begin(Isolation::ReadCommitted).await;
        let refused = producer.insert(event).await;
        assert!(refused.is_err(), "{:?} was inserted twice", event.id);
        producer.rollback().await;
    }
    let claimed = scene.claim_all("host-a").await;
    assert_eq!(ids(&claimed), ["a", "A", "a ", "á", "a", "a"]);
}

pub async fn texts_are_measured_in_bytes_and_a_long_one_is_refused_whole(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let long = "é".repeat(127) + "x";
    assert_eq!(long.len(), 255);
    let fits = NewEvent {
        tenant: long.clone(),
        id: long.clone(),
        topic: format!("order.{}", "x".repeat(249)),
        key: Some(long.clone()),
        ..event("")
    };
    scene.insert(&[fits]).await;
    let over = "é".repeat(128);
    let with = |field: &str, text: &str| {
        let mut event = event("e1");
        let text = text.to_owned();
        match field {
            "tenant_id" => event.tenant = text,
            "event_id" => event.id = text,
            "topic" => event.topic = text,
            _ => event.key = Some(text),
        }
        event
    };
    let mut refused = vec![("event_id", ""), ("topic", ""), ("partition_key", ""), ("topic", "or der")];
    refused.extend(["tenant_id", "event_id", "topic", "partition_key"].map(|field| (field, over.as_str())));
    for (field, text) in refused {
        let mut producer = db.begin(Isolation::ReadCommitted).await;
        let error = producer.insert(&with(field, text)).await.expect_err("it is refused");
        assert!(error.contains(field), "{field}: {error}");
        producer.rollback().await;
        let emitted = scene.store.emit(&[event("other"), with(field, text)]).await;
        let Err(StoreError::Refused(error)) = emitted else { panic!("{field}: {emitted:?}") };
        assert!(error.contains(field), "{field}: {error}");
    }
    assert_eq!(scene.claim_ids("host-a").await, [long], "nothing else was written");
}

pub async fn emitting_tells_which_events_are_new_and_leaves_the_others_alone(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let other = NewEvent { payload: b"other".to_vec(), ..event("e1") };
    let headers = vec![("z".to_owned(), "1".to_owned()), ("a\"b".to_owned(), "ü\n".to_owned())];
    let new = NewEvent { headers: headers.clone(), available_at: Some(at(105)), ..event("e2") };
    let emitted = scene.store.emit(&[other, new.clone(), new]).await.expect("emit");
    assert_eq!(emitted[0], Emitted::Existed);
    assert!(matches!(emitted[1], Emitted::Inserted(_)));
    assert_eq!(emitted[2], Emitted::Existed);
    scene.at(105).await;
    let claimed = scene.claim_all("host-a").await;
    assert_eq!(ids(&claimed), ["e1", "e2"]);
    let mut kept = claimed[1].event.headers.clone();
    kept.sort();
    let mut expected = headers;
    expected.sort();
    assert_eq!(kept, expected);
    let payload = scene.store.payload(claimed[0].event.seq).await.expect("payload").expect("there is one");
    assert_eq!(payload.to_vec(), br#"{"n":1}"#);
}

pub async fn a_wait_is_woken_by_a_commit_of_this_process(db: &dyn Database) {
    let scene = Scene::open(db).await;
    for n in 0..3 {
        // Armed before the commit, polled after it.
        let wake = scene.store.wait_for_wake();
        scene.store.emit(&[event(&format!("e{n}"))]).await.expect("emit");
        wake.await;
    }
}
