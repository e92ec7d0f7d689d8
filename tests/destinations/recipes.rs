//! The recipes' statements, as the page has them, on a real outbox.

use std::path::Path;

use outhaul::service::config::{Config, read_text};
use outhaul::service::stores::open_stores;
use outhaul_tests::databases::Database;

const PAGE: &str = include_str!("../../host/docs/recipes.md");

/// The block of SQL that is marked with this word.
fn recipe(word: &str) -> &'static str {
    let (_, after) =
        PAGE.split_once(&format!("```sql {word}\n")).unwrap_or_else(|| panic!("no recipe {word}"));
    after.split_once("```").expect("a block ends").0
}

async fn outbox() -> Database {
    let database = Database::postgres().await;
    let text = format!("version = 1\n[outbox]\nurl = \"{}\"\n", database.url());
    let config = Config { path: "x.toml".into(), file: read_text(&text, Path::new("/")).expect("a config") };
    let stores = open_stores(&config).await.expect("it opens");
    stores.schema.migrate().await.expect("the tables are made");
    database.run(recipe("names")).await;
    database
}

/// ID, topic, key, content type and payload of the only event.
async fn only_event(database: &Database) -> String {
    assert_eq!(database.number("select count(*) from outbox_event").await, 1);
    let all = "select concat_ws(' | ', event_id, topic, partition_key, content_type, convert_from(payload, 'UTF8')) \
               from outbox_event";
    database.text(all).await
}

const ID: &str = "0190a0b2-7c1d-7e3f-8a4b-5c6d7e8f9a0b";

const DEBEZIUM: &str = "create table outboxevent (id uuid primary key, aggregatetype varchar(255), \
                        aggregateid varchar(255), type varchar(255), payload jsonb)";

/// A row under an ID that ends in these digits.
fn row(end: &str, values: &str) -> String {
    format!("insert into outboxevent values ('{}', {values})", ID.replace("0b", end))
}

const ORDER: &str = "'Order', '7', 'OrderPlaced', '{\"n\": 1}'";

#[tokio::test]
async fn debezium_style_rows_become_events() {
    let database = outbox().await;
    database.run(DEBEZIUM).await;
    database.run(recipe("debezium")).await;
    database.run(&row("0b", ORDER)).await;
    let event = format!("{ID} | order.OrderPlaced | 7 | application/json | {{\"n\": 1}}");
    assert_eq!(only_event(&database).await, event);
    database.run(&format!("begin; {}; rollback", row("0c", ORDER))).await;
    assert_eq!(only_event(&database).await, event, "what rolled back never was");
    // As services do it that let Debezium read the log.
    database.run(&format!("{}; delete from outboxevent", row("0d", ORDER))).await;
    assert_eq!(database.number("select count(*) from outbox_event").await, 2);
}

#[tokio::test]
async fn rows_from_before_become_events_once_in_their_order_and_without_a_gap() {
    let database = outbox().await;
    database.run(DEBEZIUM).await;
    for (end, number) in [("f0", 1), ("a0", 2), ("c0", 3)] {
        let values = format!("'Order', '7', 'OrderPlaced', '{{\"n\": {number}}}'");
        database.run(&row(end, &values)).await;
    }
    database.run(&row("d0", "null, '', ' ', null")).await;
    database.run(recipe("debezium")).await;
    // A writer that has begun when the copy starts, and that none of the two would see without the lock.
    let mut writer = database.connect().await;
    writer
        .run(&format!("begin; alter table outboxevent disable trigger outhaul; {}", row("b0", ORDER)))
        .await;
    writer.run("alter table outboxevent enable trigger outhaul").await;
    let copy = database.run(recipe("before"));
    let commit = async {
        let waits = "select count(*) from pg_locks where not granted and relation = 'outboxevent'::regclass";
        let mut watch = database.connect().await;
        while watch.number(waits).await == 0 {
            tokio::task::yield_now().await;
        }
        writer.run("commit").await;
    };
    tokio::join!(copy, commit);
    database.run(&row("e0", ORDER)).await;
    database.run(recipe("before")).await;
    let ends = "select string_agg(right(event_id, 2), ' ' order by seq) from outbox_event";
    assert_eq!(database.text(ends).await, "f0 a0 c0 d0 b0 e0");
}

