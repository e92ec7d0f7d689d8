//! `stock-ledger`: the stock of 10 becomes 7 once, however often, and whatever comes of it is told.

use futures_util::future::join_all;
use outhaul::domain::{Fence, Outcome};
use outhaul::plugin::Deliver;
use outhaul_tests::databases::{Database, Kind, grant};
use outhaul_tests::forward::Forward;
use outhaul_tests::harness::{Lane, detail};
use serde_json::{Value, json};

use crate::ledger::{deliver, event, plan, rejected};

outhaul_tests::on_each_database!(
    ten_becomes_seven_once_however_often,
    ten_becomes_seven_once_for_two_hosts_at_once,
    the_same_id_with_other_content_is_a_conflict_with_both_hashes,
    too_little_stock_is_a_rejection_that_leaves_no_trace,
    what_the_payload_does_not_say_is_rejected,
    a_fraction_is_told_as_one,
    stock_is_put_in_by_topic_and_may_fall_below_zero_if_allowed,
    many_items_are_moved_together_or_not_at_all,
    the_ledger_keeps_fence_and_attempt_for_an_audit,
    existing_tables_serve_by_settings,
    tables_that_are_not_there_stop_the_lane_and_show_in_check,
    a_batch_is_one_transaction_and_each_keeps_its_outcome,
);

const SHIP: &str = "shipment.requested";
const THREE: &str = r#"{"sku":"A","quantity":3}"#;

fn settings() -> Value {
    json!({ "database": "shop", "create_tables": true, "add": ["stock.received"] })
}

/// With 10 of A and 5 of B.
async fn stocked(database: &Database, settings: Value) -> Lane {
    let lane = plan("stock-ledger", database, settings).load().await;
    database.run("insert into stock (sku, quantity) values ('A', 10), ('B', 5)").await;
    lane
}

async fn stock(database: &Database, sku: &str) -> i64 {
    database.number(&format!("select quantity from stock where sku = '{sku}'")).await
}

async fn recorded(database: &Database) -> i64 {
    database.number("select count(*) from stock_ledger").await
}

async fn ten_becomes_seven_once_however_often(database: Database) {
    let lane = stocked(&database, settings()).await;
    let first = deliver(&lane, "order-1", SHIP, THREE).await;
    let Outcome::Delivered(receipt) = &first else { panic!("{first:?}") };
    assert_eq!(receipt.reference.as_deref(), Some("stock_ledger/order-1"));
    for _ in 0..5 {
        let again = deliver(&lane, "order-1", SHIP, THREE).await;
        assert!(matches!(&again, Outcome::Duplicate(_)), "{again:?}");
    }
    assert_eq!((stock(&database, "A").await, recorded(&database).await), (7, 1));
}

async fn ten_becomes_seven_once_for_two_hosts_at_once(database: Database) {
    let one = stocked(&database, settings()).await;
    let two = plan("stock-ledger", &database, settings()).load().await;
    let calls = (0..16).map(|n| deliver(if n % 2 == 0 { &one } else { &two }, "order-1", SHIP, THREE));
    let outcomes = join_all(calls).await;
    let delivered = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Delivered(_))).count();
    let duplicates = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Duplicate(_))).count();
    assert_eq!((delivered, duplicates), (1, 15), "{outcomes:?}");
    assert_eq!((stock(&database, "A").await, recorded(&database).await), (7, 1));
}

async fn the_same_id_with_other_content_is_a_conflict_with_both_hashes(database: Database) {
    let lane = stocked(&database, settings()).await;
    deliver(&lane, "order-1", SHIP, THREE).await;
    let kept = database.text("select content_hash from stock_ledger").await;
    let mut keyed = event("order-1", SHIP, THREE);
    keyed.event.key = Some("A".to_owned());
    let mut typed = event("order-1", SHIP, THREE);
    typed.event.content_type = "text/plain".to_owned();
    let others = [
        event("order-1", SHIP, r#"{"sku":"A","quantity":4}"#),
        event("order-1", "other", THREE),
        keyed,
        typed,
    ];
    for other in others {
        let outcome = lane.deliver(other).await;
        let Outcome::Conflict(detail) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(detail.code, "ledger-conflict");
        let hashes: Vec<&str> =
            detail.message.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| word.len() == 64).collect();
        assert!(hashes.len() == 2 && hashes[0] == kept && hashes[1] != kept, "{}", detail.message);
    }
    assert_eq!((stock(&database, "A").await, recorded(&database).await), (7, 1));
}

