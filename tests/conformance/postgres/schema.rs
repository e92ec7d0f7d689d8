//! Installing, upgrading, and where the tables are.

use outhaul::store::postgres::{PostgresOptions, PostgresStore};
use outhaul::store::{Schema, Store, StoreError};
use outhaul_tests::postgres::{TestDatabase, run};
use sqlx::Row;

use super::PostgresDatabase;
use crate::harness::{Database, Isolation};
use crate::scene::{Scene, answer, destination, event, registration};

fn open(database: &TestDatabase) -> PostgresStore {
    PostgresStore::open(&PostgresOptions::new(database.url())).expect("open")
}

#[tokio::test]
async fn hosts_that_start_together_migrate_once() {
    let database = TestDatabase::create().await;
    let stores: Vec<_> = (0..4).map(|_| open(&database)).collect();
    let applied = futures_util::future::join_all(stores.iter().map(|store| store.migrate())).await;
    let applied: Vec<String> = applied.into_iter().flat_map(|names| names.expect("migrate")).collect();
    assert_eq!(applied, ["0001_outbox"]);
    assert_eq!(stores[0].status().await.expect("status").installed, Some(1));
}

#[tokio::test]
async fn a_status_shows_what_would_be_applied_and_applies_nothing() {
    let database = TestDatabase::create().await;
    let store = open(&database);
    for _ in 0..2 {
        let status = store.status().await.expect("status");
        assert_eq!((status.installed, status.newest_known), (None, 1));
        assert_eq!(status.pending.len(), 1);
        assert_eq!(status.pending[0].0, "0001_outbox");
        assert!(
            status.pending[0].1.contains("create table \"public\".outbox_event"),
            "{}",
            status.pending[0].1
        );
    }
    store.migrate().await.expect("migrate");
    let status = store.status().await.expect("status");
    assert_eq!((status.installed, status.pending.len()), (Some(1), 0));
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let database = PostgresDatabase::open().await;
    run(
        &mut database.connection().await,
        "insert into outbox_migration (version, name) values (99, '0099_later')",
    )
    .await;
    let store = database.postgres();
    for refused in [store.migrate().await.map(|_| ()), store.status().await.map(|_| ())] {
        let Err(StoreError::Schema(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains("version 99") && text.contains("up to 1"), "{text}");
    }
}

#[tokio::test]
async fn a_database_without_the_tables_names_the_command_that_makes_them() {
    let database = TestDatabase::create().await;
    let missing = open(&database).lanes(&[]).await.expect_err("no tables");
    assert!(matches!(&missing, StoreError::Schema(text) if text.contains("outhaul migrate")), "{missing}");
}

#[tokio::test]
async fn a_database_of_another_encoding_is_refused_with_the_fix() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let options = format!("encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'");
        let database = TestDatabase::create_with(&options).await;
        let refused = PostgresStore::connect(&PostgresOptions::new(database.url())).await.map(|_| ());
        let Err(StoreError::Refused(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains(encoding) && text.contains("needs UTF8"), "{text}");
        assert!(text.contains("encoding 'UTF8' template template0"), "{text}");
    }
    let database = TestDatabase::create_with("encoding 'UTF8' template template0").await;
    PostgresStore::connect(&PostgresOptions::new(database.url())).await.expect("connect");
}

#[tokio::test]
async fn s17_migrating_waits_for_no_producer_and_no_producer_waits_for_it() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    let mut open_producer = database.begin(Isolation::ReadCommitted).await;
    open_producer.insert(&event("a")).await.expect("insert");
    // A host of the same version that starts meanwhile has nothing to do and takes no lock for it.
    assert_eq!(open_store_and_migrate(&database).await, Vec::<String>::new());
    open_producer.insert(&event("b")).await.expect("insert");
    open_producer.commit().await.expect("commit");
    assert_eq!(scene.claim_ids("host-a").await, ["a", "b"]);
}

async fn open_store_and_migrate(database: &PostgresDatabase) -> Vec<String> {
    open(database.database()).migrate().await.expect("migrate")
}

#[tokio::test]
async fn the_tables_may_stand_in_a_schema_of_any_name() {
    let database = TestDatabase::create().await;
    let schema = Some("Out\"box".to_owned());
    let store = PostgresStore::open(&PostgresOptions { schema, ..PostgresOptions::new(database.url()) })
        .expect("open");
    store.migrate().await.expect("migrate");
    let registered = store
        .register(&registration("host-a", "c1", vec![destination("shop", &["order.*"])]))
        .await
        .expect("register");
    let shop = registered.destinations[0].1.expect("an id");

    let mut producer = database.connection().await;
    run(
        &mut producer,
        r#"insert into "Out""box".outbox_event (event_id, topic, payload) values ('a', 'order.created', '\x7b7d')"#,
    )
    .await;
    let claimed = store.claim(&super::request(shop)).await.expect("claim").claimed;
    assert_eq!(claimed.len(), 1);
    let answer = answer(&claimed[0], outhaul::domain::Write::Delivered);
    store.acknowledge(&[answer]).await.expect("acknowledge");

    let row = sqlx::query("select count(*) from pg_class where relname like 'outbox%' and relnamespace = 'public'::regnamespace")
        .fetch_one(&mut producer)
        .await
        .expect("count");
    assert_eq!(row.get::<i64, _>(0), 0, "nothing is left in another schema");
}
