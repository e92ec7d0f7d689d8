//! What only SQLite has to promise: one file, several processes, producers with libraries of their
//! own, and no server that wakes anybody.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outhaul::domain::Write;
use outhaul::store::sqlite::{SqliteOptions, SqliteStore};
use outhaul::store::*;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Executor, Row, query};

use crate::harness::SqlDatabase;
use crate::scene::*;
use crate::sqlite::SqliteDatabase;

const INSERT: &str = "INSERT INTO outbox_event (event_id, topic, payload) VALUES (?1, 'order.created', 'x')";

/// A store on the machine's own clock, its directory, and an application's connection.
pub async fn fresh() -> (tempfile::TempDir, SqliteStore, SqliteConnection) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir).await;
    assert_eq!(store.migrate().await.expect("migrate"), ["0001_outbox"]);
    let file = SqliteConnectOptions::new().filename(dir.path().join("outbox.db"));
    let application = file.connect().await.expect("connect");
    (dir, store, application)
}

pub async fn open(dir: &tempfile::TempDir) -> SqliteStore {
    let url = format!("sqlite:{}", dir.path().join("outbox.db").display());
    SqliteStore::connect(&SqliteOptions::new(&url)).await.expect("connect")
}

pub async fn register(store: &SqliteStore) -> ClaimRequest {
    let host = registration("host-a", "c1", vec![destination(SHOP, &["order.*"])]);
    let registered = store.register(&host).await.expect("register");
    ClaimRequest {
        host_id: "host-a".to_owned(),
        destination: registered.destinations[0].1.expect("an id"),
        limit: 10,
        lease: LEASE,
        order: Order::None,
        max_attempts: 3,
        which: Which::Ordinary,
        probe: None,
    }
}

#[tokio::test]
async fn insert_or_replace_is_refused_and_or_ignore_leaves_the_event_alone() {
    let database = SqliteDatabase::open().await;
    let scene = Scene::open(&database).await;
    scene.insert_ids(&["e1", "e2"]).await;
    let values = "INTO outbox_event (event_id, topic, payload) VALUES ('e1', 'order.other', 'new')";
    for round in 0..2 {
        assert_eq!(database.execute(&format!("INSERT OR IGNORE {values}")).await, Ok(0), "round {round}");
        let nothing = format!("INSERT {values} ON CONFLICT DO NOTHING");
        assert_eq!(database.execute(&nothing).await, Ok(0), "round {round}");
        let error = database.execute(&format!("INSERT OR REPLACE {values}")).await.expect_err("replaced");
        assert!(error.contains("INSERT OR REPLACE is refused"), "{error}");
        let error = database.execute(&format!("INSERT {values}")).await.expect_err("inserted twice");
        assert!(error.contains("UNIQUE constraint failed: outbox_event.event_id"), "{error}");
    }
    let upsert = format!("INSERT {values} ON CONFLICT DO UPDATE SET topic = 'order.other'");
    assert!(database.execute(&upsert).await.expect_err("updated").contains("never changed"));
    assert_eq!(scene.report("e1").await.topic, "order.created");
    assert_eq!(scene.claim_ids("host-a").await, ["e1", "e2"]);
}

#[tokio::test]
async fn times_are_integers_and_the_default_is_now_in_microseconds() {
    let (_dir, store, mut application) = fresh().await;
    register(&store).await;
    let before = store.now().await.expect("now");
    application.execute(query(INSERT).bind("e1")).await.expect("insert");
    let after = store.now().await.expect("now");
    let created = store.show("", "e1").await.expect("show").expect("it is there").created_at;
    assert!(before <= created && created <= after, "{before:?} {created:?} {after:?}");
    let machine = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let apart = i128::from(after.0) - machine.as_micros() as i128;
    assert!(apart.abs() < 60_000_000, "{apart} µs from the machine's clock");
    for column in ["available_at", "expires_at", "created_at"] {
        // Nanoseconds, and the first microsecond after the year 9999.
        for value in ["'2030-01-01'", "1.5", "x'00'", "-1", "1764000000000000000", "253402300800000000"] {
            let sql = format!(
                "INSERT INTO outbox_event (event_id, topic, payload, {column}) VALUES ('e2', 'a', 'x', {value})"
            );
            let error = application.execute(sqlx::AssertSqlSafe(sql)).await.expect_err("refused").to_string();
            assert!(error.contains(&format!("{column}_is_integer_microseconds")), "{value}: {error}");
        }
    }
}

