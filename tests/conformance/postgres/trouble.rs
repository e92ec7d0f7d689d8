//! A database that restarts, is slow, or is reached through few connections.

use std::sync::Arc;
use std::time::Duration;

use outhaul::domain::Write;
use outhaul::store::postgres::{PostgresOptions, PostgresStore};
use outhaul::store::{Settled, Store, StoreError};
use outhaul_tests::postgres::run;
use sqlx::Row;

use super::proxy::Proxy;
use super::{PostgresDatabase, options};
use crate::harness::AnyStore;
use crate::scene::{Scene, answer, event};

const END_OUR_SESSIONS: &str = "select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name = 'outhaul'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s41_two_hundred_deliveries_at_once_need_no_more_than_a_pool_of_four() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    let events: Vec<_> = (0..200).map(|n| event(&format!("e{n}"))).collect();
    scene.insert(&events).await;
    let mut deliveries = Vec::new();
    for _ in 0..200 {
        let (store, request) = (scene.store.clone(), scene.request("host-a"));
        deliveries.push(tokio::spawn(async move {
            let request = outhaul::store::ClaimRequest { limit: 1, ..request };
            let claimed = store.claim(&request).await.expect("claim").claimed;
            store.renew(&[claimed[0].claim], crate::scene::LEASE).await.expect("renew");
            store.acknowledge(&[answer(&claimed[0], Write::Delivered)]).await.expect("acknowledge")
        }));
    }
    for delivery in deliveries {
        assert_eq!(delivery.await.expect("no panic"), [Settled::Recorded]);
    }
    let row = sqlx::query(
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'outhaul'",
    )
    .fetch_one(&mut database.connection().await)
    .await
    .expect("count");
    assert!(row.get::<i64, _>(0) <= 4, "connections: {}", row.get::<i64, _>(0));
}

#[tokio::test]
async fn s42_ended_sessions_are_unavailable_for_a_moment_and_then_forgotten() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    scene.insert_ids(&["a"]).await;
    run(&mut database.connection().await, END_OUR_SESSIONS).await;
    recovers(&scene.store).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a"]);
}

#[tokio::test]
async fn s42_a_read_only_database_is_unavailable_until_it_is_not() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    scene.insert_ids(&["a"]).await;
    let mut admin = database.connection().await;
    read_only(&mut admin, "on").await;
    recovers(&scene.store).await;
    let refused = scene.store.claim(&scene.request("host-a")).await.expect_err("read-only");
    assert!(matches!(&refused, StoreError::Unavailable(text) if text.contains("25006")), "{refused}");
    read_only(&mut admin, "off").await;
    recovers(&scene.store).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a"]);
}

async fn read_only(admin: &mut sqlx::PgConnection, is: &str) {
    run(
        admin,
        format!(
            "set default_transaction_read_only = off;
             do $$ begin
                 execute format('alter database %I set default_transaction_read_only = {is}', current_database());
             end $$"
        ),
    )
    .await;
    run(admin, END_OUR_SESSIONS).await;
}

/// Each dead connection may fail one call, and no call fails with anything but `Unavailable`.
async fn recovers(store: &Arc<dyn AnyStore>) {
    for _ in 0..=4 {
        match store.now().await {
            Ok(_) => return,
            Err(StoreError::Unavailable(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the store did not recover");
}

#[tokio::test]
async fn s42_a_server_that_stops_answering_is_unavailable_and_what_it_did_meanwhile_stands() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    scene.insert_ids(&["a", "b"]).await;
    let proxy = Proxy::open(database.database().url()).await;
    let timeout = Duration::from_millis(300);
    let options = PostgresOptions { timeout, pool: 1, ..options(proxy.url()) };
    let postgres = Arc::new(PostgresStore::connect(&options).await.expect("connect"));
    let store: Arc<dyn AnyStore> = postgres.clone();
    let claimed = store.claim(&scene.request("host-a")).await.expect("claim").claimed;
    // Prepares the statement, so that the next report is one message.
    store.acknowledge(&[answer(&claimed[1], Write::Delivered)]).await.expect("acknowledge");
    while postgres.pool().num_idle() == 0 {
        tokio::task::yield_now().await;
    }

    proxy.stall();
    let report = answer(&claimed[0], Write::Delivered);
    let unheard = store.acknowledge(std::slice::from_ref(&report)).await.expect_err("no answer");
    assert!(matches!(unheard, StoreError::Unavailable(_)), "{unheard}");
    proxy.resume();
    recovers(&store).await;
    // Only the answer was lost, so the report again is fenced, and the history keeps the first.
    assert_eq!(store.acknowledge(&[report]).await.expect("acknowledge"), [Settled::Fenced]);
    assert_eq!(scene.history("a").await, [(1, 1, "delivered".to_owned(), false)]);
}

#[tokio::test]
async fn a_statement_that_waits_too_long_is_unavailable_and_changes_nothing() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    scene.insert_ids(&["a"]).await;
    let impatient =
        PostgresOptions { timeout: Duration::from_millis(300), ..options(database.database().url()) };
    let impatient = PostgresStore::open(&impatient).expect("open");
    impatient.now().await.expect("it works");
    let mut holder = database.connection().await;
    run(&mut holder, "begin; lock table outbox_delivery in access exclusive mode").await;
    let refused = impatient.claim(&scene.request("host-a")).await.expect_err("the table is locked");
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused}");
    run(&mut holder, "rollback").await;
    let row = scene.row("a").await;
    assert_eq!((row.attempts, row.claimed_by), (0, None));
}

#[tokio::test]
async fn behind_a_pooler_every_statement_pins_what_it_needs_by_itself() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    // What a pooled session may bring along from somebody else.
    run(
        &mut database.connection().await,
        "do $$ begin
             execute format('alter database %I set default_transaction_isolation = serializable', current_database());
             execute format('alter database %I set timezone = ''Asia/Kolkata''', current_database());
         end $$",
    )
    .await;
    let pooled = PostgresOptions { pooler: true, ..options(database.database().url()) };
    let pooled: Arc<dyn AnyStore> = Arc::new(PostgresStore::connect(&pooled).await.expect("connect"));
    let scene = Scene { store: pooled, ..scene };
    scene.insert(&[event("a"), crate::scene::keyed("b", "k")]).await;
    for claimed in scene.claim("host-a").await {
        scene.deliver(&claimed).await;
    }
    assert_eq!(scene.row("b").await.finished_at, Some(crate::scene::at(100)));
    assert_eq!(scene.store.sweep(&[scene.shop], 100).await.expect("sweep"), Default::default());
}

#[tokio::test]
async fn a_text_with_nul_and_a_report_that_comes_twice_in_a_batch_fail_nothing() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    scene.insert_ids(&["a", "b"]).await;
    let claimed = scene.claim("host-a").await;
    let mut odd = answer(&claimed[0], Write::Retry(Duration::ZERO));
    odd.record.message = "half\0way".to_owned();
    let twice = answer(&claimed[1], Write::Delivered);
    let settled = scene.store.acknowledge(&[odd, twice.clone(), twice]).await.expect("acknowledge");
    assert_eq!(settled[0], Settled::Recorded);
    assert_eq!(
        settled[1..].iter().filter(|settled| **settled == Settled::Recorded).count(),
        1,
        "{settled:?}"
    );
    assert_eq!(scene.row("a").await.last_error.as_deref(), Some("later: half\u{FFFD}way"));
    let history = scene.report("b").await.attempts;
    assert_eq!(history.len(), 1);
    assert!(!history[0].uncertain, "the report that was recorded is the one that is kept");
}
