//! Each type of value, there and back: written by a parameter, read as a column.

use outhaul_tests::databases::{Database, Kind};
use serde_json::{Value, json};

use crate::lane::{committed, kind, lane, sentence, steps};

outhaul_tests::on_each_database!(
    every_value_comes_back_as_the_table_of_the_cookbook_says,
    a_null_fits_every_column_and_the_same_statement_takes_a_value_afterwards,
    numbers_and_texts_at_their_ends_are_kept,
    a_result_has_its_columns_names_and_no_row_is_no_error,
);

/// SQLite, PostgreSQL, MariaDB.
type Types = [&'static str; 3];

const COLUMNS: [(&str, Types); 9] = [
    ("truth", ["boolean", "boolean", "boolean"]),
    ("whole", ["integer", "bigint", "bigint"]),
    ("part", ["real", "double precision", "double"]),
    ("exact", ["text", "numeric(20,4)", "decimal(20,4)"]),
    ("words", ["text", "text", "text character set utf8mb4"]),
    ("raw", ["blob", "bytea", "blob"]),
    ("moment", ["integer", "timestamptz", "datetime(6)"]),
    ("doc", ["text", "jsonb", "json"]),
    ("id", ["text", "uuid", "uuid"]),
];

fn of_kind<T: Clone>(database: &Database, each: &[T; 3]) -> T {
    match database.kind {
        Kind::Sqlite => each[0].clone(),
        Kind::Postgres => each[1].clone(),
        Kind::MariaDb => each[2].clone(),
    }
}

async fn table(database: &Database) {
    let columns: Vec<String> =
        COLUMNS.iter().map(|(name, types)| format!("{name} {} null", of_kind(database, types))).collect();
    database.run(&format!("create table v (n int primary key, {})", columns.join(", "))).await;
}

fn places(database: &Database, count: usize) -> String {
    let place = |n: usize| if database.kind == Kind::Postgres { format!("${n}") } else { "?".to_owned() };
    (1..=count).map(place).collect::<Vec<_>>().join(", ")
}

fn insert(database: &Database, values: &[Value]) -> Value {
    let text = format!("insert into v values ({})", places(database, values.len()));
    Value::from([&[json!("execute"), json!(text)], values].concat())
}

const MOMENT_US: i64 = 1_709_210_096_123_456;
const DOC: &str = r#"{"a": [1, "ä"]}"#;
const ID: &str = "0190a0b2-7c1d-7e3f-8a4b-5c6d7e8f9a0b";

async fn every_value_comes_back_as_the_table_of_the_cookbook_says(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    let written = [
        json!({"integer": 1}),
        json!({"boolean": true}),
        json!({"integer": -7}),
        json!({"float": 0.1}),
        json!({"decimal": "12.5000"}),
        json!({"text": "naïve '\";-- 雪"}),
        json!({"bytes": "00ff80"}),
        json!({"timestamp": MOMENT_US}),
        json!({"json": DOC}),
        json!({"uuid": ID}),
    ];
    let inserted = committed(&lane, &[insert(&database, &written)]).await;
    assert_eq!(inserted, [json!(1)]);
    let read = committed(&lane, &[json!(["query", "select * from v"])]).await;
    let same = |value: Value| [value.clone(), value.clone(), value];
    let expected = [
        same(json!({"integer": 1})),
        same(json!({"boolean": true})),
        same(json!({"integer": -7})),
        same(json!({"float": 0.1})),
        [json!({"text": "12.5000"}), json!({"decimal": "12.5000"}), json!({"decimal": "12.5000"})],
        same(json!({"text": "naïve '\";-- 雪"})),
        same(json!({"bytes": "00ff80"})),
        [json!({"integer": MOMENT_US}), json!({"timestamp": MOMENT_US}), json!({"timestamp": MOMENT_US})],
        [json!({"text": DOC}), json!({"json": DOC}), json!({"text": DOC})],
        [json!({"text": ID}), json!({"uuid": ID}), json!({"text": ID})],
    ];
    let expected: Vec<Value> = expected.iter().map(|each| of_kind(&database, each)).collect();
    assert_eq!(read[0]["rows"], json!([expected]));
}

async fn a_null_fits_every_column_and_the_same_statement_takes_a_value_afterwards(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    let nulls = |n: i64| {
        let mut values = vec![Value::Null; 10];
        values[0] = json!({"integer": n});
        values
    };
    let values = |n: i64| {
        let mut values = nulls(n);
        values[1] = json!({"boolean": false});
        values[2] = json!({"integer": 5});
        values[7] = json!({"timestamp": MOMENT_US});
        values
    };
    let steps: Vec<Value> =
        [nulls(1), values(2), nulls(3)].iter().map(|row| insert(&database, row)).collect();
    assert_eq!(committed(&lane, &steps).await, [json!(1), json!(1), json!(1)]);
    let read = committed(&lane, &[json!(["query", "select truth, whole, raw from v order by n"])]).await;
    let (nothing, row) = (json!([null, null, null]), json!([{"boolean": false}, {"integer": 5}, null]));
    assert_eq!(read[0]["rows"], json!([nothing, row, nothing]));
}

async fn numbers_and_texts_at_their_ends_are_kept(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    let mut rows = Vec::new();
    for (n, whole, exact, text, bytes) in [
        (1, i64::MAX, "9999999999999999.9999", "", ""),
        (2, i64::MIN, "-0.0001", "a\nb\tc\\d", "00"),
        (3, 0, "0.0000", &"x".repeat(10_000), &"ab".repeat(5_000)),
    ] {
        let mut values = vec![Value::Null; 10];
        values[0] = json!({"integer": n});
        values[2] = json!({"integer": whole});
        values[4] = json!({"decimal": exact});
        values[5] = json!({"text": text});
        values[6] = json!({"bytes": bytes});
        committed(&lane, &[insert(&database, &values)]).await;
        let exact =
            if database.kind == Kind::Sqlite { json!({"text": exact}) } else { json!({"decimal": exact}) };
        rows.push(json!([{"integer": whole}, exact, {"text": text}, {"bytes": bytes}]));
    }
    let query = "select whole, exact, words, raw from v order by n";
    let read = committed(&lane, &[json!(["query", query])]).await;
    assert_eq!(read[0]["rows"], json!(rows));
}

async fn a_result_has_its_columns_names_and_no_row_is_no_error(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    let values = [vec![json!({"integer": 1})], vec![Value::Null; 9]].concat();
    committed(&lane, &[insert(&database, &values)]).await;
    let read = committed(
        &lane,
        &[
            json!(["query", "select n as number, words from v"]),
            json!(["query", "select n from v where n = 2"]),
        ],
    )
    .await;
    assert_eq!(read[0]["columns"], json!(["number", "words"]));
    assert_eq!(read[1]["rows"], json!([]));
}

#[tokio::test]
async fn a_type_that_has_no_value_is_told_with_the_cast_that_mends_it() {
    let database = Database::postgres().await;
    let lane = lane(database.grant()).await;
    let found = steps(&lane, json!([["begin"], ["query", "select array[1, 2] as list"]])).await;
    assert_eq!(kind(&found[1]), "other");
    assert!(sentence(&found[1]).contains("\"list\"") && sentence(&found[1]).contains("cast it"), "{found:?}");
    database.run("create type mood as enum ('sad', 'ok')").await;
    let found = committed(
        &lane,
        &[json!(["query", "select $1::mood, date '2024-02-29', 1::smallint, 'NaN'::numeric", {"text": "ok"}])],
    )
    .await;
    assert_eq!(
        found[0]["rows"],
        json!([[{"text": "ok"}, {"text": "2024-02-29"}, {"integer": 1}, {"decimal": "NaN"}]])
    );
}

#[tokio::test]
async fn what_an_integer_can_not_hold_is_a_decimal() {
    let database = Database::mariadb().await;
    let lane = lane(database.grant()).await;
    database.run("create table big (n bigint unsigned, small tinyint unsigned, at date)").await;
    database.run("insert into big values (18446744073709551615, 255, '2024-02-29')").await;
    let found = committed(&lane, &[json!(["query", "select * from big"])]).await;
    assert_eq!(
        found[0]["rows"],
        json!([[{"decimal": "18446744073709551615"}, {"integer": 255}, {"text": "2024-02-29"}]])
    );
}
