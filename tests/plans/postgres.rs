//! The plans on PostgreSQL, measured by the server itself.

mod explain;
mod fill;

use std::time::Duration;

use outhaul::domain::DestinationId;
use outhaul::store::postgres::{PostgresOptions, PostgresStore};
use outhaul::store::*;
use outhaul_tests::postgres::TestDatabase;

use explain::Explain;
use fill::{BUSY, FUTURE, HOT, LEASED_AT_THE_HEAD, MANY_KEYS, ROWS_OF_THE_HOT_KEY};

/// What one claim of 100 may look at, index entries and heap rows together.
const ROWS_EXAMINED_MAX: f64 = 1_500.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_pending_and_a_million_delivered_cost_a_claim_nothing() {
    let database = TestDatabase::create().await;
    let store = PostgresStore::connect(&PostgresOptions::new(database.url())).await.expect("connect");
    println!("{}", store.server_version().await.expect("version"));
    store.migrate().await.expect("migrate");
    let mut connection = database.connection().await;
    fill::fill(&mut connection).await;

    let mut explain = Explain::new(connection, &store).await;
    // Before the first ANALYZE the planner knows sizes and nothing else; and it may take a generic
    // plan at any time, which knows no parameter.
    for (statistics, generic) in [(false, false), (false, true), (true, false), (true, true)] {
        explain.mode(statistics, generic).await;
        claims_stay_bounded(&mut explain).await;
        ends_of_claims_stay_bounded(&mut explain).await;
        questions_stay_bounded(&mut explain).await;
        sweeps_stay_bounded(&mut explain).await;
    }
    a_hot_key_is_parked_in_bounded_claims(&store).await;
    // Parked, and so out of every later claim.
    explain.check("candidates_ordinary", &format!("{HOT}, 200, null, 1"), 50.0).await;
    explain.check("parked_keys", &format!("'{{{HOT}}}', 0, '', '', 100"), 50.0).await;
}

async fn claims_stay_bounded(explain: &mut Explain) {
    let claim = |lane: i64| format!("{lane}, 100, 30000000, 12, 'host', null");
    let rows = explain.check("claim_ordinary", &claim(BUSY), ROWS_EXAMINED_MAX).await;
    assert_eq!(rows, 100.0, "a full batch, past {LEASED_AT_THE_HEAD} leased deliveries");
    assert_eq!(explain.check("claim_suspect", &claim(BUSY), 50.0).await, 0.0);
    assert_eq!(explain.check("claim_ordinary", &claim(FUTURE), 50.0).await, 0.0, "nothing is due");

    let candidates = explain.check("candidates_ordinary", &format!("{HOT}, 200, null, 1"), 1_000.0).await;
    assert_eq!(candidates, 200.0, "of {ROWS_OF_THE_HOT_KEY} behind a head in back-off");
    let seqs: Vec<String> = (2..=201).map(|seq| seq.to_string()).collect();
    let keyed = format!("{HOT}, 100, 30000000, 12, 'host', null, '{{{}}}', true", seqs.join(","));
    explain.check("claim_keyed", &keyed, 3_000.0).await;
    let heads: Vec<String> = (100_001..=100_200).map(|seq| seq.to_string()).collect();
    let keyed = format!("{MANY_KEYS}, 100, 30000000, 12, 'host', null, '{{{}}}', true", heads.join(","));
    explain.check("claim_keyed", &keyed, 3_000.0).await;
    let keys: Vec<String> = (0..100).map(|key| format!("k{key}")).collect();
    let (lanes, tenants) = (vec![MANY_KEYS.to_string(); 100].join(","), vec!["\"\""; 100].join(","));
    let keys = keys.join(",");
    explain.check("unpark", &format!("'{{{lanes}}}', '{{{tenants}}}', '{{{keys}}}', false"), 1_500.0).await;
    explain.check("unpark", &format!("'{{{HOT}}}', '{{\"\"}}', '{{hot}}', false"), 50.0).await;
}

