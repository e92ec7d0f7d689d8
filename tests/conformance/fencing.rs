//! Leases, tokens and fences: who may end an attempt (G3, G4, G5).

use outhaul::domain::{ClaimToken, DeadReason, Write};
use outhaul::store::*;

use crate::harness::Database;
use crate::scene::*;

const WRITES: [Write; 4] =
    [Write::Delivered, Write::Dead(DeadReason::Rejected), Write::Retry(secs_5()), Write::Defer];

const fn secs_5() -> std::time::Duration {
    std::time::Duration::from_secs(5)
}

pub async fn a_lease_taken_at_100_for_20_can_be_acknowledged_at_119(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let claimed = scene.claim_one("host-a").await;
    assert_eq!((claimed.attempt, claimed.claim.fence.0, claimed.claimed_at), (1, 1, at(100)));
    scene.at(119).await;
    assert!(scene.claim("host-b").await.is_empty(), "the lease still holds at 119");
    scene.deliver(&claimed).await;
    let row = scene.row("e1").await;
    assert_eq!(row.status, DeliveryStatus::Delivered);
    assert_eq!((row.attempts, row.lost, row.lease_until), (1, 0, None));
    assert_eq!(row.finished_at, Some(at(119)));
    assert_eq!(row.reference.as_deref(), Some("ref-1"));
}

pub async fn at_120_the_lease_is_gone_and_only_the_second_worker_can_acknowledge(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let first = scene.claim_one("host-a").await;
    scene.at(120).await;
    assert_eq!(scene.acknowledge(&first, Write::Delivered).await, Settled::Fenced);
    assert_eq!(scene.row("e1").await.status, DeliveryStatus::Pending);
    let second = scene.claim_one("host-b").await;
    assert_eq!((second.attempt, second.claim.fence.0, second.lost), (2, 2, 1));
    assert!(second.uncertain_before);
    assert_ne!(first.claim.token, second.claim.token);
    assert_eq!(scene.acknowledge(&first, Write::Delivered).await, Settled::Fenced);
    scene.at(139).await;
    scene.deliver(&second).await;
    assert_eq!(scene.row("e1").await.status, DeliveryStatus::Delivered);
}

pub async fn a_delivered_row_cannot_be_claimed(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let claimed = scene.claim_one("host-a").await;
    scene.deliver(&claimed).await;
    for now in [100, 120, 1_000_000] {
        scene.at(now).await;
        assert!(scene.claim("host-b").await.is_empty(), "at {now}");
    }
}

pub async fn every_statement_of_a_worker_is_fenced_once_its_lease_ended(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let claimed = scene.claim_one("host-a").await;
    scene.at(120).await;
    let before = format!("{:?}", scene.row("e1").await);
    for write in WRITES {
        assert_eq!(scene.acknowledge(&claimed, write).await, Settled::Fenced);
    }
    let claims = [claimed.claim];
    assert_eq!(scene.store.renew(&claims, LEASE).await.expect("renew"), [Settled::Fenced]);
    assert_eq!(scene.store.release(&claims).await.expect("release"), [Settled::Fenced]);
    assert_eq!(format!("{:?}", scene.row("e1").await), before);
}

pub async fn every_statement_of_a_worker_is_fenced_by_another_token(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let mut forged = scene.claim_one("host-a").await;
    forged.claim.token = ClaimToken([7; 16]);
    let before = format!("{:?}", scene.row("e1").await);
    for write in WRITES {
        assert_eq!(scene.acknowledge(&forged, write).await, Settled::Fenced);
    }
    let claims = [forged.claim];
    assert_eq!(scene.store.renew(&claims, LEASE).await.expect("renew"), [Settled::Fenced]);
    assert_eq!(scene.store.release(&claims).await.expect("release"), [Settled::Fenced]);
    assert_eq!(format!("{:?}", scene.row("e1").await), before);
}

