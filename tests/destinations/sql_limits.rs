//! Deadlines and bounds: the database's work ends, the guest is told, the connection serves the next.

use std::time::Duration;

use outhaul::domain::{HostFailure, Outcome};
use outhaul::plugin::spec::PluginSpec;
use outhaul_tests::databases::{Database, Kind};
use outhaul_tests::harness::Lane;
use serde_json::{Value, json};

use crate::lane::{committed, kind, lane, lane_with, send, sentence, steps};

outhaul_tests::on_each_database!(
    a_statement_that_waits_for_a_lock_too_long_times_out,
    a_statement_that_computes_too_long_times_out,
    a_statement_that_put_its_deadline_off_is_ended_at_the_server,
    a_statement_under_way_at_the_calls_end_is_ended_at_the_server,
    a_transaction_that_takes_too_long_times_out,
    a_guest_that_falls_silent_holds_no_lock_past_its_transactions_deadline,
    a_result_with_too_many_rows_or_bytes_is_refused,
    a_value_that_is_too_large_is_refused_before_it_is_read,
    what_is_open_when_the_call_ends_is_rolled_back,
    what_is_open_when_the_guest_traps_or_is_ended_is_rolled_back,
    an_instance_has_no_more_transactions_open_than_it_may,
    a_pool_has_no_more_connections_than_it_may_and_says_so,
);

async fn table(database: &Database) {
    database.run("create table t (a bigint primary key, qty bigint not null)").await;
    database.run("insert into t values (1, 1), (2, 2), (3, 3)").await;
}

fn update() -> Value {
    json!(["execute", "update t set qty = qty + 1 where a = 1"])
}

async fn brief(database: &Database, statement_ms: u64) -> Lane {
    lane_with(database.grant(), |spec| spec.limits.sql.statement = Duration::from_millis(statement_ms)).await
}

fn begin(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => "begin immediate",
        Kind::Postgres => "begin",
        Kind::MariaDb => "start transaction",
    }
}

async fn a_statement_that_waits_for_a_lock_too_long_times_out(database: Database) {
    table(&database).await;
    let lane = brief(&database, 1_000).await;
    let mut hand = database.connect().await;
    hand.run(begin(database.kind)).await;
    hand.run("update t set qty = 10 where a = 1").await;
    let found = steps(&lane, json!([["begin"], update(), ["commit"]])).await;
    let at = if database.kind == Kind::Sqlite { 0 } else { 1 };
    assert_eq!(kind(&found[at]), "timeout", "{found:?}");
    hand.run("commit").await;
    committed(&lane, &[update()]).await;
    assert_eq!(qty(&database).await, 11);
}

async fn qty(database: &Database) -> i64 {
    database.number("select qty from t where a = 1").await
}

async fn a_statement_that_computes_too_long_times_out(database: Database) {
    table(&database).await;
    let lane = brief(&database, 300).await;
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000000000) \
                   select max(i) from n";
    let endless = match database.kind {
        Kind::Sqlite => endless,
        Kind::Postgres => "select cast(pg_sleep(30) as text)",
        Kind::MariaDb => {
            "select count(*) from information_schema.columns a, information_schema.columns b, information_schema.columns c"
        }
    };
    let found = steps(&lane, json!([["begin"], ["query", endless]])).await;
    assert_eq!(kind(&found[1]), "timeout", "{found:?}");
    committed(&lane, &[update()]).await;
}

/// What a guest says to a server so that it has no deadline of its own.
fn without_deadlines(kind: Kind) -> Option<[Value; 2]> {
    match kind {
        // Its host ends it where it runs.
        Kind::Sqlite => None,
        Kind::Postgres => Some([
            json!([
                "query",
                "select set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true), \
                 set_config('idle_in_transaction_session_timeout', '0', true), \
                 set_config('client_connection_check_interval', '0', true)"
            ]),
            json!(["query", "select cast(pg_sleep(100000) as text)"]),
        ]),
        Kind::MariaDb => Some([json!(["query", "select 1"]), json!(["query", "select wait_for_ever()"])]),
    }
}

