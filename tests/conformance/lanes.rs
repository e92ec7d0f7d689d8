//! Lanes: their state holds for all hosts, one of which probes.

use outhaul::domain::{EventSeq, Write};
use outhaul::store::*;

use crate::harness::Database;
use crate::scene::*;

async fn pause(scene: &Scene<'_>, wait_secs: u64) -> bool {
    let epoch = scene.lane().await.epoch;
    let change = LaneChange::Pause { wait: secs(wait_secs), reason: "503".to_owned(), probe: None };
    scene.store.change_lane(scene.shop, epoch, change).await.expect("change")
}

async fn change(scene: &Scene<'_>, change: LaneChange) -> bool {
    let epoch = scene.lane().await.epoch;
    scene.store.change_lane(scene.shop, epoch, change).await.expect("change")
}

async fn probe(scene: &Scene<'_>) -> Option<ProbeToken> {
    scene.store.take_probe(scene.shop, LEASE).await.expect("probe")
}

fn stop(reason: &str) -> LaneChange {
    LaneChange::Stop { reason: reason.to_owned() }
}

pub async fn a_paused_lane_gives_one_delivery_at_a_time_to_its_prober_only(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2"]).await;
    assert!(pause(&scene, 10).await);
    let lane = scene.lane().await;
    assert_eq!((lane.state, lane.pauses, lane.paused_until), (LaneState::Paused, 1, Some(at(110))));
    assert!(lane.has_due && !lane.wants_probe);
    assert!(scene.claim("host-a").await.is_empty());
    assert_eq!(probe(&scene).await, None, "the pause has not run out");
    scene.at(110).await;
    assert!(scene.lane().await.wants_probe);
    assert!(scene.claim("host-a").await.is_empty(), "not without the token");
    let token = probe(&scene).await.expect("the right to probe");
    assert!(!scene.lane().await.wants_probe, "somebody probes");
    assert_eq!(probe(&scene).await, None, "one host at a time");
    let forged = ClaimRequest { probe: Some(ProbeToken([9; 16])), ..scene.request("host-b") };
    assert!(scene.claims(&forged).await.claimed.is_empty());
    let request = ClaimRequest { probe: Some(token), ..scene.request("host-a") };
    assert_eq!(ids(&scene.claims(&request).await.claimed), ["e1"]);
}

pub async fn a_dead_prober_blocks_nobody(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    pause(&scene, 10).await;
    scene.at(110).await;
    let dead = probe(&scene).await.expect("the right to probe");
    scene.at(130).await;
    let late = ClaimRequest { probe: Some(dead), ..scene.request("host-a") };
    assert!(scene.claims(&late).await.claimed.is_empty(), "its right has run out");
    assert!(scene.lane().await.wants_probe);
    let next = probe(&scene).await.expect("the next host's right");
    assert_ne!(dead, next);
    assert!(!change(&scene, LaneChange::Reopen { probe: dead, success: true }).await);
    assert!(change(&scene, LaneChange::Reopen { probe: next, success: true }).await);
    assert_eq!(ids(&scene.claim("host-b").await), ["e1"]);
}

pub async fn a_failed_probe_pauses_longer_and_a_good_one_reopens(db: &dyn Database) {
    let scene = Scene::open(db).await;
    pause(&scene, 10).await;
    scene.at(110).await;
    let token = probe(&scene).await.expect("the right to probe");
    let again = LaneChange::Pause { wait: secs(30), reason: "503".to_owned(), probe: Some(token) };
    assert!(change(&scene, again).await);
    let lane = scene.lane().await;
    assert_eq!((lane.pauses, lane.paused_until), (2, Some(at(140))));
    assert_eq!(probe(&scene).await, None);
    scene.at(140).await;
    let token = probe(&scene).await.expect("the right to probe");
    assert!(change(&scene, LaneChange::DropProbe { probe: token }).await);
    let token = probe(&scene).await.expect("it was given back");
    assert!(change(&scene, LaneChange::Reopen { probe: token, success: false }).await);
    let lane = scene.lane().await;
    assert_eq!((lane.state, lane.pauses, lane.paused_until), (LaneState::Active, 0, None));
}

