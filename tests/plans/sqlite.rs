//! SQLite: two million deliveries, one million of them delivered, and the statements a host runs.
//! The plan says which index each table is read by; a counter of the virtual machine's steps says
//! that the work does not depend on what lies behind, ahead or leased.

mod fill;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outhaul::store::sqlite::{SqliteOptions, SqliteStore};
use outhaul::store::{Schema, Store};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, ConnectOptions, Executor, Row};

/// Tables whose size grows with the events.
const BIG: [&str; 5] = ["outbox_delivery", "outbox_event", "d", "e", "earlier"];
const NOW: i64 = 1_000_000_000;
const STEPS_OF_A_CALL_MAX: u64 = 150_000;

#[derive(Clone)]
enum Value {
    Int(i64),
    Text(String),
    Null,
}

use Value::{Int, Null};

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

struct Bench {
    _dir: tempfile::TempDir,
    statements: Vec<(&'static str, String)>,
    connection: SqliteConnection,
    steps: Arc<AtomicU64>,
    /// All of them are told at the end: filling the tables takes longest.
    faults: Vec<String>,
}

impl Bench {
    async fn open() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("outbox.db");
        let now_sql = Some(format!("SELECT {NOW}"));
        let url = format!("sqlite:{}", file.display());
        let store = SqliteStore::connect(&SqliteOptions { now_sql, ..SqliteOptions::new(&url) })
            .await
            .expect("connect");
        store.migrate().await.expect("migrate");
        println!("{}", store.server_version().await.expect("version"));
        let mut connection = SqliteConnectOptions::new().filename(&file).connect().await.expect("connect");
        fill::fill(&mut connection).await;
        let steps = Arc::new(AtomicU64::new(0));
        let counter = steps.clone();
        connection.lock_handle().await.expect("the handle").set_progress_handler(100, move || {
            counter.fetch_add(100, Ordering::Relaxed);
            true
        });
        Self { _dir: dir, statements: store.statements(), connection, steps, faults: Vec::new() }
    }

    fn sql(&self, name: &str) -> String {
        let found = self.statements.iter().find(|(is, _)| *is == name);
        found.unwrap_or_else(|| panic!("there is no statement {name}")).1.clone()
    }

    /// Runs it in a transaction that is rolled back; the rows it returned and the steps it took.
    async fn run(&mut self, name: &str, values: &[Value]) -> (usize, u64) {
        let sql = self.sql(name);
        self.connection.execute("BEGIN").await.expect("begin");
        self.steps.store(0, Ordering::Relaxed);
        let rows = sqlx::query_with(AssertSqlSafe(sql), arguments(values))
            .fetch_all(&mut self.connection)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let steps = self.steps.load(Ordering::Relaxed);
        self.connection.execute("ROLLBACK").await.expect("rollback");
        (rows.len(), steps)
    }

    async fn plan(&mut self, name: &str, values: &[Value]) -> Vec<String> {
        let sql = format!("EXPLAIN QUERY PLAN {}", self.sql(name));
        let rows = sqlx::query_with(AssertSqlSafe(sql), arguments(values))
            .fetch_all(&mut self.connection)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        rows.iter().map(|row| row.get("detail")).collect()
    }

    /// No big table is walked, nothing is sorted, no index is built as it runs; returns the steps.
    async fn check(&mut self, name: &str, values: &[Value]) -> (usize, u64) {
        let plan = self.plan(name, values).await;
        for line in &plan {
            let walks = BIG
                .iter()
                .any(|table| line.starts_with(&format!("SCAN {table} ")) || *line == format!("SCAN {table}"));
            // All of a destination, or all of it before or after an event. The unrouted lane holds
            // nothing but what its window returns.
            let walks = walks
                || name != "unrouted_window"
                    && line.contains("USING PRIMARY KEY (destination_id=?")
                    && !line.contains("event_seq=?");
            let sorts = line.contains("TEMP B-TREE FOR ORDER BY");
            if walks || sorts || line.contains("AUTOMATIC") {
                self.faults.push(format!("{name}: {line}, in {plan:#?}"));
            }
        }
        let (rows, steps) = self.run(name, values).await;
        println!("{name:>20}: {rows:>4} rows, {steps:>7} steps");
        if steps > STEPS_OF_A_CALL_MAX {
            self.faults.push(format!("{name}: {steps} steps, {plan:#?}"));
        }
        (rows, steps)
    }
}

fn arguments(values: &[Value]) -> SqliteArguments {
    let mut arguments = SqliteArguments::default();
    for value in values {
        match value {
            Int(number) => arguments.add(*number),
            Value::Text(text) => arguments.add(text.clone()),
            Null => arguments.add(None::<i64>),
        }
        .expect("an argument");
    }
    arguments
}

fn candidates(destination: i64, order: &str) -> [Value; 4] {
    [Int(destination), Int(NOW), Int(100), text(order)]
}