async fn ends_of_claims_stay_bounded(explain: &mut Explain) {
    let claims = explain.leased(100).await;
    assert_eq!(explain.check("renew", &format!("{claims}, 30000000"), ROWS_EXAMINED_MAX).await, 100.0);
    assert_eq!(explain.check("release", &claims, ROWS_EXAMINED_MAX).await, 100.0);
    let fill = |value: &str| format!("'{{{}}}'", vec![value; 100].join(","));
    let columns =
        ["0", "0", "delivered", "ref", "null", "host", "1", "2026-01-01", "2026-01-01", "delivered"];
    let texts = ["null", "null", "false", "abc", "true"];
    let rest: Vec<String> = columns.iter().chain(&texts).map(|value| fill(value)).collect();
    let acknowledgements = format!("{claims}, {}", rest.join(", "));
    assert_eq!(explain.check("acknowledge", &acknowledgements, ROWS_EXAMINED_MAX).await, 100.0);
}

async fn questions_stay_bounded(explain: &mut Explain) {
    let lanes: Vec<String> = (1..=100).map(|id| id.to_string()).collect();
    let rows = explain.check("lanes", &format!("'{{{}}}'", lanes.join(",")), ROWS_EXAMINED_MAX).await;
    assert_eq!(rows, 100.0, "one question for a hundred lanes");
    assert_eq!(explain.check("payloads", "'{1,2,3,1000000,2000000}'", 50.0).await, 5.0);
    explain.check("event", "'', 'e-1500000'", 50.0).await;
    explain.check("attempts", "1500000", 50.0).await;
    explain
        .check("deliveries_of_events", "'{1500000}', null, null, null, null, 100, null", ROWS_EXAMINED_MAX)
        .await;
    assert!(explain.check("recorded", "1, 9223372036854775807, 200", ROWS_EXAMINED_MAX).await > 0.0);
    // Counts stop at the limit given, in each of its parts.
    explain.check("lane_reports", "1000", 20_000.0).await;
}

async fn sweeps_stay_bounded(explain: &mut Explain) {
    explain.check("route_unrouted", "0, 100", ROWS_EXAMINED_MAX).await;
    explain.check("adopt", "1000000, 4000, 100", 20_000.0).await;
    explain.check("bury_expired", &format!("'{{{BUSY},{FUTURE}}}', 100"), ROWS_EXAMINED_MAX).await;
    explain.check("unpark_unordered", &format!("'{{{BUSY},{FUTURE}}}', 100"), ROWS_EXAMINED_MAX).await;
    explain.check("horizon", "", 50.0).await;
}

/// Each claim parks a bounded number, and after so many claims nothing of the key is due.
async fn a_hot_key_is_parked_in_bounded_claims(store: &PostgresStore) {
    const LIMIT: u32 = 1_000;
    let lane = DestinationId(HOT);
    let request = ClaimRequest {
        host_id: "host".to_owned(),
        destination: lane,
        limit: LIMIT,
        lease: Duration::from_secs(30),
        order: Order::Key(OnDead::Block),
        max_attempts: 12,
        which: Which::Ordinary,
        probe: None,
    };
    let mut parked = Vec::new();
    loop {
        let claims = store.claim(&request).await.expect("claim");
        assert!(claims.claimed.is_empty(), "the head is in back-off: {:?}", claims.claimed);
        if claims.parked == 0 {
            break;
        }
        parked.push(claims.parked);
    }
    assert!(parked.iter().all(|count| *count <= LIMIT + 100), "{parked:?}");
    assert_eq!(parked.iter().map(|count| i64::from(*count)).sum::<i64>(), ROWS_OF_THE_HOT_KEY);
    let view = &store.lanes(&[lane]).await.expect("lanes")[0];
    assert!(!view.has_due && view.next_due_at.is_some(), "only the head is left, for later: {view:?}");
}
