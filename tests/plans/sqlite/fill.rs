//! Two million deliveries, made by SQL with the triggers off.

use sqlx::{Executor, Row, SqliteConnection};

/// A million pending before a million delivered.
pub const FLAT: i64 = 1;
/// One hot key: its head in back-off, 100,000 due behind it.
pub const KEYED: i64 = 2;
/// Everything is due tomorrow.
pub const QUIET: i64 = 3;

/// A thousand keys, half of whose 200,000 deliveries are delivered.
pub const MANY_KEYS: i64 = 4;

/// The first event of the keyed destination, its head in back-off.
pub const KEYED_FIRST: i64 = 1_000_001;

fn numbers(from: i64, to: i64) -> String {
    format!("WITH RECURSIVE n(i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to})")
}

pub async fn fill(connection: &mut SqliteConnection) {
    connection.execute("PRAGMA synchronous = OFF").await.expect("a throw-away file");
    connection.execute("BEGIN IMMEDIATE").await.expect("begin");
    let triggers = sqlx::query("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        .fetch_all(&mut *connection)
        .await
        .expect("the triggers");
    for trigger in &triggers {
        run(connection, format!("DROP TRIGGER {}", trigger.get::<String, _>("name"))).await;
    }
    for id in 1..=100 {
        run(connection, format!("INSERT INTO outbox_destination (id, name) VALUES ({id}, 'lane{id}')")).await;
    }
    run(
        connection,
        format!(
            "{} INSERT INTO outbox_event (seq, event_id, topic, payload, partition_key, created_at)
             SELECT i, 'e' || i, 'order.created', zeroblob(200),
                    CASE WHEN i BETWEEN {KEYED_FIRST} AND {KEYED_FIRST} + 100000 THEN 'hot' END, 1
             FROM n",
            numbers(1, 2_000_000)
        ),
    )
    .await;
    const COLUMNS: &str =
        "(destination_id, event_seq, status, due_at, tenant_id, partition_key, attempts, fence, finished_at)";
    // Pending ones first in the order of the primary key, delivered ones behind.
    for (destination, from, to, status, due) in [
        (FLAT, 1, 1_000_000, 0, "i"),
        (FLAT, 1_000_001, 2_000_000, 1, "NULL"),
        (QUIET, 1, 100_000, 0, "2000000000 + i"),
    ] {
        run(
            connection,
            format!(
                "{} INSERT INTO outbox_delivery {COLUMNS}
                 SELECT {destination}, i, {status}, {due}, '', NULL, {status}, {status}, NULL
                 FROM n",
                numbers(from, to)
            ),
        )
        .await;
    }
    run(
        connection,
        format!(
            "{} INSERT INTO outbox_delivery {COLUMNS}
             SELECT {KEYED}, i, 0, CASE i WHEN {KEYED_FIRST} THEN 3000000000 ELSE i END, '', 'hot', 0, 0, NULL
             FROM n",
            numbers(KEYED_FIRST, KEYED_FIRST + 100_000)
        ),
    )
    .await;
    run(
        connection,
        format!(
            "{} INSERT INTO outbox_delivery {COLUMNS}
             SELECT {MANY_KEYS}, i, i <= 100000, iif(i <= 100000, NULL, i), '', 'k' || i % 1000, 0, 0, NULL
             FROM n",
            numbers(1, 200_000)
        ),
    )
    .await;
    connection
        .execute("UPDATE outbox_destination SET ordering = 'key-block' WHERE id IN (2, 4)")
        .await
        .expect("order");
    for trigger in &triggers {
        run(connection, trigger.get::<String, _>("sql")).await;
    }
    connection.execute("COMMIT").await.expect("commit");
}

/// The token of a leased row, as hex.
pub fn token(event: i64) -> String {
    format!("{event:032x}")
}

/// Leases the first `count` rows, as a claim does: due at the lease's end.
pub async fn lease_the_head(connection: &mut SqliteConnection, count: i64) {
    run(
        connection,
        format!(
            "UPDATE outbox_delivery
             SET attempts = 1, fence = 1, claim_token = unhex(printf('%032x', event_seq)),
                 lease_until = 1500000000, due_at = 1500000000, claimed_by = 'h', claimed_at = 1
             WHERE destination_id = {FLAT} AND event_seq <= {count}"
        ),
    )
    .await;
}

pub async fn park_the_hot_key(connection: &mut SqliteConnection) {
    run(
        connection,
        format!(
            "UPDATE outbox_delivery SET parked = 1 WHERE destination_id = {KEYED} AND event_seq > {KEYED_FIRST}"
        ),
    )
    .await;
}

async fn run(connection: &mut SqliteConnection, sql: String) {
    let error = connection.execute(sqlx::AssertSqlSafe(sql.clone())).await.err();
    assert!(error.is_none(), "{sql}: {error:?}");
}