#[tokio::test]
async fn an_event_is_due_by_the_databases_clock_whatever_created_at_says() {
    let (_dir, store, mut application) = fresh().await;
    let request = register(&store).await;
    let insert = |id: &str, topic: &str, created: i64| {
        sqlx::AssertSqlSafe(format!(
            "INSERT INTO outbox_event (event_id, topic, payload, created_at) VALUES ('{id}', '{topic}', 'x', {created})"
        ))
    };
    // The first two are by clocks that are wrong by years, the third is routed later.
    const LAST: i64 = 253_402_300_799_999_999;
    application.execute(insert("e1", "order.created", LAST)).await.expect("insert");
    application.execute(insert("e2", "order.created", 0)).await.expect("insert");
    application.execute(insert("e3", "bill.paid", LAST)).await.expect("insert");
    assert_eq!(ids(&store.claim(&request).await.expect("claim").claimed), ["e1", "e2"]);
    let wider = registration("host-a", "c2", vec![destination(SHOP, &["order.*", "bill.*"])]);
    store.register(&HostRegistration { takeover: Takeover::UnlessCurrent, ..wider }).await.expect("register");
    assert_eq!(store.sweep(&[request.destination], 100).await.expect("sweep").routed, 1);
    assert_eq!(ids(&store.claim(&request).await.expect("claim").claimed), ["e3"]);
}