pub async fn an_answer_from_an_earlier_epoch_moves_no_lane(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let epoch = scene.claim_one("host-a").await.lane_epoch;
    assert_eq!(epoch, scene.lane().await.epoch);
    assert!(pause(&scene, 10).await);
    let now = scene.lane().await.epoch;
    assert!(now > epoch);
    for change in [stop("gone"), LaneChange::Pause { wait: secs(99), reason: String::new(), probe: None }] {
        assert!(!scene.store.change_lane(scene.shop, epoch, change).await.expect("change"));
    }
    // At this epoch a second pause is the prober's alone.
    assert!(!pause(&scene, 99).await);
    let lane = scene.lane().await;
    assert_eq!((lane.epoch, lane.pauses, lane.paused_until), (now, 1, Some(at(110))));
    // Active again, and still no lane for an answer from before.
    scene.store.resume(SHOP, "ann").await.expect("resume");
    for change in [stop("gone"), LaneChange::Pause { wait: secs(99), reason: String::new(), probe: None }] {
        assert!(!scene.store.change_lane(scene.shop, epoch, change).await.expect("change"));
    }
    assert_eq!(scene.lane().await.state, LaneState::Active);
}

pub async fn an_operators_pause_is_never_probed_nor_overridden(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    pause(&scene, 10).await;
    scene.at(110).await;
    let token = probe(&scene).await.expect("the right to probe");
    assert!(scene.store.pause(SHOP, "maintenance", "ann").await.expect("pause"));
    assert!(!scene.store.pause(SHOP, "again", "ann").await.expect("pause"), "it is paused already");
    scene.at(1_000).await;
    let lane = scene.lane().await;
    assert_eq!((lane.state, lane.paused_until, lane.wants_probe), (LaneState::Paused, None, false));
    assert_eq!(probe(&scene).await, None);
    let request = ClaimRequest { probe: Some(token), ..scene.request("host-a") };
    assert!(scene.claims(&request).await.claimed.is_empty(), "the pause ended the probe");
    for change_to in [stop("gone"), LaneChange::Reopen { probe: token, success: true }] {
        assert!(!change(&scene, change_to).await);
    }
    assert!(scene.store.resume(SHOP, "ann").await.expect("resume"));
    assert_eq!(ids(&scene.claim("host-a").await), ["e1"]);
    let acts = scene.actions().await;
    let act = |action: &str| ("ann".to_owned(), action.to_owned(), 1);
    assert_eq!(acts, [act("resume"), act("pause")]);
}

pub async fn a_resume_of_an_active_lane_starts_a_new_epoch(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let before = scene.claim_one("host-a").await.lane_epoch;
    assert!(
        scene.store.resume(SHOP, "ann").await.expect("resume"),
        "one host may have stopped it for itself"
    );
    let lane = scene.lane().await;
    assert_eq!((lane.state, lane.epoch), (LaneState::Active, before + 1));
    assert!(!scene.store.change_lane(scene.shop, before, stop("gone")).await.expect("change"));
    assert_eq!(scene.actions().await, [("ann".to_owned(), "resume".to_owned(), 1)]);
}

pub async fn a_stopped_lane_waits_for_an_operator_or_a_changed_setting(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    assert!(change(&scene, stop("410 gone")).await);
    scene.at(1_000).await;
    let lane = scene.lane().await;
    assert_eq!((lane.state, lane.wants_probe), (LaneState::Stopped, false));
    assert_eq!(probe(&scene).await, None);
    assert!(scene.claim("host-a").await.is_empty());
    let reports = scene.store.lane_reports().await.expect("reports");
    assert_eq!(reports[0].reason.as_deref(), Some("410 gone"));
    // The same settings again change nothing; others are a reason to try.
    let same = registration("host-a", "c1", vec![destination(SHOP, &["order.*"])]);
    scene.store.register(&same).await.expect("register");
    assert_eq!(scene.lane().await.state, LaneState::Stopped);
    let fixed = DestinationConfig { digest: "d2".to_owned(), ..destination(SHOP, &["order.*"]) };
    scene.store.register(&registration("host-a", "c1", vec![fixed])).await.expect("register");
    assert_eq!(scene.lane().await.state, LaneState::Active);
    assert!(change(&scene, stop("410 gone")).await);
    assert!(scene.store.resume(SHOP, "ann").await.expect("resume"));
    assert_eq!(ids(&scene.claim("host-a").await), ["e1"]);
}