pub async fn a_renewal_extends_the_lease_from_now(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let claimed = scene.claim_one("host-a").await;
    scene.at(110).await;
    assert_eq!(scene.store.renew(&[claimed.claim], LEASE).await.expect("renew"), [Settled::Recorded]);
    assert_eq!(scene.row("e1").await.lease_until, Some(at(130)));
    scene.at(129).await;
    assert!(scene.claim("host-b").await.is_empty());
    scene.deliver(&claimed).await;
}

pub async fn each_row_of_a_batch_is_judged_by_its_own_token(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2", "e3"]).await;
    let claimed = scene.claim("host-a").await;
    assert_eq!(ids(&claimed), ["e1", "e2", "e3"]);
    let mut forged = claimed[1].clone();
    forged.claim.token = ClaimToken([7; 16]);
    let mixed = [claimed[2].clone(), forged, claimed[0].clone()];
    let expected = [Settled::Recorded, Settled::Fenced, Settled::Recorded];
    assert_eq!(scene.store.renew(&refs(&mixed), LEASE).await.expect("renew"), expected);
    let results: Vec<_> = mixed.iter().map(|claimed| answer(claimed, Write::Delivered)).collect();
    assert_eq!(scene.store.acknowledge(&results).await.expect("acknowledge"), expected);
    assert_eq!(scene.row("e2").await.status, DeliveryStatus::Pending);
    assert_eq!(scene.row("e3").await.status, DeliveryStatus::Delivered);
}

pub async fn a_batch_may_hold_every_kind_of_end(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2", "e3", "e4"]).await;
    let claimed = scene.claim("host-a").await;
    let results: Vec<_> = claimed.iter().zip(WRITES).map(|(claimed, write)| answer(claimed, write)).collect();
    assert_eq!(scene.store.acknowledge(&results).await.expect("acknowledge"), [Settled::Recorded; 4]);
    let delivered = scene.row("e1").await;
    assert_eq!((delivered.status, delivered.attempts), (DeliveryStatus::Delivered, 1));
    let dead = scene.row("e2").await;
    assert_eq!((dead.status, dead.disposition.as_deref()), (DeliveryStatus::Dead, Some("rejected")));
    assert_eq!(dead.last_error.as_deref(), Some("no: the destination said so"));
    let retried = scene.row("e3").await;
    assert_eq!((retried.status, retried.attempts), (DeliveryStatus::Pending, 1));
    assert_eq!((retried.due_at, retried.lease_until), (Some(at(105)), None));
    let deferred = scene.row("e4").await;
    assert_eq!((deferred.status, deferred.attempts, deferred.deferrals), (DeliveryStatus::Pending, 0, 1));
    assert_eq!((deferred.due_at, deferred.fence), (Some(at(100)), 1));
}

pub async fn a_retry_is_claimed_when_its_wait_ended_and_not_before(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let claimed = scene.claim_one("host-a").await;
    assert_eq!(scene.acknowledge(&claimed, Write::Retry(secs(5))).await, Settled::Recorded);
    scene.at(104).await;
    assert!(scene.claim("host-a").await.is_empty());
    scene.at(105).await;
    let again = scene.claim_one("host-a").await;
    assert_eq!((again.attempt, again.claim.fence.0, again.lost), (2, 2, 0));
    assert!(!again.uncertain_before);
    assert_eq!(again.first_claimed_at, at(100));
}

pub async fn a_release_gives_the_attempt_back(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    for fence in 1..=4 {
        let claimed = scene.claim_one("host-a").await;
        assert_eq!((claimed.attempt, claimed.claim.fence.0), (1, fence));
        assert_eq!(scene.store.release(&[claimed.claim]).await.expect("release"), [Settled::Recorded]);
    }
    let row = scene.row("e1").await;
    assert_eq!((row.attempts, row.deferrals, row.lost, row.uncertain), (0, 0, 0, false));
    assert!(scene.history("e1").await.is_empty());
}

