//! Errors told apart, and a transaction that is over after any of them.

use outhaul::plugin::spec::SqlIsolation;
use outhaul_tests::databases::{Database, Kind};
use serde_json::{Value, json};

use crate::lane::{committed, kind, lane, lane_with, sentence, steps, steps_in};

outhaul_tests::on_each_database!(
    a_unique_violation_names_the_constraint,
    another_constraint_and_a_value_that_does_not_fit_are_told_apart,
    a_wrong_statement_is_the_statements_fault,
    after_any_error_the_transaction_is_over_and_nothing_of_it_remains,
    after_commit_and_after_rollback_everything_is_closed,
    a_dropped_transaction_leaves_nothing,
    what_is_the_hosts_is_refused,
    the_dialect_and_its_placeholder_are_told,
    a_database_that_is_not_granted_is_denied_with_the_lines_to_add,
);

async fn table(database: &Database) {
    let (number, word, strict) = match database.kind {
        Kind::Sqlite => ("integer", "text", "strict"),
        Kind::Postgres | Kind::MariaDb => ("bigint", "varchar(3)", ""),
    };
    let columns = format!("a {number} not null, qty {number} not null check (qty >= 0), word {word}");
    database.run(&format!("create table t ({columns}, constraint a_once unique (a)) {strict}")).await;
    database.run("insert into t values (1, 1, 'x')").await;
}

const BEGIN: [&str; 1] = ["begin"];

/// One statement in a transaction, which fails.
async fn failing(database: &Database, statement: &str) -> Value {
    let lane = lane(database.grant()).await;
    let mut found = steps(&lane, json!([BEGIN, ["execute", statement]])).await;
    found.remove(1)
}

async fn a_unique_violation_names_the_constraint(database: Database) {
    table(&database).await;
    let found = failing(&database, "insert into t values (1, 2, 'y')").await;
    let name = if database.kind == Kind::Sqlite { "t.a" } else { "a_once" };
    assert_eq!((kind(&found), found[1].as_str()), ("unique-violation", Some(name)), "{found}");
    assert!(sentence(&found).starts_with("database \"db\": "), "{found}");
}

async fn another_constraint_and_a_value_that_does_not_fit_are_told_apart(database: Database) {
    table(&database).await;
    for (statement, expected) in [
        ("insert into t values (2, -1, 'y')", "constraint"),
        ("insert into t values (2, null, 'y')", "constraint"),
    ] {
        assert_eq!(kind(&failing(&database, statement).await), expected, "{statement}");
    }
    // SQLite's strict tables check types and no lengths.
    let wrong = match database.kind {
        Kind::Sqlite => "insert into t values (2, 'two', 'y')",
        Kind::Postgres | Kind::MariaDb => "insert into t values (2, 2, 'too long')",
    };
    assert_eq!(kind(&failing(&database, wrong).await), "data", "{wrong}");
}

async fn a_wrong_statement_is_the_statements_fault(database: Database) {
    table(&database).await;
    for statement in ["select nothing from t", "select * from nowhere", "insert into t valuse (1)"] {
        let found = failing(&database, statement).await;
        assert_eq!(kind(&found), "syntax", "{statement}: {found}");
    }
    let lane = lane(database.grant()).await;
    let place = if database.kind == Kind::Postgres { "$1" } else { "?" };
    for parameters in [json!([]), json!([{"integer": 1}, {"integer": 2}])] {
        let statement = json!(format!("select * from t where a = {place}"));
        let step = [vec![json!("query"), statement], parameters.as_array().unwrap().clone()].concat();
        let found = steps(&lane, json!([BEGIN, step])).await;
        // PostgreSQL takes more parameters than the statement uses.
        if !(database.kind == Kind::Postgres && parameters[1].is_object()) {
            assert_eq!(kind(&found[1]), "syntax", "{found:?}");
        }
        // The connection is none the worse.
        assert_eq!(committed(&lane, &[json!(["query", "select 1 as one"])]).await.len(), 1);
    }
}

