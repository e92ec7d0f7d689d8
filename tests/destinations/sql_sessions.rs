//! A shared connection: whatever a transaction did to its session, the next finds none of it.

use outhaul::plugin::spec::SqlGrant;
use outhaul_tests::databases::{Database, Kind};
use outhaul_tests::harness::Lane;
use serde_json::{Value, json};

use crate::lane::{committed, kind, lane, steps};

outhaul_tests::on_each_database!(
    plain_statements_share_one_connection,
    a_table_of_the_sessions_own_is_not_the_next_ones,
);

/// Of one connection, so that the next gets the same.
fn narrow(database: &Database) -> SqlGrant {
    SqlGrant { pool: 1, ..database.grant() }
}

/// What one transaction asks for: one value.
async fn asked(lane: &Lane, query: &str) -> Value {
    committed(lane, &[json!(["query", query])]).await[0]["rows"][0][0].clone()
}

/// The ways a transaction ends, after these statements.
async fn ends(lane: &Lane, statements: &[&str]) {
    let steps_to = |end: Value| {
        let inner = statements.iter().map(|statement| json!(["execute", statement]));
        std::iter::once(json!(["begin"])).chain(inner).chain([end]).collect::<Vec<Value>>()
    };
    let found = steps(lane, steps_to(json!(["rollback"])).into()).await;
    assert_eq!(found.last(), Some(&json!("rolled back")), "{found:?}");
    let found = steps(lane, steps_to(json!(["execute", "select nothing from nowhere"])).into()).await;
    assert_eq!(kind(found.last().expect("steps")), "syntax", "{found:?}");
    let found = steps(lane, steps_to(json!(["commit"])).into()).await;
    assert_eq!(found.last(), Some(&json!("committed")), "{found:?}");
}

async fn plain_statements_share_one_connection(database: Database) {
    database.run("create table t (a int primary key, b varchar(9))").await;
    let lane = lane(narrow(&database)).await;
    for n in 0..3 {
        let insert = format!("insert into t (a, b) values ({n}, 'x')");
        let upsert = "update t set b = concat(b, 'y') where a in (1, 2) and b = coalesce(b, '')";
        let upsert =
            if database.kind == Kind::Sqlite { "update t set b = b where a in (1, 2)" } else { upsert };
        committed(
            &lane,
            &[
                json!(["execute", insert]),
                json!(["execute", upsert]),
                json!(["query", "select max(a) from t"]),
            ],
        )
        .await;
    }
    assert_eq!(lane.stats().sql_connections_opened, 1);
}

async fn a_table_of_the_sessions_own_is_not_the_next_ones(database: Database) {
    let (make, look) = match database.kind {
        Kind::Sqlite => ("create table temp.mine (a int)", "select count(*) from temp.sqlite_schema"),
        Kind::Postgres => (
            "create table pg_temp.mine (a int)",
            "select count(*) from pg_class where relpersistence = 't' and relname = 'mine'",
        ),
        // By a function, since there is no other way to it.
        Kind::MariaDb => {
            database
                .run("create function mine() returns int begin create temporary table mine as select 1; return 1; end")
                .await;
            ("select mine()", "select 0")
        }
    };
    let (one, other) = (lane(narrow(&database)).await, lane(narrow(&database)).await);
    ends(&one, &[make]).await;
    assert_eq!(asked(&other, look).await, json!({ "integer": 0 }));
    // Were it there, the function could not make it again.
    ends(&other, &[make]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_forgets_settings_roles_locks_and_cursors() {
    let database = Database::postgres().await;
    database
        .run(
            "create function leave() returns void language plpgsql as $$ begin \
             execute 'set role pg_monitor'; execute 'listen somebody'; \
             execute 'declare kept cursor with hold for select 1'; end $$",
        )
        .await;
    let (one, other) = (lane(narrow(&database)).await, lane(narrow(&database)).await);
    ends(
        &one,
        &[
            "select set_config('shop.tenant', 'north', false), set_config('search_path', 'nowhere', false)",
            "select pg_advisory_lock(7)",
            "select public.leave()",
        ],
    )
    .await;
    for (query, expected) in [
        ("select coalesce(current_setting('shop.tenant', true), '')", json!({ "text": "" })),
        ("select current_setting('search_path')", json!({ "text": "\"$user\", public" })),
        ("select current_user", json!({ "text": "postgres" })),
        ("select count(*) from pg_listening_channels()", json!({ "integer": 0 })),
        ("select count(*) from pg_cursors where is_holdable", json!({ "integer": 0 })),
        ("select current_setting('TimeZone')", json!({ "text": "UTC" })),
    ] {
        assert_eq!(asked(&other, query).await, expected, "{query}");
    }
    // Not even while the connection waits for its next use.
    let locks = "select count(*) from pg_locks where locktype = 'advisory' \
                 and database = (select oid from pg_database where datname = current_database())";
    assert_eq!(database.number(locks).await, 0);
    assert_eq!((one.stats().sql_connections_opened, other.stats().sql_connections_opened), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_forgets_locks_by_name_variables_and_what_triggers_set() {
    let database = Database::mariadb().await;
    database.run("create table t (a int)").await;
    database
        .run(
            "create trigger leaves_settings before insert on t for each row begin set foreign_key_checks = 0; \
             set sql_mode = ''; set time_zone = '+05:00'; end",
        )
        .await;
    let (one, other) = (lane(narrow(&database)).await, lane(narrow(&database)).await);
    let lock = format!("outhaul {}", uuid::Uuid::new_v4());
    let locks = format!("select get_lock('{lock}', 0)");
    ends(&one, &[&locks, "select 'north' into @tenant"]).await;
    assert_eq!(database.number(&format!("select cast(is_free_lock('{lock}') as signed)")).await, 1);
    assert_eq!(asked(&other, "select @tenant").await, json!(null));
    // On one connection: a trigger can't be seen in the statement.
    ends(&one, &["insert into t values (1)"]).await;
    let opened = one.stats().sql_connections_opened;
    for query in [
        "select a = 1 and @@foreign_key_checks = 1 from t",
        "select @@sql_mode like '%STRICT_TRANS_TABLES%'",
        "select @@time_zone = '+00:00'",
    ] {
        let found = asked(&one, query).await;
        assert!(found == json!({ "integer": 1 }) || found == json!({ "boolean": true }), "{query}: {found}");
        ends(&one, &["insert into t values (1)"]).await;
    }
    assert!(one.stats().sql_connections_opened > opened, "a variable in a statement costs its connection");
}
