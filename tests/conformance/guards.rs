//! What the table itself refuses, whoever writes SQL to it.

use outhaul::store::*;

use crate::harness::SqlDatabase;
use crate::scene::*;

async fn refused(db: &dyn SqlDatabase, sql: &str) -> String {
    match db.execute(sql).await {
        Ok(rows) => panic!("{sql} changed {rows} rows"),
        Err(error) => error,
    }
}

pub async fn an_event_is_never_updated(db: &dyn SqlDatabase) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let before = format!("{:?}", scene.report("e1").await);
    for set in ["topic = 'order.other'", "event_id = 'e2'", "available_at = available_at"] {
        let error = refused(db, &format!("UPDATE outbox_event SET {set}")).await;
        assert!(error.contains("never changed"), "{error}");
    }
    // A database may have a refusal of its own for a number that it draws itself.
    refused(db, "UPDATE outbox_event SET seq = seq + 1").await;
    assert_eq!(format!("{:?}", scene.report("e1").await), before);
}

pub async fn an_event_is_deleted_only_when_all_its_deliveries_are_finished(db: &dyn SqlDatabase) {
    let scene = Scene::open(db).await;
    let both = vec![destination(SHOP, &["order.*"]), destination("audit", &["order.*"])];
    let registered = scene.store.register(&registration("host-a", "c2", both)).await.expect("register");
    let audit = registered.destinations[1].1.expect("an id");
    scene.insert_ids(&["e1"]).await;
    let delete = "DELETE FROM outbox_event WHERE event_id = 'e1'";
    let error = refused(db, delete).await;
    assert!(error.contains("refused") && error.contains("finished"), "{error}");
    let here = scene.claim_one("host-a").await;
    scene.deliver(&here).await;
    refused(db, delete).await;
    let request = ClaimRequest { destination: audit, ..scene.request("host-a") };
    let there = scene.claims(&request).await.claimed.remove(0);
    refused(db, delete).await;
    scene.reject(&there).await;
    let error = refused(db, delete).await;
    assert!(error.contains("finished"), "a dead letter is not finished: {error}");
    assert_eq!(scene.store.discard(&target("e1"), 10, "ann").await.expect("discard"), 1);
    assert_eq!(db.execute(delete).await, Ok(1));
    assert!(scene.store.show("", "e1").await.expect("show").is_none());
    // A late result of what is gone changes nothing and fails nothing.
    let late = scene.acknowledge(&here, outhaul::domain::Write::Delivered).await;
    assert_eq!(late, Settled::Fenced);
    // The ID is free, and its new event has deliveries of its own.
    scene.insert_ids(&["e1"]).await;
    assert_eq!(scene.row("e1").await.fence, 0);
}

pub async fn an_event_that_was_never_routed_is_not_deleted(db: &dyn SqlDatabase) {
    let scene = Scene::open(db).await;
    let mut producer = db.begin(crate::harness::Isolation::ReadCommitted).await;
    producer.insert_without_routing(&event("e1")).await.expect("insert");
    producer.insert(&NewEvent { topic: "bill.paid".to_owned(), ..event("e2") }).await.expect("insert");
    producer.commit().await.expect("commit");
    for id in ["e1", "e2"] {
        refused(db, &format!("DELETE FROM outbox_event WHERE event_id = '{id}'")).await;
    }
    refused(db, "DELETE FROM outbox_event").await;
    assert_eq!(scene.store.sweep(&[scene.shop], 100).await.expect("sweep").adopted, 1);
}

pub async fn the_producers_whole_contract_is_three_columns(db: &dyn SqlDatabase) {
    let scene = Scene::open(db).await;
    let payload = db.bytes_literal(r#"{"a":"\u00e9"}"#);
    let insert = format!(
        "INSERT INTO outbox_event (event_id, topic, payload) VALUES ('e1', 'order.created', {payload})"
    );
    assert_eq!(db.execute(&insert).await, Ok(1));
    let report = scene.report("e1").await;
    assert_eq!((report.tenant.as_str(), report.key), ("", None));
    assert_eq!((report.content_type.as_str(), report.headers.len()), ("application/json", 0));
    assert_eq!((report.available_at, report.expires_at), (None, None));
    assert_eq!(report.deliveries.len(), 1);
}

pub async fn headers_are_an_object_of_strings(db: &dyn SqlDatabase) {
    let scene = Scene::open(db).await;
    let payload = db.bytes_literal("x");
    let insert = |id: &str, headers: &str| {
        format!(
            "INSERT INTO outbox_event (event_id, topic, payload, headers)
             VALUES ('{id}', 'order.created', {payload}, '{headers}')"
        )
    };
    for headers in [r#"{"a": 1}"#, r#"{"a": null}"#, r#"{"a": {"b": "c"}}"#, r#"["a"]"#, r#""a""#, "{"] {
        refused(db, &insert("bad", headers)).await;
    }
    assert_eq!(db.execute(&insert("e1", r#"{"a": "1", "b": ""}"#)).await, Ok(1));
    let expected = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())];
    assert_eq!(scene.report("e1").await.headers, expected);
}
