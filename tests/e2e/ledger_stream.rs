//! Many events into a ledger, as the database's own client reads it afterwards: PostgreSQL's `psql`, MariaDB's
//! `mariadb` and, for SQLite, the module that comes with Python.

use std::process::Command;

use outhaul::store::NewEvent;
use outhaul_tests::budget::from_env;
use outhaul_tests::databases::{Database, Kind};

use crate::databases::{Scene, until_delivered};
use crate::host::Host;
use crate::ledger::{destination, shop_section};

const SKUS: usize = 100;
const FULL: usize = 1_000_000;

#[test]
fn the_client_of_sqlite_finds_every_event_applied_once() {
    crate::databases::run(async { every_event_is_applied_once(Database::sqlite().await).await });
}

#[test]
fn the_client_of_postgres_finds_every_event_applied_once() {
    crate::databases::run(async { every_event_is_applied_once(Database::postgres().await).await });
}

#[test]
fn the_client_of_mariadb_finds_every_event_applied_once() {
    crate::databases::run(async { every_event_is_applied_once(Database::mariadb().await).await });
}

async fn every_event_is_applied_once(shop: Database) {
    let events = usize::try_from(from_env("OUTHAUL_BROKER_EVENTS").unwrap_or(300)).expect("few enough");
    let scene = Scene::sqlite();
    scene.migrate().await;
    let text = if shop.kind == Kind::MariaDb { "varchar(99)" } else { "text" };
    shop.run(&format!("create table stock (sku {text} not null primary key, quantity bigint not null)"))
        .await;
    let rows: Vec<String> = (0..SKUS).map(|sku| format!("('S{sku}', {FULL})")).collect();
    shop.run(&format!("insert into stock values {}", rows.join(", "))).await;
    let lines = "concurrency = 100\norder = \"key\"\nlease = \"40s\"";
    let config = scene.write_patient_config(&(destination("stock", lines) + &shop_section(&shop)));
    let stores = scene.stores().await;
    for first in (0..events).step_by(1_000) {
        let some: Vec<NewEvent> = (first..events.min(first + 1_000)).map(event).collect();
        stores.operate.emit(&some).await.expect("they are emitted");
    }
    let host = Host::start(&config);
    until_delivered(&stores, events).await;
    host.stop();

    let ledger = "select count(*), count(distinct dedup_id), count(distinct event_id) from stock_ledger";
    assert_eq!(read_by_client(&shop, ledger), [[events; 3].map(|count| count.to_string()).join("|")]);
    let stock: Vec<String> =
        (0..SKUS).map(|sku| format!("S{sku}|{}", FULL - taken_of(sku, events))).collect();
    let mut found = read_by_client(&shop, "select sku, quantity from stock");
    found.sort_by_key(|line| line.split('|').next().and_then(|sku| sku[1..].parse::<usize>().ok()));
    assert_eq!(found, stock);
}

/// Takes 1 to 7 of a SKU.
fn event(number: usize) -> NewEvent {
    let (sku, quantity) = (number % SKUS, quantity(number));
    NewEvent {
        id: format!("event-{number:06}"),
        topic: "shipment.requested".to_owned(),
        key: Some(format!("S{sku}")),
        payload: format!(r#"{{"sku":"S{sku}","quantity":{quantity}}}"#).into_bytes(),
        ..NewEvent::default()
    }
}

fn quantity(number: usize) -> usize {
    1 + number % 7
}

fn taken_of(sku: usize, events: usize) -> usize {
    (sku..events).step_by(SKUS).map(quantity).sum()
}

/// The rows, their columns joined by `|`.
fn read_by_client(shop: &Database, sql: &str) -> Vec<String> {
    let mut client = match shop.kind {
        Kind::Sqlite => {
            let script = "import sqlite3,sys\n\
                          for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print('|'.join(map(str,row)))";
            let mut client = Command::new("python3");
            client.args(["-c", script, shop.url().trim_start_matches("sqlite:"), sql]);
            client
        }
        Kind::Postgres => {
            let mut client = Command::new("psql");
            client.args([shop.url(), "--no-psqlrc", "--tuples-only", "--no-align", "--command", sql]);
            client
        }
        Kind::MariaDb => {
            let (login, place) =
                shop.url().trim_start_matches("mysql://").split_once('@').expect("a URL with a login");
            let (user, password) = login.split_once(':').expect("a password");
            let (address, name) = place.split_once('/').expect("a database");
            let (host, port) = address.split_once(':').expect("a port");
            let mut client = Command::new("mariadb");
            client.args(["--no-defaults", "--batch", "--skip-column-names", "--host", host, "--port", port]);
            client.args(["--user", user, &format!("--password={password}"), "--execute", sql, name]);
            client
        }
    };
    let output = client.output().unwrap_or_else(|error| panic!("{client:?}: {error}"));
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{client:?}: {complaints}");
    let text = String::from_utf8(output.stdout).expect("the client prints text");
    text.lines().map(|line| line.replace('\t', "|")).collect()
}
