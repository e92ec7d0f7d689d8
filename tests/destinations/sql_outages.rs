//! Databases that are away, go away, or do not answer.

use std::time::{Duration, Instant};

use outhaul_tests::databases::{Database, grant};
use outhaul_tests::forward::Forward;
use serde_json::json;

use crate::lane::{committed, kind, lane, lane_with, sentence, steps};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_down_is_unavailable_at_once_and_again_there_when_it_is() {
    for database in [Database::postgres().await, Database::mariadb().await] {
        let forward = Forward::start(database.url()).await;
        let lane = lane(grant(&forward.url())).await;
        committed(&lane, &[json!(["query", "select 1 as one"])]).await;
        forward.cut().await;
        let before = Instant::now();
        let found = steps(&lane, json!([["begin"], ["query", "select 1 as one"]])).await;
        let failed = found.iter().find(|step| step.is_array()).unwrap_or_else(|| panic!("{found:?}"));
        assert_eq!(kind(failed), "unavailable", "{found:?}");
        let found = steps(&lane, json!([["begin"]])).await;
        assert_eq!(kind(&found[0]), "unavailable", "{found:?}");
        assert!(before.elapsed() < Duration::from_secs(4), "an outage is no wait: {:?}", before.elapsed());
        forward.mend().await;
        committed(&lane, &[json!(["query", "select 1 as one"])]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_during_commit_leaves_the_commit_unknown() {
    for database in [Database::postgres().await, Database::mariadb().await] {
        database.run("create table t (a int primary key)").await;
        let forward = Forward::start(database.url()).await;
        let lane = lane(grant(&forward.url())).await;
        forward.cut_at(database.commit_word());
        let found =
            steps(&lane, json!([["begin"], ["execute", "insert into t values (1)"], ["commit"]])).await;
        assert_eq!(kind(&found[2]), "commit-unknown", "{found:?}");
        assert!(sentence(&found[2]).contains("is not known"), "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_answer_times_out_and_in_a_commit_is_unknown() {
    for database in [Database::postgres().await, Database::mariadb().await] {
        database.run("create table t (a int primary key)").await;
        let forward = Forward::start(database.url()).await;
        let brief = |spec: &mut outhaul::plugin::spec::PluginSpec| {
            spec.limits.sql.statement = Duration::from_millis(300);
            spec.limits.sql.connect = Duration::from_millis(300);
        };
        let lane = lane_with(grant(&forward.url()), brief).await;
        for (word, expected, at) in [("insert", "timeout", 1), (database.commit_word(), "commit-unknown", 2)]
        {
            forward.stall_at(word);
            let found =
                steps(&lane, json!([["begin"], ["execute", "insert into t values (1)"], ["commit"]])).await;
            assert_eq!(kind(&found[at]), expected, "{word}: {found:?}");
            forward.mend().await;
        }
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_is_unavailable_with_its_fix() {
    let lane = lane(grant("sqlite:/nowhere/at/all.db")).await;
    let found = steps(&lane, json!([["begin"]])).await;
    assert_eq!(kind(&found[0]), "unavailable");
    assert!(sentence(&found[0]).contains("must exist and be writable"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_connections_and_says_nothing_is_unavailable_before_the_call_ends() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    for url in [format!("postgres://u@{address}/shop"), format!("mysql://u@{address}/shop")] {
        let patient = |spec: &mut outhaul::plugin::spec::PluginSpec| {
            spec.limits.call = Duration::from_secs(2);
            spec.limits.sql.connect = Duration::from_secs(60);
        };
        let lane = lane_with(grant(&url), patient).await;
        let found = steps(&lane, json!([["begin"]])).await;
        assert_eq!(kind(&found[0]), "unavailable", "{found:?}");
        assert!(sentence(&found[0]).contains(&address), "{found:?}");
    }
}
