//! S42: the database stops taking writes, or goes away, while the host works.

use outhaul::store::DeliveryStatus;

use crate::databases::{Producer, Scene, count, until, until_delivered};
use crate::first_event::noop;
use crate::host::Host;

#[test]
fn s42_postgres_that_turns_read_only_and_drops_its_connections_is_survived() {
    crate::databases::run(read_only_postgres(Scene::postgres()));
}

#[test]
fn s42_sqlite_that_another_process_keeps_locked_is_survived() {
    crate::databases::run(locked_sqlite(Scene::sqlite()));
}

#[test]
fn a_host_that_starts_before_its_database_waits_for_it() {
    crate::databases::run(absent_postgres(Scene::postgres()));
}

async fn read_only_postgres(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("noop", "*", ""));
    let host = Host::start(&config);
    let mut producer = scene.producer().await;
    producer.insert("order.created", "before", 5).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 5).await;

    let name = scene.database_name();
    scene.on_server(&format!("alter database {name} set default_transaction_read_only = on")).await;
    producer.insert("order.created", "during", 5).await;
    let drop_connections =
        format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'");
    scene.on_server(&drop_connections).await;
    until("readiness tells of the database", async || {
        let (status, body) = host.readiness().await;
        (status == 503 && body["database"]["ok"] == false).then_some(())
    })
    .await;

    scene.on_server(&format!("alter database {name} reset default_transaction_read_only")).await;
    scene.on_server(&drop_connections).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 10).await;
    until("the host is ready again", async || (host.readiness().await.0 == 200).then_some(())).await;
    scene.producer().await.insert("order.created", "after", 5).await;
    until_delivered(&stores, 15).await;
    host.stop();
}

async fn locked_sqlite(scene: Scene) {
    scene.migrate().await;
    let config = scene.write_config(&noop("noop", "*", ""));
    let host = Host::start(&config);
    let mut producer = scene.producer().await;
    producer.insert("order.created", "before", 5).await;
    let stores = scene.stores().await;
    until_delivered(&stores, 5).await;

    // The writer's lock, held by someone who does not let go.
    producer.execute("begin immediate").await;
    producer.insert("order.created", "during", 5).await;
    until("readiness tells of the database", async || {
        let (status, body) = host.readiness().await;
        (status == 503 && body["database"]["ok"] == false).then_some(())
    })
    .await;
    assert_eq!(count(&stores, DeliveryStatus::Pending).await, 0, "nothing is committed yet");
    producer.execute("commit").await;
    until_delivered(&stores, 10).await;
    until("the host is ready again", async || (host.readiness().await.0 == 200).then_some(())).await;
    host.stop();
}

async fn absent_postgres(scene: Scene) {
    let config = scene.write_config(&noop("noop", "*", ""));
    let mut host = Host::start_without_waiting(&config);
    host.wait_for_record("waiting for the database");
    scene.migrate().await;
    let ready = host.wait_for_record("ready");
    host.base = format!("http://{}", ready["fields"]["listen"].as_str().expect("an address"));
    let Producer::Postgres(_) = scene.producer().await else { panic!("this test is PostgreSQL's") };
    scene.producer().await.insert("order.created", "o", 1).await;
    until_delivered(&scene.stores().await, 1).await;
    host.stop();
}