async fn a_statement_that_put_its_deadline_off_is_ended_at_the_server(database: Database) {
    table(&database).await;
    let Some([put_off, sleep]) = without_deadlines(database.kind) else { return };
    if database.kind == Kind::MariaDb {
        // A function's own statements may say that they have none.
        database
            .run(
                "create function wait_for_ever() returns int begin set statement max_statement_time = 0 for \
                 select sleep(100000) into @slept; return 1; end",
            )
            .await;
    }
    let mut grant = database.grant();
    grant.pool = 1;
    let lane = lane_with(grant, |spec| {
        spec.limits.sql.statement = Duration::from_millis(500);
        spec.limits.call = Duration::from_secs(30);
    })
    .await;
    let found = steps(&lane, json!([["begin"], put_off, update(), sleep])).await;
    assert_eq!(kind(&found[3]), "timeout", "{found:?}");
    // The place of the pool is free again once the server has been told, and nothing holds the row.
    committed(&lane, &[update()]).await;
    assert_eq!(qty(&database).await, 2);
    let asleep = match database.kind {
        Kind::Postgres => {
            "select count(*) from pg_stat_activity where datname = current_database() and query like '%pg_sleep(100000)%' \
             and pid <> pg_backend_pid()"
        }
        _ => {
            "select count(*) from information_schema.processlist where db = database() and state = 'User sleep'"
        }
    };
    assert_eq!(database.number(asleep).await, 0);
}

/// No time-out of the host's comes: the call is over first.
async fn a_statement_under_way_at_the_calls_end_is_ended_at_the_server(database: Database) {
    table(&database).await;
    if database.kind != Kind::Postgres {
        return;
    }
    let Some([put_off, sleep]) = without_deadlines(database.kind) else { return };
    let mut grant = database.grant();
    grant.pool = 1;
    let lane = lane_with(grant, |spec| {
        spec.limits.sql.statement = Duration::from_secs(60);
        spec.limits.call = Duration::from_secs(1);
    })
    .await;
    let outcome = send(&lane, json!([["begin"], put_off, update(), sleep])).await;
    assert!(matches!(&outcome, Outcome::Host(HostFailure::Deadline, _)), "{outcome:?}");
    committed(&lane, &[update()]).await;
    assert_eq!(qty(&database).await, 2);
}

async fn a_transaction_that_takes_too_long_times_out(database: Database) {
    table(&database).await;
    // Nothing fits into a transaction of a millisecond but its beginning.
    let lane =
        lane_with(database.grant(), |spec| spec.limits.sql.transaction = Duration::from_millis(1)).await;
    let select = json!(["query", "select a from t"]);
    let many: Vec<Value> = std::iter::once(json!(["begin"])).chain(vec![select; 50]).collect();
    let found = steps(&lane, many.into()).await;
    let timeout = found.iter().find(|step| step[0] == "timeout").unwrap_or_else(|| panic!("{found:?}"));
    assert!(sentence(timeout).contains("limits.sql.transaction"), "{timeout}");
    assert_eq!(kind(found.last().expect("steps")), "closed");
}

async fn a_guest_that_falls_silent_holds_no_lock_past_its_transactions_deadline(database: Database) {
    table(&database).await;
    let brief = |spec: &mut PluginSpec| spec.limits.sql.transaction = Duration::from_millis(500);
    let silent = lane_with(database.grant(), brief).await;
    let other = lane(database.grant()).await;
    let others = async {
        until_locked(&database).await;
        committed(&other, &[update()]).await;
    };
    tokio::select! {
        outcome = send(&silent, json!([["begin"], update(), ["spin"]])) => panic!("{outcome:?}"),
        () = others => {}
    }
    assert_eq!(qty(&database).await, 2);
}

/// Until a transaction of a plugin has changed something.
async fn until_locked(database: &Database) {
    let open = match database.kind {
        Kind::Sqlite => {
            let journal = format!("{}-journal", database.url().strip_prefix("sqlite:").expect("a file"));
            while !std::path::Path::new(&journal).exists() {
                tokio::task::yield_now().await;
            }
            return;
        }
        Kind::Postgres => {
            "select count(*) from pg_stat_activity where state = 'idle in transaction' \
             and datname = current_database() and query like 'update%'"
        }
        Kind::MariaDb => {
            "select count(*) from information_schema.innodb_trx t \
             join information_schema.processlist p on p.id = t.trx_mysql_thread_id \
             where p.db = database() and t.trx_rows_modified > 0"
        }
    };
    let mut watch = database.connect().await;
    while watch.number(open).await == 0 {
        // InnoDB tells it anew if it was not asked for 100 ms.
        tokio::time::sleep(Duration::from_millis(110)).await;
    }
}

