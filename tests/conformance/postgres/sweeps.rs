//! A part of the sweep that fails or hangs keeps no other from its work.

use outhaul::store::StoreError;
use outhaul_tests::postgres::run;
use sqlx::{PgConnection, Row};

use super::PostgresDatabase;
use crate::harness::{Database, Isolation};
use crate::scene::{Scene, event, ids};

async fn commit_without_routing(database: &PostgresDatabase, id: &str) {
    let mut producer = database.begin(Isolation::ReadCommitted).await;
    producer.insert_without_routing(&event(id)).await.expect("insert");
    producer.commit().await.expect("commit");
}

#[tokio::test]
async fn a_part_of_the_sweep_that_fails_is_told_and_stops_no_other_part() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    commit_without_routing(&database, "a").await;
    // Only the routing of unrouted events reads the generations.
    let mut admin = database.connection().await;
    run(&mut admin, "alter table outbox_generation rename to elsewhere").await;
    let failure = scene.store.sweep(&[scene.shop], 100).await.expect_err("a table is missing");
    assert!(matches!(&failure, StoreError::Schema(text) if text.contains("outbox_generation")), "{failure}");
    assert_eq!(ids(&scene.claim("host-a").await), ["a"]);

    run(&mut admin, "alter table elsewhere rename to outbox_generation").await;
    assert_eq!(scene.store.sweep(&[scene.shop], 100).await.expect("sweep"), Default::default());
}

const WAITS: &str = "select exists (
    select from pg_locks where not granted and relation = 'outbox_generation'::regclass)";

#[tokio::test]
async fn a_sweep_that_is_given_up_begins_behind_the_part_that_hung() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    commit_without_routing(&database, "a").await;
    let mut holder = database.connection().await;
    run(&mut holder, "begin; lock table outbox_generation in access exclusive mode").await;
    let lanes = [scene.shop];
    let mut observer = database.connection().await;
    tokio::select! {
        done = scene.store.sweep(&lanes, 100) => panic!("it was to hang: {done:?}"),
        () = until(&mut observer, WAITS) => {}
    }
    assert!(scene.claim("host-a").await.is_empty(), "the first part hung");
    tokio::select! {
        done = scene.store.sweep(&lanes, 100) => panic!("the same part hangs again: {done:?}"),
        () = until(&mut observer, "select exists (select from outbox_delivery)") => {}
    }
    assert_eq!(ids(&scene.claim("host-a").await), ["a"]);
    run(&mut holder, "rollback").await;
}

async fn until(observer: &mut PgConnection, question: &'static str) {
    loop {
        let row = sqlx::query(question).fetch_one(&mut *observer).await.expect("an answer");
        if row.get(0) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