pub async fn a_replaced_plugin_revives_a_stopped_lane_and_no_other(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2"]).await;
    assert!(!change(&scene, LaneChange::Revive).await, "it is active");
    scene.store.pause(SHOP, "look", "ann").await.expect("pause");
    assert!(!change(&scene, LaneChange::Revive).await, "an operator's pause stands");
    scene.store.resume(SHOP, "ann").await.expect("resume");
    let (one, two) = (scene.row("e1").await.sequence, scene.row("e2").await.sequence);
    scene.store.count_rejection(scene.shop, Some(EventSeq(one))).await.expect("count");
    assert!(change(&scene, stop("410 gone")).await);
    let epoch = scene.lane().await.epoch;
    let late = scene.store.change_lane(scene.shop, epoch - 1, LaneChange::Revive).await;
    assert!(!late.expect("change"), "that was another stop");
    assert!(change(&scene, LaneChange::Revive).await);
    let lane = scene.lane().await;
    assert_eq!((lane.state, lane.epoch), (LaneState::Active, epoch + 1));
    let counted = scene.store.count_rejection(scene.shop, Some(EventSeq(two))).await.expect("count");
    assert_eq!(counted, 1, "what the replaced plugin rejected does not count");
    assert_eq!(ids(&scene.claim("host-a").await), ["e1", "e2"]);
}

pub async fn rejections_in_a_row_are_counted_by_distinct_events(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2"]).await;
    let claimed = scene.claim("host-a").await;
    let (one, two) = (Some(claimed[0].event.seq), Some(claimed[1].event.seq));
    for (event, count) in [(one, 1), (one, 1), (two, 2), (None, 0), (two, 1)] {
        let counted = scene.store.count_rejection(scene.shop, event).await.expect("count");
        assert_eq!(counted, count, "{event:?}");
    }
    scene.store.pause(SHOP, "look", "ann").await.expect("pause");
    scene.store.resume(SHOP, "ann").await.expect("resume");
    let counted = scene.store.count_rejection(scene.shop, one).await.expect("count");
    assert_eq!(counted, 1, "an operator who resumes starts the count again");
}

pub async fn a_delivery_knows_that_it_was_deferred_before_the_lanes_latest_success(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2"]).await;
    let one = ClaimRequest { limit: 1, ..scene.request("host-a") };
    let odd = scene.claims(&one).await.claimed.remove(0);
    assert!(!odd.deferred_before_success);
    scene.at(101).await;
    scene.acknowledge(&odd, Write::Defer).await;
    let other = scene.claims(&one).await.claimed.remove(0);
    assert_eq!(other.event.id, "e2");
    scene.at(102).await;
    scene.deliver(&other).await;
    let odd = scene.claims(&one).await.claimed.remove(0);
    assert_eq!(odd.event.id, "e1");
    assert!(odd.deferred_before_success, "the destination takes others");
    scene.at(103).await;
    scene.acknowledge(&odd, Write::Defer).await;
    let odd = scene.claims(&one).await.claimed.remove(0);
    assert!(!odd.deferred_before_success, "nothing has succeeded since");
}

pub async fn what_a_canary_delivers_is_no_success_of_the_lane(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2"]).await;
    let one = ClaimRequest { limit: 1, ..scene.request("host-a") };
    let odd = scene.claims(&one).await.claimed.remove(0);
    let canarys = scene.claims(&one).await.claimed.remove(0);
    scene.at(101).await;
    scene.acknowledge(&odd, Write::Defer).await;
    scene.at(102).await;
    let result = Acknowledgement { lane_works: false, ..answer(&canarys, Write::Delivered) };
    assert_eq!(scene.store.acknowledge(&[result]).await.expect("acknowledge"), [Settled::Recorded]);
    let odd = scene.claims(&one).await.claimed.remove(0);
    assert_eq!(odd.event.id, "e1");
    assert!(!odd.deferred_before_success, "the lane's own component has delivered nothing since");
}

pub async fn an_act_on_an_unknown_lane_is_refused_by_name(db: &dyn Database) {
    let scene = Scene::open(db).await;
    for refused in [
        scene.store.pause("nowhere", "x", "ann").await.map(|_| ()),
        scene.store.resume("nowhere", "ann").await.map(|_| ()),
        scene.store.resume("(unrouted)", "ann").await.map(|_| ()),
    ] {
        let Err(StoreError::Refused(text)) = refused else { panic!("{refused:?}") };
        assert!(text.contains("nowhere") || text.contains("(unrouted)"), "{text}");
    }
    assert!(scene.actions().await.is_empty());
}