/// Of a kind that could not be handed to a plugin, so that it shows what is looked at first.
async fn a_value_that_is_too_large_is_refused_before_it_is_read(database: Database) {
    let lane = lane(database.grant()).await;
    let (large, told) = match database.kind {
        Kind::Sqlite => ("select zeroblob(900000000)", "in the destination's limits"),
        Kind::Postgres => ("select array_fill(1, array[500000])", "1048576 bytes"),
        Kind::MariaDb => {
            ("select st_geomfromtext(concat('LINESTRING(', repeat('0 0,', 100000), '1 1)'))", "1048576 bytes")
        }
    };
    let found = steps(&lane, json!([["begin"], ["query", large]])).await;
    assert_eq!(kind(&found[1]), "too-large", "{found:?}");
    assert!(sentence(&found[1]).contains(told), "{found:?}");
    // What is written may be larger than what is read.
    database
        .run(if database.kind == Kind::Postgres {
            "create table b (a bytea)"
        } else {
            "create table b (a longblob)"
        })
        .await;
    let place = if database.kind == Kind::Postgres { "$1" } else { "?" };
    let insert = format!("insert into b values ({place})");
    committed(&lane, &[json!(["execute", insert, { "bytes": "00".repeat(300_000) }])]).await;
}

async fn a_result_with_too_many_rows_or_bytes_is_refused(database: Database) {
    table(&database).await;
    let few = lane_with(database.grant(), |spec| spec.limits.sql.rows = 2).await;
    let query = |text: &str| json!([["begin"], ["query", text], ["commit"]]);
    let found = steps(&few, query("select a from t where a < 3")).await;
    assert_eq!(found[2], json!("committed"), "{found:?}");
    let found = steps(&few, query("select a from t")).await;
    assert_eq!((kind(&found[1]), kind(&found[2])), ("too-large", "closed"));
    let narrow = lane_with(database.grant(), |spec| spec.limits.sql.result_bytes = 1_000).await;
    let wide = format!("select '{}' as wide from t where a = 1", "x".repeat(2_000));
    let found = steps(&narrow, query(&wide)).await;
    assert_eq!(kind(&found[1]), "too-large", "{found:?}");
    committed(&narrow, &[update()]).await;
}

async fn what_is_open_when_the_call_ends_is_rolled_back(database: Database) {
    table(&database).await;
    let lane = lane(database.grant()).await;
    let found = steps(&lane, json!([["begin"], update()])).await;
    assert_eq!(found, [json!("begun"), json!(1)]);
    // The same instance, which kept the transaction.
    let found = steps(&lane, json!([update(), ["commit"]])).await;
    assert_eq!((kind(&found[0]), kind(&found[1])), ("closed", "closed"));
    // And nothing holds a lock.
    committed(&lane, &[update()]).await;
    assert_eq!(qty(&database).await, 2);
}

async fn what_is_open_when_the_guest_traps_or_is_ended_is_rolled_back(database: Database) {
    table(&database).await;
    let lane = lane_with(database.grant(), |spec| spec.limits.call = Duration::from_secs(2)).await;
    for (end, failure) in [("trap", HostFailure::Trap), ("spin", HostFailure::Deadline)] {
        let outcome = send(&lane, json!([["begin"], update(), [end]])).await;
        assert!(matches!(&outcome, Outcome::Host(found, _) if *found == failure), "{outcome:?}");
        // The server sees the connection's end by itself.
        committed(&lane, &[json!(["execute", "update t set qty = qty where a = 1"])]).await;
        assert_eq!(qty(&database).await, 1, "after {end}");
    }
}

async fn an_instance_has_no_more_transactions_open_than_it_may(database: Database) {
    let lane = lane_with(database.grant(), |spec| spec.limits.sql.transactions = 1).await;
    let found = steps(&lane, json!([["begin"], ["begin"], ["rollback"], ["begin"], ["rollback"]])).await;
    assert_eq!(kind(&found[1]), "other");
    assert!(sentence(&found[1]).contains("raise  transactions"), "{found:?}");
    assert_eq!(found[3], json!("begun"));
}

async fn a_pool_has_no_more_connections_than_it_may_and_says_so(database: Database) {
    table(&database).await;
    let mut grant = database.grant();
    grant.pool = 1;
    let hasty = |spec: &mut PluginSpec| {
        spec.limits.sql.connect = Duration::from_millis(200);
        spec.limits.sql.transactions = 2;
    };
    // Two transactions of one instance want two connections.
    let lane = lane_with(grant.clone(), hasty).await;
    let found = steps(&lane, json!([["begin"], ["begin"], ["commit"]])).await;
    assert_eq!(kind(&found[1]), "unavailable");
    assert!(sentence(&found[1]).contains("raise  pool  in [sql.db]"), "{found:?}");
    assert_eq!(found[2], json!("committed"));
    // Another destination that is granted the same shares them.
    let other = lane_with(grant, hasty).await;
    committed(&other, &[update()]).await;
    assert_eq!((lane.stats().sql_connections_opened, other.stats().sql_connections_opened), (1, 0));
}
