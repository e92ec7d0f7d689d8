//! Order by key (G7): one delivery of a key at a time, earlier before later.

use outhaul::domain::{DeadReason, Write};
use outhaul::store::*;

use crate::harness::Database;
use crate::scene::*;

const BLOCK: Order = Order::Key(OnDead::Block);
const SKIP: Order = Order::Key(OnDead::Skip);

pub async fn a_key_is_delivered_one_at_a_time_in_order_and_the_rest_is_free(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b"), event("n1"), event("n2")]).await;
    let first = scene.claim_all("host-a").await;
    assert_eq!(ids(&first), ["a1", "b1", "n1", "n2"], "a batch holds one event of a key");
    assert!(scene.claim_ids("host-b").await.is_empty(), "a2 stands behind the leased a1");
    scene.deliver(&first[0]).await;
    assert_eq!(scene.claim_ids("host-b").await, ["a2"]);
}

pub async fn back_off_of_a_head_blocks_its_key(db: &dyn Database) {
    let scene = Scene::ordered(db, SKIP).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let head = scene.claim_all("host-a").await.remove(0);
    assert_eq!(scene.acknowledge(&head, Write::Retry(secs(50))).await, Settled::Recorded);
    scene.at(149).await;
    assert!(scene.claim_ids("host-a").await.is_empty());
    scene.at(150).await;
    let head = scene.claim_all("host-a").await.remove(0);
    assert_eq!(head.event.id, "a1");
    scene.deliver(&head).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a2"]);
}

