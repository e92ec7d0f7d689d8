//! `sql-table`: rows of any table by rules, once for each event.

use futures_util::future::join_all;
use outhaul::domain::Outcome;
use outhaul::plugin::Deliver;
use outhaul_tests::databases::{Database, Kind};
use outhaul_tests::harness::Lane;
use serde_json::{Value, json};

use crate::ledger::{deliver, event, plan, rejected};

outhaul_tests::on_each_database!(
    rows_are_inserted_updated_upserted_and_deleted_by_topic,
    an_event_that_comes_again_changes_nothing_and_one_with_other_content_is_a_conflict,
    what_does_not_fit_is_rejected_and_leaves_no_trace,
    an_upsert_changes_no_row_but_its_keys,
    every_type_reaches_its_column,
    the_check_reads_every_table_of_the_rules,
);

fn rules() -> Value {
    let columns = json!({ "id": "/id", "name": "/name", "visits": { "pointer": "/visits", "type": "integer", "optional": true } });
    let rule = |topic: &str, action: &str| json!({ "topics": [topic], "action": action, "table": "customers", "key": ["id"], "columns": columns });
    json!([
        rule("customer.created", "insert"),
        rule("customer.changed", "update"),
        rule("customer.seen", "upsert"),
        { "topics": ["customer.closed"], "action": "delete", "table": "customers", "key": ["id"], "columns": { "id": "/id" } },
        { "topics": ["customer.forgotten"], "action": "delete", "table": "customers", "key": ["id"],
          "columns": { "id": "/id" }, "no_row": "ignore" }
    ])
}

async fn lane(database: &Database) -> Lane {
    let text = if database.kind == Kind::MariaDb { "varchar(20)" } else { "text check (length(name) <= 20)" };
    let columns = format!("id bigint primary key, name {text} not null, visits bigint");
    database
        .run(&format!("create table customers ({columns})").replace(
            "bigint primary",
            if database.kind == Kind::Sqlite { "integer primary" } else { "bigint primary" },
        ))
        .await;
    plan("sql-table", database, json!({ "database": "shop", "create_tables": true, "rules": rules() }))
        .load()
        .await
}

async fn names(database: &Database) -> String {
    let join = match database.kind {
        Kind::Sqlite => {
            "select coalesce(group_concat(id || '=' || name || '/' || coalesce(visits, '-'), ' '), '') from (select * from customers order by id)"
        }
        Kind::Postgres => {
            "select coalesce(string_agg(id || '=' || name || '/' || coalesce(visits::text, '-'), ' ' order by id), '') from customers"
        }
        Kind::MariaDb => {
            "select coalesce(group_concat(concat(id, '=', name, '/', coalesce(visits, '-')) order by id separator ' '), '') from customers"
        }
    };
    database.text(join).await
}

async fn rows_are_inserted_updated_upserted_and_deleted_by_topic(database: Database) {
    let lane = lane(&database).await;
    for (n, (topic, payload, after)) in [
        ("customer.created", json!({ "id": 1, "name": "Ada" }), "1=Ada/-"),
        ("customer.seen", json!({ "id": 2, "name": "Bob", "visits": 1 }), "1=Ada/- 2=Bob/1"),
        ("customer.seen", json!({ "id": 2, "name": "Bob", "visits": 2 }), "1=Ada/- 2=Bob/2"),
        ("customer.changed", json!({ "id": 1, "name": "Ada L.", "visits": 9 }), "1=Ada L./9 2=Bob/2"),
        ("customer.closed", json!({ "id": 2 }), "1=Ada L./9"),
        ("customer.forgotten", json!({ "id": 2 }), "1=Ada L./9"),
        ("customer.forgotten", json!({ "id": 1 }), ""),
    ]
    .into_iter()
    .enumerate()
    {
        let outcome = deliver(&lane, &format!("e-{n}"), topic, &payload.to_string()).await;
        assert!(matches!(&outcome, Outcome::Delivered(_)), "{topic}: {outcome:?}");
        assert_eq!(names(&database).await, after, "after {topic} {payload}");
    }
    assert_eq!(database.number("select count(*) from outhaul_ledger").await, 7);
}

