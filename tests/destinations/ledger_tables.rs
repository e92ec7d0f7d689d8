//! Tables of an operator's own that a ledger can't do with as they are, or must know about.

use outhaul::domain::Outcome;
use outhaul_tests::databases::Database;
use outhaul_tests::harness::detail;
use serde_json::{Value, json};

use crate::ledger::{deliver, plan, rejected};

const SHIP: &str = "shipment.requested";
const THREE: &str = r#"{"sku":"A","quantity":3}"#;

fn stock_settings(create_tables: bool) -> Value {
    json!({ "database": "shop", "create_tables": create_tables })
}

fn table_settings(create_tables: bool) -> Value {
    let rule =
        json!({ "topics": ["*"], "action": "insert", "table": "words", "columns": { "word": "/sku" } });
    json!({ "database": "shop", "create_tables": create_tables, "rules": [rule] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_without_transactions_is_refused_with_its_setting_and_mended_by_the_statement_told() {
    for (component, settings, table, pointer, engine) in [
        ("stock-ledger", stock_settings as fn(bool) -> Value, "stock", "/stock/table", "Aria"),
        ("stock-ledger", stock_settings, "stock_ledger", "/ledger/table", "Aria"),
        ("sql-table", table_settings, "words", "/rules/0/table", "MyISAM"),
        ("sql-table", table_settings, "outhaul_ledger", "/ledger/table", "MEMORY"),
    ] {
        let database = Database::mariadb().await;
        database.run("create table words (word varchar(9))").await;
        let lane = plan(component, &database, settings(true)).load().await;
        if component == "stock-ledger" {
            database.run("insert into stock values ('A', 10)").await;
        }
        drop(lane);
        database.run(&format!("alter table {table} engine = {engine}")).await;
        let mend = format!("alter table {table} engine = InnoDB");
        let refusal = plan(component, &database, settings(true)).refusal().await;
        assert!(refusal.contains(pointer) && refusal.contains(&mend), "{table}: {refusal}");
        let lane = plan(component, &database, settings(false)).load().await;
        let checked = lane.plugin.check().await.expect("it has a check").expect_err("no transactions");
        for outcome in [checked, deliver(&lane, "order-1", SHIP, THREE).await] {
            assert!(matches!(&outcome, Outcome::Misconfigured(_)), "{table}: {outcome:?}");
            assert_eq!(detail(&outcome).code, "sql-no-transactions");
            assert!(detail(&outcome).message.contains(&mend), "{outcome:?}");
        }
        database.run(&mend).await;
        let outcome = deliver(&lane, "order-1", SHIP, THREE).await;
        assert!(matches!(&outcome, Outcome::Delivered(_)), "{outcome:?}");
        assert_eq!(lane.plugin.check().await, Some(Ok(())));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_whose_key_is_checked_at_the_commit_tells_repeats_and_conflicts() {
    let database = Database::postgres().await;
    database
        .run(
            "create table applied (msg text primary key deferrable initially deferred, digest text not null); \
             create table stock (sku text primary key, quantity bigint not null); \
             insert into stock values ('A', 10)",
        )
        .await;
    let mut settings = stock_settings(false);
    settings["ledger"] = json!({ "table": "applied", "columns": {
        "dedup_id": "msg", "content_hash": "digest", "event_id": false, "tenant": false, "topic": false,
        "fence": false, "attempt": false, "applied_at": false
    } });
    let lane = plan("stock-ledger", &database, settings).load().await;
    let first = deliver(&lane, "order-1", SHIP, THREE).await;
    assert!(matches!(&first, Outcome::Delivered(_)), "{first:?}");
    let again = deliver(&lane, "order-1", SHIP, THREE).await;
    assert!(matches!(&again, Outcome::Duplicate(_)), "{again:?}");
    let other = deliver(&lane, "order-1", SHIP, r#"{"sku":"A","quantity":4}"#).await;
    assert!(matches!(&other, Outcome::Conflict(_)), "{other:?}");
    assert_eq!(database.number("select quantity from stock").await, 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_refused_at_the_commit_is_a_rejection() {
    let database = Database::postgres().await;
    database
        .run("create table words (word text, constraint once unique (word) deferrable initially deferred)")
        .await;
    let lane = plan("sql-table", &database, table_settings(true)).load().await;
    let first = deliver(&lane, "e-1", "a.b", THREE).await;
    assert!(matches!(&first, Outcome::Delivered(_)), "{first:?}");
    let second = deliver(&lane, "e-2", "a.b", THREE).await;
    assert_eq!(rejected(&second).code, "sql-unique-violation");
    assert!(rejected(&second).message.contains("once"), "{second:?}");
    assert_eq!(database.number("select count(*) from outhaul_ledger").await, 1);
}