pub async fn a_deferral_gives_the_attempt_back_and_goes_behind_the_others(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2"]).await;
    let one = ClaimRequest { limit: 1, ..scene.request("host-a") };
    scene.at(101).await;
    let first = scene.claims(&one).await.claimed.remove(0);
    assert_eq!(first.event.id, "e1");
    assert_eq!(scene.acknowledge(&first, Write::Defer).await, Settled::Recorded);
    let next = scene.claims(&one).await.claimed.remove(0);
    assert_eq!(next.event.id, "e2");
    let again = scene.claims(&one).await.claimed.remove(0);
    assert_eq!((again.event.id.as_str(), again.attempt, again.deferrals), ("e1", 1, 1));
}

pub async fn s2_attempts_are_counted_at_the_claim_and_run_out(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    // Three hosts die without a word; the third attempt is a suspect's.
    for (attempt, which) in [(1, Which::Ordinary), (2, Which::Ordinary), (3, Which::Suspect)] {
        let request = ClaimRequest { which, ..scene.request("host-a") };
        let claims = scene.claims(&request).await;
        assert_eq!(claims.claimed.len(), 1, "attempt {attempt}");
        assert_eq!((claims.claimed[0].attempt, claims.claimed[0].lost), (attempt, attempt - 1));
        scene.at(100 + 20 * i64::from(attempt)).await;
    }
    let request = ClaimRequest { which: Which::Suspect, ..scene.request("host-a") };
    let claims = scene.claims(&request).await;
    assert!(claims.claimed.is_empty());
    assert_eq!(claims.buried.len(), 1);
    assert_eq!(claims.buried[0].1, DeadReason::AttemptsExhaustedUnknown);
    let row = scene.row("e1").await;
    assert_eq!((row.status, row.attempts, row.lost), (DeliveryStatus::Dead, 3, 3));
    assert_eq!(row.disposition.as_deref(), Some("attempts exhausted, last outcome unknown"));
    assert!(row.uncertain);
    let error = row.last_error.expect("it says what happened");
    assert!(error.contains("lost") && error.contains("host-a"), "{error}");
    let lost = |fence: i64| (fence, fence as u32, "lost".to_owned(), true);
    assert_eq!(scene.history("e1").await, [lost(1), lost(2), lost(3)]);
}

pub async fn attempts_used_up_by_a_lowered_limit_are_a_dead_letter_at_the_next_claim(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let claimed = scene.claim_one("host-a").await;
    scene.acknowledge(&claimed, Write::Retry(secs(0))).await;
    let claims = scene.claims(&ClaimRequest { max_attempts: 1, ..scene.request("host-a") }).await;
    assert!(claims.claimed.is_empty());
    assert_eq!(claims.buried.len(), 1);
    assert_eq!(claims.buried[0].1, DeadReason::AttemptsExhausted);
    let row = scene.row("e1").await;
    assert_eq!(row.status, DeliveryStatus::Dead);
    assert_eq!(row.disposition.as_deref(), Some("attempts exhausted"));
}

pub async fn s3_a_late_result_changes_no_delivery_and_replaces_lost_in_the_history(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let first = scene.claim_one("host-a").await;
    scene.at(120).await;
    let second = scene.claim_one("host-b").await;
    assert_eq!(scene.history("e1").await, [(1, 1, "lost".to_owned(), true)]);
    scene.deliver(&second).await;
    let before = format!("{:?}", scene.row("e1").await);
    assert_eq!(scene.acknowledge(&first, Write::Retry(secs(1))).await, Settled::Fenced);
    assert_eq!(format!("{:?}", scene.row("e1").await), before);
    let expected = [(1, 1, "retry".to_owned(), true), (2, 2, "delivered".to_owned(), false)];
    assert_eq!(scene.history("e1").await, expected);
}

