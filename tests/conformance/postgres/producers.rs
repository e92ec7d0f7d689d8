//! What a producer may do, and whose clock counts.

use outhaul::store::Settled;
use outhaul_tests::postgres::run;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::PostgresDatabase;
use crate::harness::SqlDatabase;
use crate::scene::{Scene, ids};

const DENIED: &str = "42501";

#[tokio::test]
async fn a_role_that_may_only_insert_events_has_them_routed_and_can_touch_nothing_else() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    let role = format!("producer_{}", uuid::Uuid::new_v4().simple());
    let mut admin = database.connection().await;
    run(&mut admin, format!("create role {role} login password 'x'; grant insert on outbox_event to {role}"))
        .await;

    let mut producer = PgConnection::connect(&database.database().url_as(&role, "x"))
        .await
        .expect("connect as the producer");
    // Its own tables of the same names, found first, are not mistaken for ours.
    run(
        &mut producer,
        "create temporary table outbox_route (pattern text, destination_id bigint);
         create temporary table outbox_delivery (event_seq bigint);
         set search_path = pg_temp, public",
    )
    .await;
    run(
        &mut producer,
        "insert into outbox_event (event_id, topic, payload) values ('a', 'order.created', '\\x7b7d')",
    )
    .await;
    for refused in [
        "select * from public.outbox_event",
        "update public.outbox_event set topic = 'x'",
        "delete from public.outbox_event",
        "truncate public.outbox_event",
        "select * from public.outbox_delivery",
        "insert into public.outbox_route values ('*', 1, 1)",
        "update public.outbox_destination set state = 'active'",
    ] {
        let error = sqlx::query(AssertSqlSafe(refused)).execute(&mut producer).await.expect_err(refused);
        let code = error.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned());
        assert_eq!(code.as_deref(), Some(DENIED), "{refused}: {error}");
    }
    assert_eq!(scene.claim_ids("host-a").await, ["a"]);

    producer.close().await.expect("close");
    run(&mut admin, format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn s19_a_lease_is_judged_by_the_databases_clock_whatever_the_hosts_says() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    scene.insert_ids(&["a"]).await;
    // The database stands at 100 s after 1970; this host's clock is more than fifty years ahead.
    let claimed = scene.claim_one("host-a").await;
    scene.at(119).await;
    assert!(scene.claim("host-with-a-fast-clock").await.is_empty());
    assert_eq!(
        scene.store.renew(&[claimed.claim], crate::scene::LEASE).await.expect("renew"),
        [Settled::Recorded]
    );
    scene.at(138).await;
    assert!(scene.claim("host-with-a-fast-clock").await.is_empty());
    scene.at(139).await;
    assert_eq!(ids(&scene.claim("host-with-a-fast-clock").await), ["a"]);
}

#[tokio::test]
async fn copy_and_one_statement_of_many_rows_are_routed_too() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    let mut connection = database.connection().await;
    run(
        &mut connection,
        "insert into outbox_event (event_id, topic, payload)
         select 'e' || n, case when n <= 5 then 'order.created' else 'other' end, '\\x00'
         from generate_series(1, 8) n",
    )
    .await;
    let mut copy = connection
        .copy_in_raw("copy outbox_event (event_id, topic, payload) from stdin")
        .await
        .expect("copy");
    copy.send("c1\torder.created\t\\\\x00\nc2\torder.created\t\\\\x00\n".as_bytes()).await.expect("send");
    copy.finish().await.expect("finish");
    let mut claimed = scene.claim_ids("host-a").await;
    claimed.sort();
    assert_eq!(claimed, ["c1", "c2", "e1", "e2", "e3", "e4", "e5"]);
    let unrouted = scene.store.lane_reports().await.expect("reports");
    let unrouted = unrouted.iter().find(|report| report.id.is_none()).expect("unrouted events are shown");
    assert_eq!((unrouted.destination.as_str(), unrouted.pending), ("(unrouted)", 3));
}

#[tokio::test]
async fn a_producer_that_names_a_sequence_number_is_refused_and_harms_no_other() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    scene.insert_ids(&["a"]).await;
    let insert = |seq: i64, overriding: &str| {
        format!(
            "insert into outbox_event (seq, event_id, topic, payload) {overriding}
             values ({seq}, 'chosen{seq}', 'order.created', '\\x7b7d')"
        )
    };
    for (sql, reason) in [
        (insert(2, ""), "cannot insert a non-DEFAULT value into column \"seq\""),
        (insert(-5, ""), "cannot insert a non-DEFAULT value into column \"seq\""),
        (insert(-5, "overriding system value"), "outbox_event_seq_is_positive"),
    ] {
        let refused = database.execute(&sql).await.expect_err(&sql);
        assert!(refused.contains(reason), "{sql}: {refused}");
    }
    scene.insert_ids(&["b", "c"]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a", "b", "c"]);
}