/// `[1,2,…]`, or rows made from each number.
fn json(numbers: std::ops::Range<i64>, row: impl Fn(i64) -> String) -> Value {
    Value::Text(format!("[{}]", numbers.map(row).collect::<Vec<_>>().join(",")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_statements_touch_what_they_return_however_much_lies_around() {
    let mut bench = Bench::open().await;
    the_claim(&mut bench).await;
    the_keys(&mut bench).await;
    the_ends(&mut bench).await;
    the_questions(&mut bench).await;
    the_pages_of_what_ended(&mut bench).await;
    assert!(bench.faults.is_empty(), "{}", bench.faults.join("\n"));
}

async fn the_claim(bench: &mut Bench) {
    let (rows, fresh) = bench.check("claim_ordinary", &candidates(fill::FLAT, "none")).await;
    assert_eq!(rows, 100);
    assert_eq!(bench.check("claim_suspect", &candidates(fill::FLAT, "none")).await.0, 0);
    assert_eq!(bench.check("claim_ordinary", &candidates(fill::QUIET, "none")).await.0, 0, "nothing is due");
    // Thousands leased at the head: the lease moved them away from it.
    fill::lease_the_head(&mut bench.connection, 5_000).await;
    let (rows, leased) = bench.check("claim_ordinary", &candidates(fill::FLAT, "none")).await;
    assert_eq!(rows, 100);
    assert!(leased < fresh * 2, "{leased} steps with 5,000 leased at the head, {fresh} with none");
    let events = json(6_001..6_101, |n| n.to_string());
    let taken =
        bench.check("claim", &[Int(fill::FLAT), events, text("host-a"), Int(NOW), Int(NOW + 20)]).await;
    assert_eq!(taken.0, 100);
}

async fn the_keys(bench: &mut Bench) {
    // 100,000 due rows of one key behind a head in back-off: each is one look, and is parked. An
    // ordered claim looks at 100 more than its limit.
    let ordered = [Int(fill::KEYED), Int(NOW), Int(200), text("key-block")];
    assert_eq!(bench.check("claim_ordinary", &ordered).await.0, 200);
    let first = fill::KEYED_FIRST + 1;
    let parked = json(first..first + 100, |n| format!("[{},{n},null]", fill::KEYED));
    bench.check("park", &[parked, Int(NOW)]).await;
    let key = format!("[[{},\"\",\"hot\"]]", fill::KEYED);
    bench.check("unpark", &[text(&key), Int(NOW)]).await;
    // Heads and what stands behind them, of many keys, with as much delivered before them.
    let (rows, of_many) = bench.check("claim_ordinary", &candidates(fill::MANY_KEYS, "key-block")).await;
    assert_eq!(rows, 100);
    assert!(of_many < 50_000, "{of_many} steps for 100 deliveries of 100 keys");
    let keys = json(0..100, |n| format!("[{},\"\",\"k{n}\"]", fill::MANY_KEYS));
    bench.check("unpark", &[keys, Int(NOW)]).await;
    fill::park_the_hot_key(&mut bench.connection).await;
    assert_eq!(bench.check("claim_ordinary", &candidates(fill::KEYED, "key-block")).await.0, 0);
    bench.check("unpark", &[text(&key), Int(NOW)]).await;
    bench.check("next_parked_key", &[Int(fill::KEYED), text(""), text("")]).await;
    assert_eq!(bench.check("next_parked_key", &[Int(fill::KEYED), text(""), text("hot")]).await.0, 0);
}

async fn the_ends(bench: &mut Bench) {
    let claims = json(1..101, |n| format!("[{},{n},1,\"{}\"]", fill::FLAT, fill::token(n)));
    assert_eq!(bench.check("renew", &[claims.clone(), Int(NOW), Int(NOW + 20)]).await.0, 100);
    assert_eq!(bench.check("release", &[claims, Int(NOW)]).await.0, 100);
    let results = json(1..101, |n| {
        let token = fill::token(n);
        format!("[{},{n},1,\"{token}\",0,null,\"delivered\",null,null,0]", fill::FLAT)
    });
    assert_eq!(bench.check("acknowledge", &[results, Int(NOW)]).await.0, 100);
    let history =
        json(1..101, |n| format!("[{n},{},1,1,\"h\",1,1,\"delivered\",null,null,0,null]", fill::FLAT));
    bench.check("record_attempts", &[history]).await;
    let lost = json(1..101, |n| n.to_string());
    bench.check("record_lost", &[Int(fill::FLAT), lost]).await;
    let buried = json(1..101, |n| format!("[{},{n},\"expired\"]", fill::FLAT));
    bench.check("bury", &[buried, Int(NOW)]).await;
}

async fn the_questions(bench: &mut Bench) {
    let lanes = json(1..101, |n| n.to_string());
    bench.check("lanes", &[lanes]).await;
    let events = json(1..101, |n| n.to_string());
    assert_eq!(bench.check("payloads", &[events]).await.0, 100);
    bench.check("unrouted_window", &[Int(0), Int(1_000)]).await;
    bench.check("orphan_window", &[Int(0), Int(1_000)]).await;
    bench.check("newest_event", &[]).await;
    bench.check("expired_of_lane", &[Int(fill::FLAT), Int(1_000)]).await;
    bench.check("find_events", &[text("e77"), Null]).await;
    bench.check("dead_of_lane", &[Int(fill::FLAT), Null, Int(0), Int(100), Int(1)]).await;
    bench.check("pending_of_lane", &[Int(fill::QUIET), Null, Int(0), Int(100)]).await;
    bench.check("show_event", &[text(""), text("e77")]).await;
    // Counting stops at its limit, whatever there is.
    bench.check("report_lane", &[Int(fill::FLAT), Int(10_000)]).await;
}

/// Backwards from an event, and no further than a page, whatever state its deliveries are in.
async fn the_pages_of_what_ended(bench: &mut Bench) {
    let page = |before| [Int(fill::FLAT), Int(before), Int(200)];
    let plan = bench.plan("recorded", &page(i64::MAX)).await;
    let walked = "SEARCH outbox_delivery USING PRIMARY KEY (destination_id=? AND event_seq<?)";
    assert!(plan.iter().any(|line| line == walked), "{plan:#?}");
    assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE") || line.contains("AUTOMATIC")), "{plan:#?}");
    // All of the first page are delivered, and all of the second pending, with its end alone told.
    for (before, expected) in [(i64::MAX, 200), (1_000_001, 1)] {
        let (rows, steps) = bench.run("recorded", &page(before)).await;
        assert_eq!(rows, expected);
        assert!(steps < 30_000, "{steps} steps for a page before {before}");
    }
}
