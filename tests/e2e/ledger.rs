//! The stock ledger behind the real host: killed between the destination's commit and the
//! acknowledgement, and beside a second host. The stock of 10 is 7 afterwards.

use outhaul::store::DeliveryStatus;
use outhaul_tests::databases::{Database, Kind};
use outhaul_tests::guests::guest;
use sqlx::{ConnectOptions, SqliteConnection};

use crate::databases::{Scene, count, deliveries, until, until_delivered};
use crate::host::{Host, outhaul};

macro_rules! on_each {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[test] fn $name() { $crate::databases::run(async { super::$name(super::Database::sqlite().await).await }) })+
        }
        mod on_postgres {
            $(#[test] fn $name() { $crate::databases::run(async { super::$name(super::Database::postgres().await).await }) })+
        }
        mod on_mariadb {
            $(#[test] fn $name() { $crate::databases::run(async { super::$name(super::Database::mariadb().await).await }) })+
        }
    };
}

on_each!(
    a_host_killed_after_the_commit_and_before_the_acknowledgement_applies_it_once,
    two_hosts_and_two_destinations_of_one_ledger_apply_each_event_once,
);

/// A destination on the shop's database, with 10 of A there.
async fn stocked(shop: &Database) {
    let text = if shop.kind == Kind::MariaDb { "varchar(99)" } else { "text" };
    shop.run(&format!(
        "create table stock (sku {text} not null, quantity bigint not null, primary key (sku))"
    ))
    .await;
    shop.run("insert into stock values ('A', 10)").await;
}

pub fn destination(name: &str, lines: &str) -> String {
    format!(
        "[destination.{name}]\ncomponent = \"{}\"\ntopics = [\"shipment.requested\"]\nsql = [\"shop\"]\n\
         settings = {{ database = \"shop\", create_tables = true }}\n\
         limits = {{ call = \"30s\", sql = {{ statement = \"30s\", transaction = \"30s\" }} }}\n{lines}\n",
        guest("stock-ledger").display()
    )
}

pub fn shop_section(shop: &Database) -> String {
    format!("[sql.shop]\nurl = \"{}\"\n", shop.url())
}

async fn insert(scene: &Scene, id: &str, quantity: u32) {
    let sql = format!(
        "insert into outbox_event (event_id, topic, payload) values ('{id}', 'shipment.requested', \
         cast('{{\"sku\":\"A\",\"quantity\":{quantity}}}' as blob))"
    );
    scene.producer().await.execute(&sql).await;
}

async fn stock(shop: &Database) -> i64 {
    shop.number("select quantity from stock where sku = 'A'").await
}

async fn outbox_writer(scene: &Scene) -> SqliteConnection {
    let url = scene.url();
    let path = url.strip_prefix("sqlite:").expect("an outbox in SQLite");
    sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(std::time::Duration::from_secs(30))
        .connect()
        .await
        .expect("the outbox opens")
}

async fn a_host_killed_after_the_commit_and_before_the_acknowledgement_applies_it_once(shop: Database) {
    let scene = Scene::sqlite();
    scene.migrate().await;
    stocked(&shop).await;
    let config = scene
        .write_config(&(destination("stock", "lease = \"15s\"\nmargin = \"500ms\"") + &shop_section(&shop)));
    let host = Host::start(&config);
    let stores = scene.stores().await;

    // The stock's row is held, so that the plugin waits in its transaction …
    let mut hand = shop.connect().await;
    hand.run(if shop.kind == Kind::Sqlite { "begin immediate" } else { "start transaction" }).await;
    hand.run("update stock set quantity = quantity where sku = 'A'").await;
    insert(&scene, "order-1", 3).await;
    until("the claim", async || deliveries(&stores).await.iter().any(|row| row.attempts == 1).then_some(()))
        .await;
    // … until nobody can write to the outbox: the acknowledgement will wait.
    let mut outbox = outbox_writer(&scene).await;
    sqlx::raw_sql("begin immediate").execute(&mut outbox).await.expect("the outbox is ours");
    hand.run("commit").await;
    until("the destination's commit", async || (stock(&shop).await == 7).then_some(())).await;
    host.kill();
    sqlx::raw_sql("rollback").execute(&mut outbox).await.expect("it is given back");
    let [row] = &deliveries(&stores).await[..] else { panic!("one delivery") };
    assert_eq!((row.status, row.attempts), (DeliveryStatus::Pending, 1));

    let host = Host::start(&config);
    until_delivered(&stores, 1).await;
    host.stop();
    assert_eq!((stock(&shop).await, shop.number("select count(*) from stock_ledger").await), (7, 1));
    let report = stores.operate.show("", "order-1").await.unwrap().expect("the event is there");
    let history: Vec<(&str, bool)> =
        report.attempts.iter().map(|attempt| (attempt.outcome.as_str(), attempt.uncertain)).collect();
    assert_eq!(history, [("lost", true), ("duplicate", false)]);
}