/// SQLite gives a row the number after the highest there was: a producer's own could be the last.
#[tokio::test]
async fn a_producer_cannot_give_seq_so_it_cannot_stop_the_inserts_of_others() {
    let (_dir, store, mut application) = fresh().await;
    let request = register(&store).await;
    application.execute(query(INSERT).bind("e1")).await.expect("insert");
    let row = "(seq, event_id, topic, payload) VALUES";
    for seq in ["-1", "-2", "0", "1", "7", "9223372036854775807", "-9223372036854775808", "'5'"] {
        for verb in ["INSERT", "INSERT OR REPLACE"] {
            let sql = format!("{verb} INTO outbox_event {row} ({seq}, 'bad', 'order.created', 'x')");
            let error = application.execute(sqlx::AssertSqlSafe(sql)).await.expect_err("taken").to_string();
            assert!(
                error.contains("seq is given by the database") || error.contains("seq_is_given"),
                "{error}"
            );
        }
        let sql = format!("INSERT OR IGNORE INTO outbox_event {row} ({seq}, 'bad', 'order.created', 'x')");
        let ignored = application.execute(sqlx::AssertSqlSafe(sql)).await.map(|done| done.rows_affected());
        assert!(matches!(ignored, Err(_) | Ok(0)), "{seq}: {ignored:?}");
    }
    for (n, verb) in ["INSERT", "INSERT OR IGNORE", "INSERT OR REPLACE"].into_iter().enumerate() {
        let sql = format!("{verb} INTO outbox_event {row} (NULL, 'f{n}', 'order.created', 'x')");
        application.execute(sqlx::AssertSqlSafe(sql)).await.expect("left out by NULL");
    }
    application.execute(query(INSERT).bind("e2")).await.expect("insert");
    let claimed = store.claim(&request).await.expect("claim").claimed;
    assert_eq!(ids(&claimed), ["e1", "f0", "f1", "f2", "e2"]);
    let seqs: Vec<i64> = claimed.iter().map(|claimed| claimed.event.seq.0).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn headers_with_half_a_surrogate_pair_are_refused_and_whole_pairs_are_kept() {
    let (_dir, store, mut application) = fresh().await;
    register(&store).await;
    let sql =
        "INSERT INTO outbox_event (event_id, topic, payload, headers) VALUES (?1, 'order.created', 'x', ?2)";
    for headers in [
        r#"{"a":"\ud800"}"#,
        r#"{"a":"1","b":"x\uDFFFy"}"#,
        r#"{"a":"\ude00\ud83d"}"#,
        r#"{"a":"\ud83d\ude00\udbff"}"#,
        r#"{"\udc00":"1"}"#,
    ] {
        let error = application.execute(query(sql).bind("bad").bind(headers)).await.expect_err(headers);
        assert!(error.to_string().contains("half of a surrogate pair"), "{headers}: {error}");
    }
    let headers = r#"{"a":"\ud83d\uDE00","b":"\\ud800","c":"\ud7ff\ue000\ufffd","d":"\uD834\uDD1E"}"#;
    application.execute(query(sql).bind("e1").bind(headers)).await.expect(headers);
    let report = store.show("", "e1").await.expect("show").expect("it is there");
    let read: Vec<_> = report.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(read, [("a", "😀"), ("b", "\\ud800"), ("c", "\u{d7ff}\u{e000}\u{fffd}"), ("d", "𝄞")]);
}

/// The row of a producer whose library's checks were off, as in a restored dump.
#[tokio::test]
async fn headers_that_got_past_the_checks_are_never_dropped_silently() {
    let (_dir, store, mut application) = fresh().await;
    let request = register(&store).await;
    application.execute("DROP TRIGGER outbox_note_duplicate").await.expect("drop");
    let sql = r#"INSERT INTO outbox_event (event_id, topic, payload, headers)
                 VALUES ('e1', 'order.created', 'x', '{"a":"1","b":"\ud800","c":"3"}')"#;
    application.execute(sql).await.expect("insert");
    let claimed = store.claim(&request).await.expect("claim").claimed;
    let kept = [("a", "1"), ("b", "\u{fffd}"), ("c", "3")].map(|(name, value)| (name.into(), value.into()));
    assert_eq!(claimed[0].event.headers, kept);
}

/// Debian's Python has SQLite 3.40, older than ours: what runs inside its INSERT must work there.
#[tokio::test]
async fn a_python_producer_inserts_with_its_own_older_sqlite() {
    let (dir, store, _application) = fresh().await;
    let request = register(&store).await;
    let script = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
with db:
    db.execute("insert into outbox_event (event_id, topic, payload) values ('e1', 'order.created', ?)", (b'{"n":1}',))
    db.execute("""insert into outbox_event (event_id, topic, payload, headers, available_at)
                  values ('e2', 'order.created', '{"n":2}', '{"a":"b"}', 5)""")
with db:
    db.execute("insert or ignore into outbox_event (event_id, topic, payload) values ('e2', 'order.created', 'x')")
    db.execute("insert or replace into outbox_event (event_id, topic, payload) values ('e4', 'order.created', 'x')")
    db.execute(r'''insert into outbox_event (event_id, topic, payload, headers)
                   values ('e5', 'order.created', 'x', '{"a":"\ud83d\ude00"}')''')
def refused(columns, values, why):
    try:
        db.execute(f"insert into outbox_event (event_id, topic, payload, {columns}) values ('bad', 'order.created', 'x', {values})")
    except sqlite3.IntegrityError as error:
        assert why in str(error), error
        db.rollback()
        return
    raise SystemExit(f"{columns} = {values} was taken")
for seq in (-1, -2, 7, 2**63 - 1):
    refused("seq", seq, "seq")
refused("created_at", 1764000000000000000, "microseconds")
refused("partition_key", "cast(x'ff41' as text)", "partition_key is not UTF-8")
refused("headers", r"""'{"a":"\ud800"}'""", "surrogate")
try:
    with db:
        db.execute("insert into outbox_event (event_id, topic, payload) values ('e3', 'order.created', 'x')")
        raise RuntimeError("the business said no")
except RuntimeError:
    pass
print(sqlite3.sqlite_version)
"#;
    let file = dir.path().join("outbox.db");
    let ran = Command::new("python3").arg("-c").arg(script).arg(&file).output().expect("python3");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    println!("producer: SQLite {}", String::from_utf8_lossy(&ran.stdout).trim());
    let claimed = store.claim(&request).await.expect("claim").claimed;
    assert_eq!(ids(&claimed), ["e1", "e2", "e4", "e5"]);
    let payloads = store.payloads(&[claimed[1].event.seq]).await.expect("payloads");
    assert_eq!(payloads[0].1.to_vec(), br#"{"n":2}"#, "text is taken for its bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s18_two_hosts_and_a_producer_on_one_file_never_see_it_locked() {
    const EVENTS: usize = 400;
    let (dir, first, mut application) = fresh().await;
    let request = register(&first).await;
    let second = open(&dir).await;
    let producer = tokio::spawn(async move {
        for n in 0..EVENTS {
            application
                .execute(query(INSERT).bind(format!("e{n}")))
                .await
                .expect("the producer waits its turn");
        }
    });
    let counter = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut hosts = Vec::new();
    for store in [first, second] {
        let (request, counter) = (request.clone(), counter.clone());
        hosts.push(tokio::spawn(async move {
            let mut delivered = Vec::new();
            while counter.load(std::sync::atomic::Ordering::Relaxed) < EVENTS {
                let claimed = store.claim(&request).await.expect("claim").claimed;
                let results: Vec<_> =
                    claimed.iter().map(|claimed| answer(claimed, Write::Delivered)).collect();
                let settled = store.acknowledge(&results).await.expect("acknowledge");
                assert!(settled.iter().all(|settled| *settled == Settled::Recorded), "{settled:?}");
                store.lanes(&[request.destination]).await.expect("lanes");
                counter.fetch_add(claimed.len(), std::sync::atomic::Ordering::Relaxed);
                delivered.extend(ids(&claimed));
            }
            delivered
        }));
    }
    producer.await.expect("the producer");
    let mut delivered = Vec::new();
    for host in hosts {
        delivered.extend(host.await.expect("a host"));
    }
    delivered.sort();
    let mut expected: Vec<String> = (0..EVENTS).map(|n| format!("e{n}")).collect();
    expected.sort();
    assert_eq!(delivered, expected, "each exactly once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_that_create_one_file_at_once_both_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let start = async || {
        let store = open(&dir).await;
        let applied = store.migrate().await.expect("migrate").len();
        register(&store).await;
        applied
    };
    let (a, b, c) = tokio::join!(start(), start(), start());
    assert_eq!(a + b + c, 1, "one of them migrates");
}

/// The commit is another connection's, as it is another process's: nothing in this process tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_another_process_wakes_an_idle_host() {
    let (_dir, store, mut application) = fresh().await;
    register(&store).await;
    let mut waits = Vec::new();
    for n in 0..5 {
        let wake = store.wait_for_wake();
        let committed = async {
            application.execute(query(INSERT).bind(format!("e{n}"))).await.expect("insert");
            Instant::now()
        };
        let ((), committed) = tokio::join!(wake, committed);
        waits.push(committed.elapsed());
    }
    println!("commit to wake-up: {waits:?}");
    // A commit between two waits wakes the second.
    application.execute(query(INSERT).bind("between")).await.expect("insert");
    store.wait_for_wake().await;
    // One's own claims wake nobody: the relay would wake itself for ever.
    let request = register(&store).await;
    let mut wake = store.wait_for_wake();
    assert_eq!(store.claim(&request).await.expect("claim").claimed.len(), 6);
    let woken = tokio::time::timeout(Duration::from_millis(100), &mut wake).await;
    assert!(woken.is_err(), "its own claim woke it");
    application.execute(query(INSERT).bind("after")).await.expect("insert");
    wake.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_costs_next_to_nothing() {
    let (_dir, store, _application) = fresh().await;
    let used = || {
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid rusage for the whole call.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let micros = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
        micros(usage.ru_utime) + micros(usage.ru_stime)
    };
    // The migration was the last thing that happened; looks grow rare some seconds after it.
    let settling = tokio::time::timeout(Duration::from_secs(4), store.wait_for_wake()).await;
    assert!(settling.is_err(), "nothing happened");
    let before = used();
    let wait = Duration::from_secs(2);
    assert!(tokio::time::timeout(wait, store.wait_for_wake()).await.is_err(), "nothing happened");
    // Other tests of this process run at the same time, so this is a report, not an assertion.
    println!("process CPU while waiting {wait:?}: {} µs", used() - before);
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let (_dir, store, mut application) = fresh().await;
    application
        .execute("INSERT INTO outbox_migration (version, name) VALUES (7, '0007_future')")
        .await
        .expect("a migration of tomorrow");
    for refused in [store.migrate().await.map(|_| ()), store.status().await.map(|_| ())] {
        let Err(StoreError::Schema(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains("version 7") && text.contains("up to 1"), "{text}");
    }
}

#[tokio::test]
async fn a_missing_schema_says_how_to_create_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir).await;
    let status = store.status().await.expect("status");
    assert_eq!((status.installed, status.newest_known), (None, 1));
    assert_eq!(status.pending.len(), 1);
    assert!(status.pending[0].1.contains("CREATE TABLE outbox_event"));
    let Err(StoreError::Schema(text)) = store.lanes(&[]).await else { panic!("it answered") };
    assert!(text.contains("outhaul migrate"), "{text}");
    // The dry run is the whole truth: it applied nothing.
    assert_eq!(store.status().await.expect("status").installed, None);
}

#[tokio::test]
async fn s42_a_locked_file_is_unavailable_for_a_while_and_then_works_again() {
    let (dir, _, mut application) = fresh().await;
    let url = format!("sqlite:{}", dir.path().join("outbox.db").display());
    let hurried = SqliteOptions { timeout: Duration::from_millis(50), ..SqliteOptions::new(&url) };
    let store = SqliteStore::connect(&hurried).await.expect("connect");
    let request = register(&open(&dir).await).await;
    application.execute("BEGIN IMMEDIATE").await.expect("the lock");
    application.execute(query(INSERT).bind("e1")).await.expect("insert");
    let locked = store.claim(&request).await;
    let Err(StoreError::Unavailable(text)) = locked else { panic!("{locked:?}") };
    assert!(text.contains("outbox.timeout") && text.contains("outbox.db"), "{text}");
    // Reads go on meanwhile, and see nothing of it.
    assert!(!store.lanes(&[request.destination]).await.expect("lanes")[0].has_due);
    application.execute("COMMIT").await.expect("commit");
    assert_eq!(ids(&store.claim(&request).await.expect("claim").claimed), ["e1"]);
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_named() {
    let options = SqliteOptions::new("sqlite:/nowhere/at/all/outbox.db");
    let Err(StoreError::Unavailable(text)) = SqliteStore::connect(&options).await.map(|_| ()) else {
        panic!("it opened")
    };
    assert!(text.contains("/nowhere/at/all/outbox.db") && text.contains("directory"), "{text}");
}

#[tokio::test]
async fn what_the_host_commits_is_on_the_disk() {
    let (_dir, store, mut application) = fresh().await;
    let mode: String = query("PRAGMA journal_mode").fetch_one(&mut application).await.expect("mode").get(0);
    assert_eq!(mode, "wal", "for every connection to the file");
    assert_eq!(store.synchronous().await.expect("synchronous"), 2, "FULL");
}