async fn too_little_stock_is_a_rejection_that_leaves_no_trace(database: Database) {
    let lane = stocked(&database, settings()).await;
    let outcome = deliver(&lane, "order-1", SHIP, r#"{"sku":"A","quantity":11}"#).await;
    assert_eq!(rejected(&outcome).code, "insufficient-stock");
    assert!(
        rejected(&outcome).message.contains("11 of \"A\" are asked for, and 10 are there"),
        "{outcome:?}"
    );
    let outcome = deliver(&lane, "order-2", SHIP, r#"{"sku":"Z","quantity":1}"#).await;
    assert_eq!(rejected(&outcome).code, "unknown-sku");
    assert_eq!((stock(&database, "A").await, recorded(&database).await), (10, 0));
    // Once there is enough, a redrive of the same event goes through.
    database.run("update stock set quantity = 11 where sku = 'A'").await;
    let outcome = deliver(&lane, "order-1", SHIP, r#"{"sku":"A","quantity":11}"#).await;
    assert!(matches!(&outcome, Outcome::Delivered(_)), "{outcome:?}");
    assert_eq!(stock(&database, "A").await, 0);
}

async fn what_the_payload_does_not_say_is_rejected(database: Database) {
    let lane = stocked(&database, settings()).await;
    for (n, payload) in ["", "[]", r#"{"sku":"A"}"#, r#"{"sku":"A","quantity":"3"}"#].into_iter().enumerate()
    {
        let outcome = deliver(&lane, &format!("order-{n}"), SHIP, payload).await;
        assert_eq!(rejected(&outcome).code, "payload", "{payload}");
    }
    assert_eq!((stock(&database, "A").await, recorded(&database).await), (10, 0));
}

async fn a_fraction_is_told_as_one(database: Database) {
    let lane = stocked(&database, settings()).await;
    let outcome = deliver(&lane, "order-1", SHIP, r#"{"sku":"A","quantity":2.5}"#).await;
    assert_eq!(rejected(&outcome).code, "fractional-quantity");
    assert!(rejected(&outcome).message.contains("\"/quantity\" is 2.5"), "{outcome:?}");
    // A table of the operator's own that counts in fractions.
    database.run("create table goods (sku varchar(40) primary key, quantity decimal(9, 2) not null)").await;
    database.run("insert into goods values ('A', 1.5)").await;
    let mut other = settings();
    other["stock"] = json!({ "table": "goods" });
    let lane = plan("stock-ledger", &database, other).load().await;
    let outcome = deliver(&lane, "order-2", SHIP, THREE).await;
    assert_eq!(rejected(&outcome).code, "insufficient-stock");
    let left = if database.kind == Kind::Sqlite { "1.5 are there" } else { "1.50 are there" };
    assert!(rejected(&outcome).message.contains(left), "{outcome:?}");
}

async fn stock_is_put_in_by_topic_and_may_fall_below_zero_if_allowed(database: Database) {
    let lane = stocked(&database, settings()).await;
    deliver(&lane, "in-1", "stock.received", r#"{"sku":"A","quantity":7}"#).await;
    deliver(&lane, "in-1", "stock.received", r#"{"sku":"A","quantity":7}"#).await;
    assert_eq!(stock(&database, "A").await, 17);
    let mut lenient = settings();
    lenient["allow_negative"] = json!(true);
    let lane = plan("stock-ledger", &database, lenient).load().await;
    let outcome = deliver(&lane, "out-1", SHIP, r#"{"sku":"A","quantity":20}"#).await;
    assert!(matches!(&outcome, Outcome::Delivered(_)), "{outcome:?}");
    assert_eq!(stock(&database, "A").await, -3);
}

async fn many_items_are_moved_together_or_not_at_all(database: Database) {
    let mut many = settings();
    many["payload"] = json!({ "items": "/lines", "sku": "/article", "quantity": "/count" });
    let lane = stocked(&database, many).await;
    let lines = |a: u32, b: u32| {
        json!({ "lines": [{ "article": "B", "count": b }, { "article": "A", "count": a }] }).to_string()
    };
    let outcome = deliver(&lane, "order-1", SHIP, &lines(1, 6)).await;
    assert_eq!(rejected(&outcome).code, "insufficient-stock");
    assert_eq!((stock(&database, "A").await, stock(&database, "B").await), (10, 5));
    deliver(&lane, "order-1", SHIP, &lines(1, 5)).await;
    assert_eq!((stock(&database, "A").await, stock(&database, "B").await), (9, 0));
}

async fn the_ledger_keeps_fence_and_attempt_for_an_audit(database: Database) {
    let lane = stocked(&database, settings()).await;
    let mut third = event("order-1", SHIP, THREE);
    third.event.id = "Bestellung 1".to_owned();
    third.event.tenant = "north".to_owned();
    (third.attempt, third.fence) = (3, Fence(5));
    lane.deliver(third).await;
    for (column, value) in [("fence", 5), ("attempt", 3)] {
        assert_eq!(
            database
                .number(&format!("select cast({column} as {}) from stock_ledger", integer(&database)))
                .await,
            value
        );
    }
    for (column, value) in
        [("event_id", "Bestellung 1"), ("tenant", "north"), ("topic", SHIP), ("dedup_id", "order-1")]
    {
        assert_eq!(database.text(&format!("select {column} from stock_ledger")).await, value);
    }
    let recent = match database.kind {
        Kind::Sqlite => "applied_at > (unixepoch() - 3600) * 1000000",
        Kind::Postgres => "applied_at > now() - interval '1 hour'",
        Kind::MariaDb => "applied_at > utc_timestamp() - interval 1 hour",
    };
    assert_eq!(database.number(&format!("select count(*) from stock_ledger where {recent}")).await, 1);
}

fn integer(database: &Database) -> &'static str {
    if database.kind == Kind::MariaDb { "signed" } else { "bigint" }
}

async fn existing_tables_serve_by_settings(database: Database) {
    database.run("create table goods (article varchar(40) primary key, on_hand int not null)").await;
    database.run("create table applied (msg varchar(255) primary key, digest char(64) not null, topic varchar(255) not null)").await;
    database.run("insert into goods values ('A', 10)").await;
    let settings = json!({
        "database": "shop",
        "stock": { "table": "goods", "sku": "article", "quantity": "on_hand" },
        "ledger": { "table": "applied", "columns": {
            "dedup_id": "msg", "content_hash": "digest", "event_id": false, "tenant": false, "fence": false,
            "attempt": false, "applied_at": false
        } },
    });
    let lane = plan("stock-ledger", &database, settings).load().await;
    assert_eq!(lane.plugin.check().await, Some(Ok(())));
    for _ in 0..2 {
        deliver(&lane, "order-1", SHIP, THREE).await;
    }
    let on_hand = format!("select cast(on_hand as {}) from goods", integer(&database));
    assert_eq!(
        (database.number(&on_hand).await, database.number("select count(*) from applied").await),
        (7, 1)
    );
}

async fn tables_that_are_not_there_stop_the_lane_and_show_in_check(database: Database) {
    let lane = plan("stock-ledger", &database, json!({ "database": "shop" })).load().await;
    let outcome = deliver(&lane, "order-1", SHIP, THREE).await;
    let Outcome::Misconfigured(detail) = &outcome else { panic!("{outcome:?}") };
    assert!(detail.message.contains("stock_ledger"), "{detail:?}");
    let checked = lane.plugin.check().await.expect("it has a check");
    assert!(matches!(&checked, Err(Outcome::Misconfigured(_))), "{checked:?}");
}

async fn a_batch_is_one_transaction_and_each_keeps_its_outcome(database: Database) {
    let lane = stocked(&database, settings()).await;
    let one = |n: u32, quantity: u32| {
        event(&format!("order-{n}"), SHIP, &json!({ "sku": "A", "quantity": quantity }).to_string())
    };
    let outcomes = lane.plugin.deliver_batch((1..=5).map(|n| one(n, 1)).collect()).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Delivered(_))), "{outcomes:?}");
    assert_eq!((lane.stats().batches, lane.stats().sql_commits - created()), (1, 1));
    let mixed = vec![one(1, 1), one(6, 1), one(2, 2), one(7, 100), one(8, 1)];
    let words: Vec<&str> = {
        let outcomes = lane.plugin.deliver_batch(mixed).await;
        outcomes.iter().map(Outcome::kind).collect()
    };
    assert_eq!(words, ["duplicate", "delivered", "conflict", "rejected", "delivered"]);
    assert_eq!((stock(&database, "A").await, recorded(&database).await), (3, 7));
}

/// Commits of `configure`: one for each table.
fn created() -> u64 {
    2
}

#[tokio::test]
async fn a_grant_that_is_missing_is_told_with_the_lines_to_add() {
    let database = Database::sqlite().await;
    let other = plan("stock-ledger", &database, json!({ "database": "stock" })).refusal().await;
    assert!(other.contains("/database") && other.contains("sql = [\"stock\"]"), "{other}");
    let bare =
        outhaul_tests::harness::Plan::of("stock-ledger", json!({ "database": "stock" })).refusal().await;
    assert!(bare.contains("imports outhaul:sql") && bare.contains("[sql.DATABASE]"), "{bare}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_down_makes_the_destination_unavailable_and_a_wrong_password_misconfigured() {
    for database in [Database::postgres().await, Database::mariadb().await] {
        let forward = Forward::start(database.url()).await;
        let through = |url: &str, settings: Value| {
            let granted = grant(url);
            plan("stock-ledger", &database, settings)
                .change(|spec| drop(spec.sql.insert("shop".to_owned(), granted)))
        };
        let lane = through(&forward.url(), settings()).load().await;
        database.run("insert into stock (sku, quantity) values ('A', 10)").await;
        assert!(matches!(deliver(&lane, "order-1", SHIP, THREE).await, Outcome::Delivered(_)));
        forward.cut().await;
        let mut outcome = deliver(&lane, "order-2", SHIP, THREE).await;
        assert!(matches!(&outcome, Outcome::Unavailable { .. }), "{outcome:?}");
        assert_eq!(detail(&outcome).code, "sql-unavailable");
        outcome = lane.plugin.check().await.expect("it has a check").expect_err("it is down");
        assert!(matches!(&outcome, Outcome::Unavailable { .. }), "{outcome:?}");
        forward.mend().await;
        assert!(matches!(deliver(&lane, "order-2", SHIP, THREE).await, Outcome::Delivered(_)));
        assert_eq!(stock(&database, "A").await, 4);
        let wrong = match database.kind {
            Kind::MariaDb => database.url().replace("outhaul:outhaul@", "outhaul:wrong@"),
            _ => database.url().replace("postgres@", "nobody_of_this_name@"),
        };
        let lane = through(&wrong, json!({ "database": "shop" })).load().await;
        let outcome = deliver(&lane, "order-3", SHIP, THREE).await;
        assert!(matches!(&outcome, Outcome::Misconfigured(_)), "{outcome:?}");
        assert_eq!(detail(&outcome).code, "sql-denied");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_which_nobody_knows_may_have_been_applied_and_the_next_attempt_finds_out() {
    for database in [Database::postgres().await, Database::mariadb().await] {
        let forward = Forward::start(database.url()).await;
        let lane = plan("stock-ledger", &database, settings())
            .change(|spec| drop(spec.sql.insert("shop".to_owned(), grant(&forward.url()))))
            .load()
            .await;
        database.run("insert into stock (sku, quantity) values ('A', 10)").await;
        forward.cut_at(database.commit_word());
        let outcome = deliver(&lane, "order-1", SHIP, THREE).await;
        assert!(matches!(&outcome, Outcome::Retry { detail, .. } if detail.maybe_applied), "{outcome:?}");
        forward.mend().await;
        let outcome = deliver(&lane, "order-1", SHIP, THREE).await;
        assert!(matches!(&outcome, Outcome::Delivered(_) | Outcome::Duplicate(_)), "{outcome:?}");
        assert_eq!((stock(&database, "A").await, recorded(&database).await), (7, 1));
    }
}