pub async fn a_head_that_is_not_available_yet_blocks_its_key(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    let later = NewEvent { available_at: Some(at(200)), ..keyed("a1", "a") };
    scene.insert(&[later, keyed("a2", "a")]).await;
    scene.at(199).await;
    assert!(scene.claim_ids("host-a").await.is_empty());
    scene.at(200).await;
    let head = scene.claim_all("host-a").await;
    assert_eq!(ids(&head), ["a1"]);
    scene.deliver(&head[0]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a2"]);
}

pub async fn a_released_or_deferred_head_comes_before_its_followers(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let head = scene.claim_all("host-a").await.remove(0);
    assert_eq!(scene.store.release(&[head.claim]).await.expect("release"), [Settled::Recorded]);
    scene.at(101).await;
    let head = scene.claim_all("host-a").await.remove(0);
    assert_eq!(head.event.id, "a1");
    assert_eq!(scene.acknowledge(&head, Write::Defer).await, Settled::Recorded);
    scene.at(102).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a1"]);
}

pub async fn a_lost_head_is_claimed_again_before_its_followers(db: &dyn Database) {
    let scene = Scene::ordered(db, SKIP).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a1"]);
    scene.at(120).await;
    let head = scene.claim_all("host-b").await;
    assert_eq!(ids(&head), ["a1"]);
    assert_eq!((head[0].attempt, head[0].lost), (2, 1));
    scene.deliver(&head[0]).await;
    assert_eq!(scene.claim_ids("host-b").await, ["a2"]);
}

pub async fn a_dead_head_blocks_its_key_until_it_is_discarded(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b")]).await;
    let claimed = scene.claim_all("host-a").await;
    scene.reject(&claimed[0]).await;
    scene.at(1_000).await;
    assert_eq!(scene.claim_ids("host-a").await, ["b1"], "only the other key goes on");
    assert_eq!(scene.store.discard(&target("a1"), 10, "ann").await.expect("discard"), 1);
    assert_eq!(scene.claim_ids("host-a").await, ["a2"]);
}

pub async fn a_dead_head_that_is_redriven_comes_first_again(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let head = scene.claim_all("host-a").await.remove(0);
    scene.reject(&head).await;
    assert!(scene.claim_ids("host-a").await.is_empty());
    let order = RedriveOrder { target: target("a1"), limit: 10, ..RedriveOrder::default() };
    assert_eq!(scene.store.redrive(&order, "ann").await.expect("redrive"), 1);
    let head = scene.claim_all("host-a").await;
    assert_eq!(ids(&head), ["a1"]);
    scene.deliver(&head[0]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a2"]);
}

pub async fn a_dead_head_is_skipped_where_the_lane_says_so(db: &dyn Database) {
    let scene = Scene::ordered(db, SKIP).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let head = scene.claim_all("host-a").await.remove(0);
    scene.reject(&head).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a2"]);
}

pub async fn an_exhausted_head_frees_its_key_where_dead_heads_are_skipped(db: &dyn Database) {
    let scene = Scene::ordered(db, SKIP).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let request = ClaimRequest { max_attempts: 1, ..scene.request("host-a") };
    assert_eq!(ids(&scene.claims(&request).await.claimed), ["a1"]);
    scene.at(120).await;
    let claims = scene.claims(&request).await;
    assert_eq!(claims.buried.len(), 1);
    assert_eq!(claims.buried[0].1, DeadReason::AttemptsExhaustedUnknown);
    let mut taken = ids(&claims.claimed);
    taken.extend(scene.claim_ids("host-a").await);
    assert_eq!(taken, ["a2"]);
}

pub async fn an_expired_delivery_never_blocks_its_key(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    let expiring = |id: &str| NewEvent { expires_at: Some(at(110)), ..keyed(id, "a") };
    scene.insert(&[expiring("a1"), expiring("a2"), keyed("a3", "a")]).await;
    let head = scene.claim_all("host-a").await.remove(0);
    assert_eq!(head.event.id, "a1");
    assert_eq!(scene.acknowledge(&head, Write::Retry(secs(500))).await, Settled::Recorded);
    scene.at(109).await;
    assert!(scene.claim_ids("host-a").await.is_empty());
    scene.at(110).await;
    let mut taken = scene.claim_ids("host-a").await;
    scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    taken.extend(scene.claim_ids("host-a").await);
    assert_eq!(taken, ["a3"]);
    for id in ["a1", "a2"] {
        let row = scene.row(id).await;
        assert_eq!((row.status, row.disposition.as_deref()), (DeliveryStatus::Dead, Some("expired")), "{id}");
    }
}

pub async fn a_cancelled_delivery_keeps_its_lease_so_that_its_key_waits(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let head = scene.claim_all("host-a").await.remove(0);
    assert_eq!(scene.store.cancel(&target("a1"), "ann").await.expect("cancel"), 1);
    let row = scene.row("a1").await;
    assert_eq!((row.status, row.lease_until), (DeliveryStatus::Cancelled, Some(at(120))));
    scene.at(119).await;
    assert!(scene.claim_ids("host-b").await.is_empty(), "the cancelled one may still be running");
    assert_eq!(scene.acknowledge(&head, Write::Delivered).await, Settled::Fenced);
    assert_eq!(scene.history("a1").await, [(1, 1, "delivered".to_owned(), true)]);
    scene.at(120).await;
    assert_eq!(scene.claim_ids("host-b").await, ["a2"]);
}

pub async fn a_redriven_earlier_event_waits_for_the_leased_later_one(db: &dyn Database) {
    let scene = Scene::ordered(db, SKIP).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let first = scene.claim_all("host-a").await.remove(0);
    scene.reject(&first).await;
    let later = scene.claim_all("host-a").await.remove(0);
    let order = RedriveOrder { target: target("a1"), limit: 10, ..RedriveOrder::default() };
    assert_eq!(scene.store.redrive(&order, "ann").await.expect("redrive"), 1);
    assert!(scene.claim_ids("host-b").await.is_empty(), "a2 is leased");
    // However the later one's lease ends without finishing it, the earlier one comes first.
    assert_eq!(scene.acknowledge(&later, Write::Retry(secs(1))).await, Settled::Recorded);
    scene.at(101).await;
    let earlier = scene.claim_all("host-b").await;
    assert_eq!(ids(&earlier), ["a1"]);
    scene.deliver(&earlier[0]).await;
    assert_eq!(scene.claim_ids("host-b").await, ["a2"]);
}

pub async fn an_earlier_event_comes_first_when_the_later_ones_lease_lapses(db: &dyn Database) {
    let scene = Scene::ordered(db, SKIP).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let first = scene.claim_all("host-a").await.remove(0);
    scene.reject(&first).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a2"]);
    let order = RedriveOrder { target: target("a1"), limit: 10, ..RedriveOrder::default() };
    scene.store.redrive(&order, "ann").await.expect("redrive");
    assert!(scene.claim_ids("host-b").await.is_empty());
    scene.at(120).await;
    let earlier = scene.claim_all("host-b").await;
    assert_eq!(ids(&earlier), ["a1"]);
    scene.deliver(&earlier[0]).await;
    let later = scene.claim_all("host-b").await;
    assert_eq!(ids(&later), ["a2"]);
    assert_eq!(later[0].lost, 1, "its own claim expired");
}

pub async fn keys_are_apart_by_byte_by_tenant_and_by_destination(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    let other = NewEvent { tenant: "acme".to_owned(), ..keyed("e5", "z") };
    scene.insert(&[keyed("e1", "z"), keyed("e2", "z "), keyed("e3", "Z"), keyed("e4", "ź"), other]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["e1", "e2", "e3", "e4", "e5"]);
}

pub async fn a_lane_without_order_ignores_keys(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a1", "a2"]);
}

pub async fn a_long_blocked_key_does_not_hide_what_is_due_behind_it(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    let mut events: Vec<NewEvent> = (0..40).map(|n| keyed(&format!("a{n:02}"), "a")).collect();
    events.push(event("n1"));
    scene.insert(&events).await;
    let one = ClaimRequest { limit: 1, ..scene.request("host-a") };
    let head = scene.claims(&one).await.claimed.remove(0);
    assert_eq!(scene.acknowledge(&head, Write::Retry(secs(1_000))).await, Settled::Recorded);
    assert_eq!(scene.claim_ids("host-a").await, ["n1"]);
    // What stands behind the head is looked at once, not at every claim.
    let claims = scene.claims(&scene.request("host-a")).await;
    assert_eq!((claims.claimed.len(), claims.parked), (0, 0));
    assert!(!scene.lane().await.has_due);
}

pub async fn one_claim_of_one_delivery_looks_past_many_behind_a_blocked_head(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    let mut events: Vec<NewEvent> = (0..60).map(|n| keyed(&format!("a{n:02}"), "a")).collect();
    events.extend([event("n1"), event("n2"), keyed("b1", "b")]);
    scene.insert(&events).await;
    let one = ClaimRequest { limit: 1, ..scene.request("host-a") };
    let head = scene.claims(&one).await.claimed.remove(0);
    assert_eq!(scene.acknowledge(&head, Write::Retry(secs(1_000))).await, Settled::Recorded);
    assert_eq!(ids(&scene.claims(&one).await.claimed), ["n1"], "and no more than its limit");
    assert_eq!(ids(&scene.claims(&one).await.claimed), ["n2"]);
    assert_eq!(ids(&scene.claims(&one).await.claimed), ["b1"]);
}

pub async fn a_lane_that_no_longer_keeps_an_order_frees_what_was_parked(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a"), keyed("a3", "a")]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["a1"]);
    let config = destination(SHOP, &["order.*"]);
    scene.store.register(&registration("host-a", "c2", vec![config])).await.expect("register");
    scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    let request = ClaimRequest { order: Order::None, ..scene.request("host-a") };
    assert_eq!(ids(&scene.claims(&request).await.claimed), ["a2", "a3"]);
}

pub async fn a_host_whose_config_has_another_order_for_the_lane_claims_nothing(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert(&[keyed("a1", "a"), keyed("a2", "a")]).await;
    let orders = [Order::None, BLOCK, SKIP];
    let mut taken = Vec::new();
    for (current, digest) in [(BLOCK, "c2"), (SKIP, "c3"), (Order::None, "c4")] {
        let config = DestinationConfig { order: current, ..destination(SHOP, &["order.*"]) };
        scene.store.register(&registration("host-b", digest, vec![config])).await.expect("register");
        scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
        for order in orders.into_iter().filter(|order| *order != current) {
            let claims = scene.claims(&ClaimRequest { order, ..scene.request("host-a") }).await;
            let did = (claims.claimed.len(), claims.parked, claims.lost, claims.buried.len());
            assert_eq!(did, (0, 0, 0, 0), "{order:?} where the lane keeps {current:?}");
        }
        let claims = scene.claims(&ClaimRequest { order: current, ..scene.request("host-b") }).await;
        taken.push(ids(&claims.claimed));
    }
    assert_eq!(taken, [vec!["a1"], vec![], vec!["a2"]], "a2 waits for a1 until no order is kept");
}

pub async fn two_claims_racing_for_one_key_never_both_win(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    let names: Vec<String> = (0..12).map(|n| format!("a{n:02}")).collect();
    scene.insert(&names.iter().map(|id| keyed(id, "a")).collect::<Vec<_>>()).await;
    let other = db.second_store().await;
    let (here, there) = (scene.request("host-a"), scene.request("host-b"));
    let mut delivered = Vec::new();
    let mut idle = 0;
    while delivered.len() < names.len() {
        let (a, b) = tokio::join!(scene.store.claim(&here), other.claim(&there));
        let mut claimed = a.expect("claim").claimed;
        claimed.extend(b.expect("claim").claimed);
        assert!(claimed.len() <= 1, "two deliveries of one key at a time: {claimed:?}");
        idle = if claimed.is_empty() { idle + 1 } else { 0 };
        assert!(idle < 20, "stuck after {delivered:?}");
        for claimed in claimed {
            scene.deliver(&claimed).await;
            delivered.push(claimed.event.id);
        }
    }
    assert_eq!(delivered, names);
}

pub async fn a_claim_racing_an_acknowledgement_leaves_no_delivery_parked_for_ever(db: &dyn Database) {
    let scene = Scene::ordered(db, BLOCK).await;
    let names: Vec<String> = (0..12).map(|n| format!("a{n:02}")).collect();
    scene.insert(&names.iter().map(|id| keyed(id, "a")).collect::<Vec<_>>()).await;
    let other = db.second_store().await;
    let mut delivered = Vec::new();
    let mut running = scene.claim_one("host-a").await;
    loop {
        // The follower is looked at while its head ends.
        let results = [answer(&running, Write::Delivered)];
        let there = scene.request("host-b");
        let (settled, claims) = tokio::join!(scene.store.acknowledge(&results), other.claim(&there));
        assert_eq!(settled.expect("acknowledge"), [Settled::Recorded]);
        delivered.push(running.event.id);
        let mut next = claims.expect("claim").claimed;
        if next.is_empty() {
            next = scene.claim_all("host-a").await;
        }
        let Some(claimed) = next.pop() else { break };
        assert!(next.is_empty());
        running = claimed;
    }
    assert_eq!(delivered, names);
}
