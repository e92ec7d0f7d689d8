//! Runs a statement of the store under EXPLAIN ANALYZE, judges its plan, and takes it back.

use std::collections::HashMap;

use outhaul::store::postgres::PostgresStore;
use outhaul_tests::postgres::run;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row};

const BIG: [&str; 2] = ["outbox_delivery", "outbox_event"];

/// Pages touched, with those that the written rows and their index entries need.
const BUFFERS_MAX: f64 = 10_000.0;

/// More rows than this in one sort are a backlog's, not a batch's.
const SORTED_ROWS_MAX: f64 = 5_000.0;

pub struct Explain {
    connection: PgConnection,
    statements: HashMap<&'static str, String>,
    mode: String,
}

impl Explain {
    pub async fn new(mut connection: PgConnection, store: &PostgresStore) -> Self {
        let statements =
            store.statements().into_iter().map(|(name, sql)| (name, sql.as_str().to_owned())).collect();
        let jit: String =
            sqlx::query_scalar("show jit").fetch_one(store.pool()).await.expect("the store's own session");
        assert_eq!(jit, "off", "compiling takes longer than any of these statements");
        run(&mut connection, "set jit = off").await;
        Self { connection, statements, mode: String::new() }
    }

    pub async fn mode(&mut self, statistics: bool, generic: bool) {
        self.mode = format!(
            "{} statistics, {} plan",
            if statistics { "with" } else { "without" },
            if generic { "generic" } else { "custom" }
        );
        if statistics {
            run(&mut self.connection, "analyze").await;
        }
        let plans = if generic { "force_generic_plan" } else { "force_custom_plan" };
        run(&mut self.connection, format!("set plan_cache_mode = {plans}")).await;
    }

    /// The rows the statement answers, after its plan was found good: no walk over a big table, no
    /// sort of a backlog, and no more rows examined than `rows_max`.
    pub async fn check(&mut self, name: &str, parameters: &str, rows_max: f64) -> f64 {
        let plan = self.run(name, parameters).await;
        let cost = judge(&plan);
        let what = format!("{name}({parameters:.60}) {}: {cost:?}", self.mode);
        assert!(cost.walked.is_empty(), "{what}\n{plan:#}");
        assert!(cost.sorted <= SORTED_ROWS_MAX, "{what}\n{plan:#}");
        assert!(cost.examined <= rows_max, "{what}\n{plan:#}");
        assert!(cost.buffers <= BUFFERS_MAX, "{what}\n{plan:#}");
        println!("{what}");
        plan["Actual Rows"].as_f64().expect("a row count")
    }

    /// Live claims of others at the head, as the four first parameters of a worker's statement.
    pub async fn leased(&mut self, count: i64) -> String {
        let rows = sqlx::query(
            "select event_seq, claim_token::text from outbox_delivery
             where event_seq > 1000000 and destination_id = 1 order by event_seq limit $1",
        )
        .bind(count)
        .fetch_all(&mut self.connection)
        .await
        .expect("leased rows");
        let column = |values: Vec<String>| format!("'{{{}}}'", values.join(","));
        let seqs = rows.iter().map(|row| row.get::<i64, _>(0).to_string()).collect();
        let tokens = rows.iter().map(|row| row.get::<String, _>(1)).collect();
        let same = |value: &str| column(vec![value.to_owned(); rows.len()]);
        format!("{}, {}, {}, {}", same("1"), column(seqs), column(tokens), same("1"))
    }

    async fn run(&mut self, name: &str, parameters: &str) -> Value {
        let sql = self.statements.get(name).unwrap_or_else(|| panic!("there is no statement {name}")).clone();
        run(&mut self.connection, format!("prepare hot as {sql}")).await;
        run(&mut self.connection, "begin").await;
        let call = if parameters.is_empty() { "hot".to_owned() } else { format!("hot({parameters})") };
        let row =
            sqlx::query(AssertSqlSafe(format!("explain (analyze, buffers, format json) execute {call}")))
                .persistent(false)
                .fetch_one(&mut self.connection)
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        let plan: Value = row.get(0);
        run(&mut self.connection, "rollback; deallocate hot").await;
        println!("{name}: {} ms", plan[0]["Execution Time"]);
        plan[0]["Plan"].clone()
    }
}

#[derive(Debug, Default)]
struct Cost {
    /// Big tables read from end to end.
    walked: Vec<String>,
    /// Rows of the largest sort.
    sorted: f64,
    /// Rows of big tables looked at, those that were thrown away included.
    examined: f64,
    buffers: f64,
}

fn judge(plan: &Value) -> Cost {
    let number = |key: &str| plan[key].as_f64().unwrap_or(0.0);
    let mut cost =
        Cost { buffers: number("Shared Hit Blocks") + number("Shared Read Blocks"), ..Cost::default() };
    add(plan, &mut cost);
    cost
}

fn add(node: &Value, cost: &mut Cost) {
    let number = |key: &str| node[key].as_f64().unwrap_or(0.0);
    let loops = number("Actual Loops");
    let rows =
        (number("Actual Rows") + number("Rows Removed by Filter") + number("Rows Removed by Index Recheck"))
            * loops;
    let kind = node["Node Type"].as_str().unwrap_or_default();
    let relation = node["Relation Name"].as_str().unwrap_or_default();
    let is_scan = kind.contains("Scan") && kind != "Bitmap Heap Scan" || kind == "Bitmap Index Scan";
    if BIG.contains(&relation) && kind == "Seq Scan" && loops > 0.0 {
        cost.walked.push(relation.to_owned());
    }
    if is_scan && (BIG.contains(&relation) || kind == "Bitmap Index Scan") {
        cost.examined += rows;
    }
    if kind.contains("Sort") {
        cost.sorted = cost.sorted.max(number("Actual Rows") * loops);
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        add(child, cost);
    }
}
