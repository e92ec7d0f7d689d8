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

#[tokio::test]
async fn debezium_style_rows_become_events_and_those_from_before_too() {
    let database = outbox().await;
    database
        .run(
            "create table outboxevent (id uuid primary key, aggregatetype varchar(255) not null, \
              aggregateid varchar(255) not null, type varchar(255) not null, payload jsonb)",
        )
        .await;
    let row = format!("insert into outboxevent values ('{ID}', 'Order', '7', 'OrderPlaced', '{{\"n\": 1}}')");
    let event = format!("{ID} | order.OrderPlaced | 7 | application/json | {{\"n\": 1}}");
    database.run(&row).await;
    database.run(recipe("before")).await;
    assert_eq!(only_event(&database).await, event);
    database.run(recipe("debezium")).await;
    database
        .run(&format!(
            "begin; delete from outboxevent; {}; rollback",
            row.replace(ID, &ID.replace("0b", "0c"))
        ))
        .await;
    assert_eq!(only_event(&database).await, event, "what rolled back never was");
    // As services do it that let Debezium read the log.
    let second = row.replace(ID, &ID.replace("0b", "0d"));
    database.run(&format!("{second}; delete from outboxevent")).await;
    database.run(recipe("before")).await;
    assert_eq!(database.number("select count(*) from outbox_event").await, 2);
}

#[tokio::test]
async fn records_with_a_status_become_events_under_a_role_with_no_right_to_the_outbox() {
    let database = outbox().await;
    database
        .run(
            "create table outbox_record (id varchar(255) primary key, status varchar(20) not null, \
              record_key varchar(255) not null, record_type varchar(255) not null, payload text not null)",
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