async fn after_any_error_the_transaction_is_over_and_nothing_of_it_remains(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    let found = steps(
        &lane,
        json!([
            BEGIN,
            ["execute", "insert into t values (7, 7, 'x')"],
            ["execute", "insert into t values (1, 1, 'x')"],
            ["execute", "insert into t values (8, 8, 'x')"],
            ["commit"],
            BEGIN,
            ["execute", "insert into t values (9, 9, 'x')"],
            ["commit"]
        ]),
    )
    .await;
    assert_eq!((kind(&found[2]), kind(&found[3]), kind(&found[4])), ("unique-violation", "closed", "closed"));
    assert_eq!(found[7], json!("committed"));
    assert_eq!(database.number("select count(*) from t").await, 2);
    assert_eq!(database.number("select max(a) from t").await, 9);
}

async fn after_commit_and_after_rollback_everything_is_closed(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    for end in ["commit", "rollback"] {
        let after =
            json!([BEGIN, [end], ["execute", "select 1"], ["query", "select 1"], ["commit"], ["rollback"]]);
        let found = steps(&lane, after).await;
        for later in &found[2..] {
            assert_eq!(kind(later), "closed", "after {end}: {found:?}");
        }
    }
}

async fn a_dropped_transaction_leaves_nothing(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    let insert = json!(["execute", "insert into t values (5, 5, 'x')"]);
    let found = steps(&lane, json!([BEGIN, insert, ["drop"], BEGIN, insert, ["rollback"]])).await;
    assert_eq!((&found[1], &found[4]), (&json!(1), &json!(1)));
    assert_eq!(database.number("select count(*) from t").await, 1);
    let stats = lane.stats();
    assert_eq!((stats.sql_connections_opened, stats.sql_transactions, stats.sql_commits), (1, 2, 0));
}

async fn what_is_the_hosts_is_refused(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    for statement in [
        "commit",
        "begin",
        "rollback",
        "savepoint s",
        "set time zone 'UTC'",
        "attach database '/tmp/x.db' as x",
        "pragma foreign_keys = off",
        "select 1; commit",
        "insert into t values (6, 6, 'x'); attach database '/tmp/x.db' as x",
    ] {
        let insert = json!(["execute", "insert into t values (5, 5, 'x')"]);
        let found = steps(&lane, json!([BEGIN, insert, ["execute", statement], ["commit"]])).await;
        assert_eq!((kind(&found[2]), kind(&found[3])), ("syntax", "closed"), "{statement}: {found:?}");
    }
    assert_eq!(database.number("select count(*) from t").await, 1);
}

async fn the_dialect_and_its_placeholder_are_told(database: Database) {
    let lane = lane(database.grant()).await;
    let told = match database.kind {
        Kind::Sqlite => "Dialect::Sqlite ?",
        Kind::Postgres => "Dialect::Postgresql $",
        Kind::MariaDb => "Dialect::Mysql ?",
    };
    assert_eq!(steps(&lane, json!([["dialect"]])).await, [json!(told)]);
}