#[tokio::test]
async fn what_the_outbox_would_refuse_fails_no_transaction() {
    let database = outbox().await;
    database.run(DEBEZIUM).await;
    database.run(recipe("debezium")).await;
    let long = "x".repeat(250);
    for (end, values, expected) in [
        ("01", "null, null, null, null".to_owned(), "unnamed | -".to_owned()),
        ("02", "'', '', '', '{}'".to_owned(), "unnamed | -".to_owned()),
        (
            "03",
            "' My Order ', ' 7', E'was\\tplaced\\n', '{}'".to_owned(),
            "my_order_.was_placed |  7".to_owned(),
        ),
        ("04", format!("'{long}', '7', '{long}', '{{}}'"), format!("{}.", "x".repeat(55))),
        ("05", format!("'Order', '{}', 'p', '{{}}'", "é".repeat(255)), "order.p | ".to_owned()),
    ] {
        database.run(&row(end, &values)).await;
        let of_row = format!(
            "select concat(topic, ' | ', coalesce(partition_key, '-')) from outbox_event \
             where event_id like '%{end}'"
        );
        let found = database.text(&of_row).await;
        assert!(found.starts_with(&expected), "{values}: {found}");
    }
    let keys =
        "select count(distinct partition_key) from outbox_event where octet_length(partition_key) = 32";
    assert_eq!(database.number(keys).await, 1);
    for (argument, expected) in [("null", 36), ("''", 36), ("repeat('é', 200)", 32), ("'order-1'", 7)] {
        assert_eq!(
            database.number(&format!("select length(outhaul_id({argument}))::bigint")).await,
            expected
        );
    }
}

#[tokio::test]
async fn records_with_a_status_become_events_under_a_role_with_no_right_to_the_outbox() {
    let database = outbox().await;
    database
        .run(
            "create table outbox_record (id varchar(255) primary key, status varchar(20) not null, \
              record_key varchar(255), record_type varchar(255) not null, payload text)",
        )
        .await;
    database.run(recipe("status")).await;
    let role = format!("service_{}", uuid::Uuid::new_v4().simple());
    database
        .run(&format!(
            "create role {role}; grant insert on outbox_record to {role}; set role {role}; \
             insert into outbox_record values ('r-1', 'NEW', 'order-7', 'order placed', '{{}}'); reset role"
        ))
        .await;
    assert_eq!(only_event(&database).await, "r-1 | order_placed | order-7 | application/json | {}");
    database
        .run("insert into outbox_record values ('', 'NEW', '', '', null), ('r-2', 'NEW', null, ' ', '')")
        .await;
    let unnamed = "select count(*) from outbox_event where topic = 'unnamed' and partition_key is null";
    assert_eq!(database.number(unnamed).await, 2);
    database.run(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn masstransit_like_rows_become_events() {
    let database = outbox().await;
    database
        .run("create table \"OutboxMessage\" (\"SequenceNumber\" bigint generated always as identity primary key, \
              \"MessageId\" uuid not null, \"ConversationId\" uuid, \"ContentType\" varchar(256) not null, \
              \"MessageType\" text not null, \"Body\" text not null, \"Headers\" text)")
        .await;
    database.run(recipe("masstransit")).await;
    let body = r#"{"message":{}}"#;
    database
        .run(&format!(
            "insert into \"OutboxMessage\" (\"MessageId\", \"ConversationId\", \"ContentType\", \"MessageType\", \"Body\") \
             values ('{ID}', '{ID}', 'application/vnd.masstransit+json', \
             'urn:message:Shop.Orders:OrderPlaced;urn:message:Shop:Event', '{body}')"
        ))
        .await;
    let expected =
        format!("{ID} | Shop.Orders.OrderPlaced | {ID} | application/vnd.masstransit+json | {body}");
    assert_eq!(only_event(&database).await, expected);
}
