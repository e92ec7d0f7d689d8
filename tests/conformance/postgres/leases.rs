//! Leases by the real clock, and by what the row itself says of them.

use outhaul::store::postgres::{PostgresOptions, PostgresStore};
use outhaul::store::*;
use outhaul_tests::postgres::{TestDatabase, run};
use sqlx::Row;

use super::PostgresDatabase;
use crate::harness::SqlDatabase;
use crate::scene::{LEASE, Scene, at, destination, keyed, refs, registration};

#[tokio::test]
async fn a_renewed_lease_ends_at_the_very_moment_its_delivery_is_due_again() {
    const EVENTS: usize = 200;
    let database = TestDatabase::create().await;
    let store = PostgresStore::open(&PostgresOptions::new(database.url())).expect("open");
    store.migrate().await.expect("migrate");
    let shop = registration("host-a", "c1", vec![destination("shop", &["order.*"])]);
    let registered = store.register(&shop).await.expect("register");
    let shop = registered.destinations[0].1.expect("an id");
    let mut connection = database.connection().await;
    run(
        &mut connection,
        format!(
            "insert into outbox_event (event_id, topic, payload)
             select n, 'order.created', '\\x7b7d' from generate_series(1, {EVENTS}) n"
        ),
    )
    .await;
    let request = ClaimRequest { limit: EVENTS as u32, ..super::request(shop) };
    let claimed = store.claim(&request).await.expect("claim").claimed;
    assert_eq!(claimed.len(), EVENTS);
    let renewed = store.renew(&refs(&claimed), LEASE).await.expect("renew");
    assert_eq!(renewed, vec![Settled::Recorded; EVENTS]);
    let apart = sqlx::query("select count(*) from outbox_delivery where due_at is distinct from lease_until")
        .fetch_one(&mut connection)
        .await
        .expect("count");
    assert_eq!(apart.get::<i64, _>(0), 0, "a claim walks due_at, and must not meet a living lease");
}

#[tokio::test]
async fn an_unexpired_lease_is_not_claimed_whatever_its_due_time_says() {
    for order in [Order::None, Order::Key(OnDead::Block)] {
        let database = PostgresDatabase::open().await;
        let scene = Scene::ordered(&database, order).await;
        scene.insert(&[keyed("a", "k")]).await;
        let held = scene.claim_one("host-a").await;
        let early = "update outbox_delivery set due_at = lease_until - interval '1 second'";
        assert_eq!(database.execute(early).await.expect("update"), 1);
        scene.at(119).await;
        let lane = scene.lane().await;
        assert!(!lane.has_due && !lane.has_due_suspect, "{lane:?}");
        let claims = scene.claims(&scene.request("host-b")).await;
        assert!(claims.claimed.is_empty() && claims.parked == 0 && claims.lost == 0, "{claims:?}");
        assert_eq!(scene.row("a").await.lease_until, Some(at(120)));
        scene.deliver(&held).await;
    }
}
