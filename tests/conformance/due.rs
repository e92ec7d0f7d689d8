//! What is due: times, expiry, suspects, poison.

use outhaul::domain::{DeadReason, Write};
use outhaul::store::*;

use crate::harness::Database;
use crate::scene::*;

pub async fn an_event_is_not_delivered_before_it_is_available(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let future = NewEvent { available_at: Some(at(200)), ..event("e1") };
    let past = NewEvent { available_at: Some(at(1)), ..event("e2") };
    scene.insert(&[future, past]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["e2"]);
    assert_eq!(scene.lane().await.next_due_at, Some(at(120)), "the lease's end comes before 200");
    scene.at(199).await;
    assert!(!scene.claim_ids("host-a").await.contains(&"e1".to_owned()));
    scene.at(200).await;
    assert_eq!(scene.claim_ids("host-a").await, ["e1"]);
}

pub async fn an_unclaimed_event_is_a_dead_letter_when_it_expires(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let expiring = |id: &str| NewEvent { expires_at: Some(at(150)), ..event(id) };
    let late = NewEvent { available_at: Some(at(900)), ..expiring("e2") };
    scene.insert(&[expiring("e1"), late]).await;
    scene.at(150).await;
    let claims = scene.claims(&scene.request("host-a")).await;
    assert!(claims.claimed.is_empty());
    let reasons: Vec<_> = claims.buried.iter().map(|(_, reason)| *reason).collect();
    assert_eq!(reasons, [DeadReason::Expired, DeadReason::Expired]);
    for id in ["e1", "e2"] {
        let row = scene.row(id).await;
        assert_eq!((row.status, row.attempts), (DeliveryStatus::Dead, 0));
        assert_eq!((row.disposition.as_deref(), row.finished_at), (Some("expired"), Some(at(150))));
    }
}

pub async fn a_delivery_under_way_may_end_after_it_expired(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert(&[NewEvent { expires_at: Some(at(105)), ..event("e1") }]).await;
    let claimed = scene.claim_one("host-a").await;
    scene.at(110).await;
    assert!(scene.claim("host-b").await.is_empty());
    assert_eq!(scene.row("e1").await.status, DeliveryStatus::Pending);
    scene.deliver(&claimed).await;
    assert_eq!(scene.row("e1").await.status, DeliveryStatus::Delivered);
}

pub async fn a_retry_past_the_expiry_is_a_dead_letter_at_the_expiry(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert(&[NewEvent { expires_at: Some(at(105)), ..event("e1") }]).await;
    let claimed = scene.claim_one("host-a").await;
    assert_eq!(scene.acknowledge(&claimed, Write::Retry(secs(500))).await, Settled::Recorded);
    assert_eq!(scene.row("e1").await.due_at, Some(at(105)));
    scene.at(105).await;
    assert_eq!(scene.claims(&scene.request("host-a")).await.buried.len(), 1);
}

pub async fn the_sweep_buries_what_expired_in_a_lane_that_claims_nothing(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert(&[NewEvent { expires_at: Some(at(150)), ..event("e1") }, event("e2")]).await;
    scene.store.pause(SHOP, "maintenance", "ann").await.expect("pause");
    scene.at(150).await;
    let swept = scene.store.sweep(&[], 100).await.expect("sweep");
    assert!(swept.expired.is_empty(), "not for a destination this host lacks");
    let swept = scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    assert_eq!(swept.expired.into_iter().collect::<Vec<_>>(), [(scene.shop, 1)]);
    assert_eq!(scene.row("e1").await.disposition.as_deref(), Some("expired"));
    assert_eq!(scene.row("e2").await.status, DeliveryStatus::Pending);
}

pub async fn a_delivery_that_was_lost_twice_is_claimed_as_a_suspect_only(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["killer", "neighbour"]).await;
    let killer_only = ClaimRequest { limit: 1, max_attempts: 9, ..scene.request("host-a") };
    for round in 0..2 {
        let claimed = scene.claims(&killer_only).await.claimed;
        assert_eq!(ids(&claimed), ["killer"], "round {round}");
        // Its host dies; the neighbour is in back-off all the while.
        if let Some(neighbour) = scene.claim("host-a").await.pop() {
            scene.acknowledge(&neighbour, Write::Retry(secs(60))).await;
        }
        scene.at(120 + 20 * round).await;
    }
    let lane = scene.lane().await;
    assert!(lane.has_due_suspect && !lane.has_due, "{lane:?}");
    scene.at(160).await;
    let ordinary = scene.claims(&ClaimRequest { max_attempts: 9, ..scene.request("host-a") }).await;
    assert_eq!(ids(&ordinary.claimed), ["neighbour"]);
    let request = ClaimRequest { which: Which::Suspect, max_attempts: 9, ..scene.request("host-a") };
    let suspects = scene.claims(&request).await.claimed;
    assert_eq!(ids(&suspects), ["killer"]);
    assert_eq!((suspects[0].attempt, suspects[0].lost), (3, 2));
    scene.deliver(&suspects[0]).await;
}

pub async fn s12_poison_at_the_head_of_the_due_order_starves_nothing(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let poison: Vec<String> = (0..6).map(|n| format!("poison{n}")).collect();
    scene.insert(&poison.iter().map(|id| event(id)).collect::<Vec<_>>()).await;
    scene.insert_ids(&["good1", "good2"]).await;
    let two = ClaimRequest { limit: 2, ..scene.request("host-a") };
    let mut delivered = Vec::new();
    for _ in 0..4 {
        for claimed in scene.claims(&two).await.claimed {
            if claimed.event.id.starts_with("poison") {
                scene.acknowledge(&claimed, Write::Retry(secs(1))).await;
            } else {
                scene.deliver(&claimed).await;
                delivered.push(claimed.event.id);
            }
        }
    }
    assert_eq!(delivered, ["good1", "good2"], "at the same moment, after one attempt of each");
}

pub async fn a_lane_says_what_is_due_and_when_the_next_will_be(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let lane = scene.lane().await;
    assert_eq!((lane.has_due, lane.has_due_suspect, lane.next_due_at), (false, false, None));
    scene.insert(&[event("e1"), NewEvent { available_at: Some(at(300)), ..event("e2") }]).await;
    let lane = scene.lane().await;
    assert_eq!((lane.has_due, lane.next_due_at), (true, Some(at(300))));
    let claimed = scene.claim_one("host-a").await;
    let lane = scene.lane().await;
    assert_eq!((lane.has_due, lane.next_due_at), (false, Some(at(120))));
    scene.deliver(&claimed).await;
    assert_eq!(scene.lane().await.next_due_at, Some(at(300)));
}