async fn two_hosts_and_two_destinations_of_one_ledger_apply_each_event_once(shop: Database) {
    const EVENTS: u32 = 40;
    let scene = Scene::sqlite();
    scene.migrate().await;
    stocked(&shop).await;
    shop.run("update stock set quantity = 1000 where sku = 'A'").await;
    let config = scene.write_patient_config(
        &(destination("one", "lease = \"40s\"")
            + &destination("two", "lease = \"40s\"")
            + &shop_section(&shop)),
    );
    let hosts = [Host::start(&config), Host::start(&config)];
    let stores = scene.stores().await;
    for n in 1..=EVENTS {
        insert(&scene, &format!("order-{n}"), 3).await;
    }
    until_delivered(&stores, 2 * EVENTS as usize).await;
    assert_eq!(stock(&shop).await, 1000 - 3 * i64::from(EVENTS));
    // On purpose once more, which is a duplicate too.
    let again = outhaul(&config, &["events", "redeliver", "order-1"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    until("the redelivery", async || {
        let report = stores.operate.show("", "order-1").await.ok()??;
        (report.attempts.len() >= 4 && count(&stores, DeliveryStatus::Pending).await == 0).then_some(())
    })
    .await;
    hosts.into_iter().for_each(Host::stop);
    assert_eq!(stock(&shop).await, 1000 - 3 * i64::from(EVENTS));
    let mut outcomes = std::collections::BTreeMap::new();
    for n in 1..=EVENTS {
        let report =
            stores.operate.show("", &format!("order-{n}")).await.unwrap().expect("the event is there");
        for attempt in &report.attempts {
            *outcomes.entry(attempt.outcome.clone()).or_insert(0) += 1;
        }
    }
    assert_eq!(outcomes.get("delivered"), Some(&EVENTS), "{outcomes:?}");
    assert_eq!(outcomes.get("duplicate"), Some(&(EVENTS + 2)), "{outcomes:?}");
}

#[test]
fn a_changed_section_is_a_new_generation_on_the_new_database() {
    crate::databases::run(async {
        let scene = Scene::sqlite();
        scene.migrate().await;
        let (old, new) = (Database::sqlite().await, Database::sqlite().await);
        stocked(&old).await;
        stocked(&new).await;
        scene.write_config(&(destination("stock", "") + &shop_section(&old)));
        let config = scene.path().join("outhaul.toml");
        let mut host = Host::start(&config);
        let stores = scene.stores().await;
        insert(&scene, "order-1", 3).await;
        until_delivered(&stores, 1).await;
        scene.write_config(&(destination("stock", "") + &shop_section(&new)));
        host.hang_up();
        host.wait_for_generation("stock", 2);
        insert(&scene, "order-2", 1).await;
        until_delivered(&stores, 2).await;
        host.stop();
        assert_eq!((stock(&old).await, stock(&new).await), (7, 9));
    });
}

#[test]
fn check_asks_each_database_and_says_which_can_not_be_reached() {
    crate::databases::run(async {
        let scene = Scene::sqlite();
        scene.migrate().await;
        let shop = Database::sqlite().await;
        stocked(&shop).await;
        let gone = "[sql.gone]\nurl = \"postgres://nobody:hunter2@127.0.0.1:1/gone\"\n";
        let config = scene.write_config(&(destination("stock", "") + &shop_section(&shop) + gone));
        let checked = outhaul(&config, &["check"]);
        let text = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(1), "{text}");
        let line =
            |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{text}"));
        assert!(line("sql.shop").contains("SQLite") && line("sql.shop").contains("answers"), "{text}");
        assert!(line("sql.gone").contains("does the database run?") && !text.contains("hunter2"), "{text}");
    });
}