pub async fn lost_never_overwrites_a_result_in_the_history(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let first = scene.claim_one("host-a").await;
    scene.at(120).await;
    assert_eq!(scene.acknowledge(&first, Write::Delivered).await, Settled::Fenced);
    let claims = scene.claims(&scene.request("host-b")).await;
    assert_eq!((claims.claimed.len(), claims.lost), (1, 1));
    assert_eq!(scene.history("e1").await, [(1, 1, "delivered".to_owned(), true)]);
    assert!(scene.row("e1").await.uncertain);
}

pub async fn a_repeated_acknowledgement_is_fenced_and_changes_nothing(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let claimed = scene.claim_one("host-a").await;
    scene.deliver(&claimed).await;
    let before = format!("{:?}", scene.report("e1").await);
    assert_eq!(scene.acknowledge(&claimed, Write::Delivered).await, Settled::Fenced);
    assert_eq!(scene.acknowledge(&claimed, Write::Retry(secs(1))).await, Settled::Fenced);
    assert_eq!(format!("{:?}", scene.report("e1").await), before);
}

pub async fn a_claim_takes_no_more_than_its_limit_in_due_order(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2", "e3"]).await;
    scene.at(105).await;
    scene.insert_ids(&["e4"]).await;
    let two = ClaimRequest { limit: 2, ..scene.request("host-a") };
    assert_eq!(ids(&scene.claims(&two).await.claimed), ["e1", "e2"]);
    assert_eq!(ids(&scene.claims(&two).await.claimed), ["e3", "e4"]);
    assert!(scene.claims(&two).await.claimed.is_empty());
}

pub async fn two_claims_at_once_take_disjoint_deliveries_and_all_of_them(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let names: Vec<String> = (0..40).map(|n| format!("e{n:02}")).collect();
    scene.insert(&names.iter().map(|id| event(id)).collect::<Vec<_>>()).await;
    let other = db.second_store().await;
    let (here, there) = (scene.request("host-a"), scene.request("host-b"));
    let mut taken = Vec::new();
    while taken.len() < 40 {
        let (a, b) = tokio::join!(scene.store.claim(&here), other.claim(&there));
        let (a, b) = (a.expect("claim").claimed, b.expect("claim").claimed);
        assert!(!a.is_empty() || !b.is_empty(), "{} of 40 were claimed", taken.len());
        taken.extend(ids(&a));
        taken.extend(ids(&b));
    }
    taken.sort();
    assert_eq!(taken, names);
}

pub async fn a_claim_brings_the_event_as_its_producer_wrote_it(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let written = NewEvent {
        tenant: "acme".to_owned(),
        key: Some("order-1".to_owned()),
        headers: vec![("traceparent".to_owned(), "00-ab".to_owned())],
        content_type: Some("text/plain".to_owned()),
        payload: vec![0, 159, 146, 150, b'\\', b'\''],
        expires_at: Some(at(500)),
        ..event("e1")
    };
    scene.insert(std::slice::from_ref(&written)).await;
    let claimed = scene.claim_one("host-a").await.event;
    assert_eq!((claimed.tenant.as_str(), claimed.id.as_str()), ("acme", "e1"));
    assert_eq!((claimed.topic.as_str(), claimed.key.as_deref()), ("order.created", Some("order-1")));
    assert_eq!(claimed.headers, written.headers);
    assert_eq!((claimed.content_type.as_str(), claimed.payload_bytes), ("text/plain", 6));
    assert_eq!((claimed.created_at, claimed.expires_at), (at(100), Some(at(500))));
    let payloads = scene.store.payloads(&[claimed.seq]).await.expect("payloads");
    assert_eq!(payloads.len(), 1);
    assert_eq!((payloads[0].0, payloads[0].1.to_vec()), (claimed.seq, written.payload.clone()));
    let payload = scene.store.payload(claimed.seq).await.expect("payload").expect("there is one");
    assert_eq!(payload.to_vec(), written.payload);
}