async fn a_database_that_is_not_granted_is_denied_with_the_lines_to_add(database: Database) {
    let lane = lane(database.grant()).await;
    let found = steps_in(&lane, "other", json!([BEGIN])).await;
    assert_eq!(kind(&found[0]), "denied");
    let told = sentence(&found[0]);
    assert!(
        told.contains("add  sql = [\"other\"]") && told.contains("[sql.other]") && told.contains("db"),
        "{told}"
    );
    let denied = lane.plugin.denied();
    assert_eq!(denied.iter().find(|(kind, _)| *kind == "sql"), Some(&("sql", 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_lost_against_another_is_told_so() {
    let database = Database::postgres().await;
    table(&database).await;
    let mut serializable = database.grant();
    serializable.isolation = SqlIsolation::Serializable;
    let (one, two) = (lane(serializable.clone()).await, lane(serializable).await);
    // Each reads what the other changes.
    let swing = |a: i32| {
        json!([
            BEGIN,
            ["query", "select sum(qty) from t"],
            ["execute", format!("insert into t values ({a}, 1, 'x')")],
            ["query", "select pg_sleep(0.5)::text"],
            ["commit"]
        ])
    };
    let (first, second) = tokio::join!(steps(&one, swing(21)), steps(&two, swing(22)));
    let lost = [&first, &second]
        .into_iter()
        .filter(|found| found.iter().any(|step| step[0] == "serialization"))
        .count();
    assert_eq!(lost, 1, "{first:?} {second:?}");
    assert_eq!(database.number("select count(*) from t").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_told_as_one_on_postgresql_and_mariadb() {
    for database in [Database::postgres().await, Database::mariadb().await] {
        table(&database).await;
        database.run("insert into t values (2, 2, 'y')").await;
        let wide = |spec: &mut outhaul::plugin::spec::PluginSpec| {
            spec.limits.sql.statement = std::time::Duration::from_secs(8);
            spec.limits.sql.transaction = std::time::Duration::from_secs(9);
        };
        let lane = lane_with(database.grant(), wide).await;
        // The test's hand holds the second row, and waits for the first, which the plugin holds.
        let mut hand = database.connect().await;
        hand.run(if database.kind == Kind::Postgres { "begin" } else { "start transaction" }).await;
        // Much written makes MariaDB choose the other for its victim.
        for n in 100..160 {
            hand.run(&format!("insert into t values ({n}, 1, 'x')")).await;
        }
        hand.run("update t set qty = 5 where a = 2").await;
        let update = |a: i32| json!(["execute", format!("update t set qty = 6 where a = {a}")]);
        let plugin = steps(&lane, json!([BEGIN, update(1), update(2), ["commit"]]));
        let other = async {
            let mut watch = database.connect().await;
            let waits = match database.kind {
                Kind::Postgres => "select count(*) from pg_locks where not granted",
                _ => "select count(*) from information_schema.innodb_lock_waits",
            };
            while watch.number(waits).await == 0 {
                // InnoDB tells it anew if it was not asked for 100 ms.
                tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            }
            // PostgreSQL ends whoever finds the circle first: it must not be the hand.
            if database.kind == Kind::Postgres {
                hand.run("set local deadlock_timeout = '20s'").await;
            }
            hand.run("update t set qty = 5 where a = 1").await;
            hand.run("commit").await;
        };
        let (found, ()) = tokio::join!(plugin, other);
        assert_eq!(kind(&found[2]), "deadlock", "{:?}: {found:?}", database.kind);
        assert_eq!(database.number("select qty from t where a = 1").await, 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_postgresql_checks_at_the_commit_is_told_there() {
    let database = Database::postgres().await;
    database.run("create table t (a int, constraint a_once unique (a) deferrable initially deferred)").await;
    database
        .run(
            "create function refuse() returns trigger language plpgsql as \
             $$ begin if new.a < 0 then raise exception 'below zero'; end if; return null; end $$; \
             create constraint trigger refuse after insert on t deferrable initially deferred \
             for each row execute function refuse()",
        )
        .await;
    let lane = lane(database.grant()).await;
    let insert = |a: i32| json!(["execute", format!("insert into t values ({a})")]);
    let found = steps(&lane, json!([BEGIN, insert(1), insert(1), ["commit"]])).await;
    assert_eq!((kind(&found[3]), found[3][1].as_str()), ("unique-violation", Some("a_once")), "{found:?}");
    let found = steps(&lane, json!([BEGIN, insert(-1), ["commit"]])).await;
    assert_eq!(kind(&found[2]), "other", "{found:?}");
    assert!(sentence(&found[2]).contains("below zero"), "{found:?}");
    committed(&lane, &[insert(1)]).await;
    assert_eq!(database.number("select count(*) from t").await, 1);
    assert_eq!(lane.stats().sql_connections_opened, 1);
}
