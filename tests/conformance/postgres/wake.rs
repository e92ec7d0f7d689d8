//! Wake-ups: payload-free, as a setting, and never the only way to learn of an event.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outhaul::store::postgres::{PostgresOptions, PostgresStore};
use outhaul::store::{DeliveryFilter, Operate, Store};
use outhaul_tests::postgres::run;
use sqlx::postgres::PgListener;
use tokio::sync::Notify;

use super::proxy::Proxy;
use super::{PostgresDatabase, options};
use crate::harness::{Database, Isolation};
use crate::scene::{Scene, destination, event, registration};

/// Longer than anything here takes; only a failing test waits for it.
const AT_MOST: Duration = Duration::from_secs(30);

async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    tokio::time::timeout(AT_MOST, event).await.unwrap_or_else(|_| panic!("{what} did not happen"))
}

#[tokio::test]
async fn a_commit_wakes_a_waiting_host() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    soon("listening", scene.store.wait_for_wake()).await;
    let wake = scene.store.wait_for_wake();
    scene.insert_ids(&["a"]).await;
    soon("the wake-up", wake).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a"]);
}

#[tokio::test]
async fn a_lost_listener_wakes_once_and_listens_again() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    soon("listening", scene.store.wait_for_wake()).await;

    let lost = scene.store.wait_for_wake();
    let mut connection = database.connection().await;
    run(
        &mut connection,
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and query ilike 'listen %'",
    )
    .await;
    soon("the wake-up for what was missed", lost).await;
    soon("listening again", scene.store.wait_for_wake()).await;

    let wake = scene.store.wait_for_wake();
    scene.insert_ids(&["a"]).await;
    soon("the wake-up", wake).await;
}

#[tokio::test]
async fn s21_notifications_carry_no_payload_come_with_commits_only_and_can_be_turned_off() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    let mut listener = PgListener::connect(database.database().url()).await.expect("listen");
    listener.listen("outbox_wake").await.expect("listen");

    let long = outhaul::store::NewEvent { payload: vec![b'x'; 100_000], ..event("long") };
    scene.insert(&[long]).await;
    let heard = soon("the notification", listener.recv()).await.expect("recv");
    assert_eq!(heard.payload(), "");

    let mut producer = database.begin(Isolation::ReadCommitted).await;
    producer.insert(&event("rolled back")).await.expect("insert");
    producer.rollback().await;

    let quiet = PostgresOptions { wake: false, ..options(database.database().url()) };
    let quiet = PostgresStore::open(&quiet).expect("open");
    let config = vec![destination("shop", &["order.*"])];
    quiet.register(&registration("host-q", "c1", config)).await.expect("register");
    scene.insert_ids(&["unheard"]).await;

    // Notifications keep their order, so the first one heard now would be an earlier one.
    run(&mut database.connection().await, "select pg_notify('outbox_wake', 'marker')").await;
    let heard = soon("the marker", listener.recv()).await.expect("recv");
    assert_eq!(heard.payload(), "marker");
    assert_eq!(scene.claim_ids("host-a").await, ["long", "unheard"], "polling finds it");
}

#[tokio::test]
async fn producers_stay_silent_while_a_host_looks_by_itself_and_only_for_its_lanes() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    let config = vec![destination("shop", &["order.*"]), destination("mail", &["mail.*"])];
    let registered = scene.store.register(&registration("host-a", "c2", config)).await.expect("register");
    let shop = registered.destinations[0].1.expect("an id");
    let mut listener = PgListener::connect(database.database().url()).await.expect("listen");
    listener.listen("outbox_wake").await.expect("listen");
    let is_heard = async |listener: &mut PgListener| {
        run(&mut database.connection().await, "select pg_notify('outbox_wake', 'marker')").await;
        let mut heard = Vec::new();
        loop {
            let payload = soon("the marker", listener.recv()).await.expect("recv").payload().to_owned();
            if payload == "marker" {
                return !heard.is_empty();
            }
            heard.push(payload);
        }
    };
    let mail = |id: &str| outhaul::store::NewEvent { topic: "mail.sent".to_owned(), ..event(id) };
    is_heard(&mut listener).await;

    scene.at(100).await;
    assert!(scene.store.attend(&[shop], Duration::from_secs(10)).await.expect("attend"));
    scene.insert_ids(&["silent"]).await;
    assert!(!is_heard(&mut listener).await, "a host looks for it");
    scene.insert(&[mail("a")]).await;
    assert!(is_heard(&mut listener).await, "nobody promised to look for this lane");
    scene.insert(&[event("both"), mail("b")]).await;
    assert!(is_heard(&mut listener).await, "one of the two lanes is not attended");
    assert!(scene.store.attend(&[shop], Duration::from_secs(1)).await.expect("attend"));
    scene.at(109).await;
    scene.insert_ids(&["still silent"]).await;
    assert!(!is_heard(&mut listener).await, "a shorter promise takes nothing back");
    scene.at(110).await;
    scene.insert_ids(&["loud"]).await;
    assert!(is_heard(&mut listener).await, "the promise ran out by itself");

    let quiet = PostgresOptions { wake: false, ..options(database.database().url()) };
    let quiet = PostgresStore::open(&quiet).expect("open");
    assert!(!quiet.attend(&[shop], Duration::from_secs(1)).await.expect("attend"), "nobody is called anyway");
}

/// A writer that tells when something was written.
#[derive(Clone, Default)]
struct Lines {
    text: Arc<Mutex<Vec<u8>>>,
    written: Arc<Notify>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.lock().expect("not poisoned").extend_from_slice(bytes);
        self.written.notify_one();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// On one thread, so that the log of the listener's task is this test's.
#[tokio::test(flavor = "current_thread")]
async fn s20_behind_a_pooler_that_swallows_notifications_one_line_says_so_and_polling_goes_on() {
    let database = PostgresDatabase::open().await;
    let scene = Scene::open(&database).await;
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let proxy = Proxy::without_notifications(database.database().url()).await;
    let deaf = PostgresStore::connect(&options(proxy.url())).await.expect("connect through the proxy");
    let _listening = deaf.wait_for_wake();
    soon("the log line", lines.written.notified()).await;
    let text = || String::from_utf8(lines.text.lock().expect("not poisoned").clone()).expect("UTF-8");
    assert!(text().contains("LISTEN hears no notification"), "{}", text());
    assert!(text().contains("outbox.poll"), "{}", text());

    scene.insert_ids(&["a"]).await;
    let claims = deaf.claim(&scene.request("host-a")).await.expect("claim");
    assert_eq!(claims.claimed.len(), 1, "a poll finds what no notification told of");
    assert_eq!(text().lines().count(), 1, "{}", text());
    assert_eq!(
        deaf.deliveries(&DeliveryFilter { limit: 10, ..Default::default() }).await.expect("list").len(),
        1
    );
}