async fn an_event_that_comes_again_changes_nothing_and_one_with_other_content_is_a_conflict(
    database: Database,
) {
    let lane = lane(&database).await;
    let (first, other) = (r#"{"id":1,"name":"Ada"}"#, r#"{"id":1,"name":"Eve"}"#);
    deliver(&lane, "e-1", "customer.seen", first).await;
    database.run("update customers set name = 'by hand' where id = 1").await;
    let again = deliver(&lane, "e-1", "customer.seen", first).await;
    assert!(matches!(&again, Outcome::Duplicate(_)), "{again:?}");
    let conflict = deliver(&lane, "e-1", "customer.seen", other).await;
    assert!(matches!(&conflict, Outcome::Conflict(_)), "{conflict:?}");
    assert_eq!(names(&database).await, "1=by hand/-");
    let both = vec![event("e-2", "customer.seen", other), event("e-1", "customer.seen", first)];
    let outcomes = lane.plugin.deliver_batch(both).await;
    assert_eq!(outcomes.iter().map(Outcome::kind).collect::<Vec<_>>(), ["delivered", "duplicate"]);
}

async fn what_does_not_fit_is_rejected_and_leaves_no_trace(database: Database) {
    let lane = lane(&database).await;
    let long = json!({ "id": 1, "name": "x".repeat(21) }).to_string();
    let too_long = if database.kind == Kind::MariaDb { "sql-data" } else { "sql-constraint" };
    for (n, (topic, payload, code)) in [
        ("customer.unknown", "{}", "no-rule"),
        ("customer.created", "{}", "payload"),
        ("customer.created", "not json", "payload"),
        ("customer.created", r#"{"id":1,"name":null}"#, "sql-constraint"),
        ("customer.created", &long, too_long),
        ("customer.changed", r#"{"id":5,"name":"x"}"#, "no-row"),
        ("customer.closed", r#"{"id":5}"#, "no-row"),
    ]
    .into_iter()
    .enumerate()
    {
        let outcome = deliver(&lane, &format!("e-{n}"), topic, payload).await;
        assert_eq!(rejected(&outcome).code, code, "{topic} {payload}: {outcome:?}");
    }
    deliver(&lane, "one", "customer.created", r#"{"id":1,"name":"Ada"}"#).await;
    let outcome = deliver(&lane, "two", "customer.created", r#"{"id":1,"name":"Bob"}"#).await;
    assert_eq!(rejected(&outcome).code, "sql-unique-violation");
    assert_eq!(
        (names(&database).await.as_str(), database.number("select count(*) from outhaul_ledger").await),
        ("1=Ada/-", 1)
    );
}

async fn an_upsert_changes_no_row_but_its_keys(database: Database) {
    let lane = lane(&database).await;
    database.run("create unique index one_name on customers (name)").await;
    deliver(&lane, "e-1", "customer.seen", r#"{"id":1,"name":"Ada"}"#).await;
    deliver(&lane, "e-2", "customer.seen", r#"{"id":2,"name":"Bob"}"#).await;
    for (event, payload) in
        [("e-3", r#"{"id":3,"name":"Ada","visits":7}"#), ("e-4", r#"{"id":2,"name":"Ada"}"#)]
    {
        let outcome = deliver(&lane, event, "customer.seen", payload).await;
        assert_eq!(rejected(&outcome).code, "sql-unique-violation", "{payload}: {outcome:?}");
    }
    assert_eq!(names(&database).await, "1=Ada/- 2=Bob/-");
    // As it is, and once more as it is: MySQL counts no change, and it is no insert either.
    for event in ["e-5", "e-6"] {
        let outcome = deliver(&lane, event, "customer.seen", r#"{"id":1,"name":"Ada"}"#).await;
        assert!(matches!(&outcome, Outcome::Delivered(_)), "{outcome:?}");
    }
    assert_eq!(names(&database).await, "1=Ada/- 2=Bob/-");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upserts_of_one_key_that_race_are_applied_one_after_the_other() {
    for database in [Database::postgres().await, Database::mariadb().await] {
        let lane = lane(&database).await;
        let seen = |n: usize| {
            let (lane, payload) = (&lane, json!({ "id": 1, "name": "Ada", "visits": n }).to_string());
            async move {
                // Who lost the race for the first row is to come again.
                loop {
                    let outcome = deliver(lane, &format!("e-{n}"), "customer.seen", &payload).await;
                    match outcome {
                        Outcome::Retry { .. } => {}
                        outcome => return outcome,
                    }
                }
            }
        };
        let outcomes = join_all((0..8).map(seen)).await;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Delivered(_))), "{outcomes:?}");
        assert_eq!(database.number("select count(*) from customers").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_another_type_than_its_column_is_rejected_and_the_lane_goes_on() {
    for database in [Database::postgres().await, Database::mariadb().await] {
        database.run("create table visits (id bigint primary key, number integer)").await;
        let columns = json!({ "id": "/id", "number": "/number" });
        let rules = json!([{ "topics": ["*"], "action": "insert", "table": "visits", "columns": columns }]);
        let settings = json!({ "database": "shop", "create_tables": true, "rules": rules });
        let lane = plan("sql-table", &database, settings).load().await;
        for (n, payload) in
            [r#"{"id":1,"number":"many"}"#, r#"{"id":1,"number":true}"#].into_iter().enumerate()
        {
            let outcome = deliver(&lane, &format!("wrong-{n}"), "a.b", payload).await;
            // MariaDB takes a truth for a number.
            if n == 0 || database.kind == Kind::Postgres {
                assert_eq!(rejected(&outcome).code, "sql-data", "{payload}: {outcome:?}");
            }
        }
        let outcome = deliver(&lane, "right", "a.b", r#"{"id":2,"number":7}"#).await;
        assert!(matches!(&outcome, Outcome::Delivered(_)), "{outcome:?}");
    }
}

async fn every_type_reaches_its_column(database: Database) {
    let types = match database.kind {
        Kind::Sqlite => ["text", "text", "integer", "text", "text", "blob", "boolean", "real"],
        Kind::Postgres => {
            ["text", "numeric(12,2)", "timestamptz", "jsonb", "uuid", "bytea", "boolean", "double precision"]
        }
        Kind::MariaDb => {
            ["text", "decimal(12,2)", "datetime(6)", "json", "uuid", "blob", "boolean", "double"]
        }
    };
    let names = ["words", "exact", "moment", "doc", "id", "raw", "truth", "part"];
    let columns: Vec<String> = names.iter().zip(types).map(|(name, kind)| format!("{name} {kind}")).collect();
    database.run(&format!("create table wide (topic varchar(99), {})", columns.join(", "))).await;
    let of = |kind: &str| json!({ "pointer": format!("/{kind}"), "type": kind });
    let rules = json!([{ "topics": ["*"], "action": "insert", "table": "wide", "columns": {
        "topic": { "event": "topic" }, "words": of("text"), "exact": of("decimal"), "moment": of("timestamp"),
        "doc": of("json"), "id": of("uuid"), "raw": of("bytes"), "truth": of("boolean"), "part": of("float")
    } }]);
    let settings = json!({ "database": "shop", "create_tables": true, "rules": rules });
    let lane = plan("sql-table", &database, settings).load().await;
    let payload = json!({
        "text": "ä", "decimal": "12.50", "timestamp": "2024-02-29T13:34:56.5+01:00", "json": { "a": [1] },
        "uuid": "0190A0B2-7C1D-7E3F-8A4B-5C6D7E8F9A0B", "bytes": "AP+A", "boolean": true, "float": 0.5
    });
    let outcome = deliver(&lane, "e-1", "any.topic", &payload.to_string()).await;
    assert!(matches!(&outcome, Outcome::Delivered(_)), "{outcome:?}");
    let matching = match database.kind {
        Kind::Sqlite => "exact = '12.50' and moment = 1709210096500000 and raw = x'00ff80'",
        Kind::Postgres => {
            "exact = 12.50 and moment = '2024-02-29 12:34:56.5Z' and raw = '\\x00ff80' and doc = '{\"a\":[1]}'"
        }
        Kind::MariaDb => {
            "exact = 12.50 and moment = '2024-02-29 12:34:56.5' and raw = x'00ff80' and json_value(doc, '$.a[0]') = 1"
        }
    };
    let same = "topic = 'any.topic' and words = 'ä' and truth and part = 0.5 and id = '0190a0b2-7c1d-7e3f-8a4b-5c6d7e8f9a0b'";
    assert_eq!(database.number(&format!("select count(*) from wide where {same} and {matching}")).await, 1);
}

async fn the_check_reads_every_table_of_the_rules(database: Database) {
    let lane = lane(&database).await;
    assert_eq!(lane.plugin.check().await, Some(Ok(())));
    database.run("alter table customers rename column visits to calls").await;
    let checked = lane.plugin.check().await.expect("it has a check");
    assert!(
        matches!(&checked, Err(Outcome::Misconfigured(detail)) if detail.message.contains("visits")),
        "{checked:?}"
    );
}

#[tokio::test]
async fn rules_that_can_not_work_are_refused_at_load_with_their_place() {
    let database = Database::sqlite().await;
    let rules =
        json!([{ "topics": ["*"], "action": "update", "table": "t; drop", "columns": { "a": "/a" } }]);
    let refusal = plan("sql-table", &database, json!({ "database": "shop", "rules": rules })).refusal().await;
    assert!(refusal.contains("/rules/0/table") && refusal.contains("is no name"), "{refusal}");
    let rules = json!([{ "topics": ["*"], "action": "update", "table": "t", "columns": { "a": "/a" } }]);
    let refusal = plan("sql-table", &database, json!({ "database": "shop", "rules": rules })).refusal().await;
    assert!(refusal.contains("/rules/0/key: name the columns that find the row"), "{refusal}");
}
