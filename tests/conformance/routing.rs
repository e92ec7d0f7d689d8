//! Which events go where, and which config says so.

use std::collections::BTreeMap;

use outhaul::domain::Write;
use outhaul::store::*;

use crate::harness::{Database, Isolation};
use crate::scene::*;

fn event_of(id: &str, topic: &str) -> NewEvent {
    NewEvent { topic: topic.to_owned(), ..event(id) }
}

async fn register(scene: &Scene<'_>, digest: &str, destinations: Vec<DestinationConfig>) -> Registered {
    scene.store.register(&registration("host-a", digest, destinations)).await.expect("register")
}

async fn destinations_of(scene: &Scene<'_>, id: &str) -> Vec<String> {
    let report = scene.report(id).await;
    let mut names: Vec<_> = report.deliveries.into_iter().map(|row| row.destination).collect();
    names.sort();
    names
}

async fn sweep(scene: &Scene<'_>) -> Swept {
    scene.store.sweep(&[scene.shop], 100).await.expect("sweep")
}

pub async fn an_event_goes_to_each_of_its_destinations_independently(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let both = vec![destination(SHOP, &["order.*"]), destination("audit", &["*"])];
    let audit = register(&scene, "c2", both).await.destinations[1].1.expect("an id");
    scene.insert_ids(&["e1"]).await;
    assert_eq!(destinations_of(&scene, "e1").await, ["audit", SHOP]);
    let here = scene.claim_one("host-a").await;
    scene.reject(&here).await;
    let request = ClaimRequest { destination: audit, ..scene.request("host-a") };
    let there = scene.claims(&request).await.claimed;
    assert_eq!(ids(&there), ["e1"], "a dead letter at one is pending at the other");
    assert_eq!(there[0].attempt, 1);
    scene.deliver(&there[0]).await;
    assert_eq!(scene.row("e1").await.status, DeliveryStatus::Dead);
}

pub async fn topics_match_bytewise_and_at_any_depth(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let config = destination(SHOP, &["order.*", "exact.topic", "per%cent.*", "under_score", "a.b.c.*"]);
    register(&scene, "c2", vec![config]).await;
    let topics = [
        ("order.created", true),
        ("order.line.added", true),
        ("order", false),
        ("orders.created", false),
        ("Order.created", false),
        ("exact.topic", true),
        ("exact.topic.more", false),
        ("per%cent.x", true),
        ("perXcent.x", false),
        ("under_score", true),
        ("underXscore", false),
        ("a.b.c.d", true),
        ("a.b.x", false),
    ];
    let events: Vec<_> = topics.iter().map(|(topic, _)| event_of(topic, topic)).collect();
    scene.insert(&events).await;
    for (topic, routed) in topics {
        let expected = if routed { SHOP } else { UNROUTED_NAME };
        assert_eq!(destinations_of(&scene, topic).await, [expected], "{topic}");
    }
}

pub async fn two_patterns_that_match_make_one_delivery(db: &dyn Database) {
    let scene = Scene::open(db).await;
    register(&scene, "c2", vec![destination(SHOP, &["order.*", "order.created", "*"])]).await;
    scene.insert_ids(&["e1"]).await;
    assert_eq!(destinations_of(&scene, "e1").await, [SHOP]);
}

pub async fn an_unrouted_event_is_kept_in_sight_and_routed_later_exactly_once(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert(&[event_of("e1", "bill.paid"), event_of("e2", "other.thing")]).await;
    assert!(scene.claim("host-a").await.is_empty());
    let reports = scene.store.lane_reports().await.expect("reports");
    let unrouted = reports.iter().find(|report| report.destination == UNROUTED_NAME).expect("it is shown");
    assert_eq!(unrouted.pending, 2);
    assert_eq!(sweep(&scene).await.routed, 0, "no route matches yet");
    register(&scene, "c2", vec![destination(SHOP, &["order.*", "bill.*"])]).await;
    assert_eq!(sweep(&scene).await.routed, 1);
    assert_eq!(sweep(&scene).await.routed, 0);
    assert_eq!(destinations_of(&scene, "e1").await, [SHOP]);
    assert_eq!(destinations_of(&scene, "e2").await, [UNROUTED_NAME]);
    let claimed = scene.claim_one("host-a").await;
    assert_eq!(claimed.event.id, "e1");
    scene.deliver(&claimed).await;
    sweep(&scene).await;
    assert!(scene.claim("host-a").await.is_empty());
}

/// Sweeps as the housekeeper does: without a pause while there is more.
async fn sweep_while_there_is_more(scene: &Scene<'_>) -> u64 {
    let mut routed = 0;
    for _ in 0..20 {
        let swept = sweep(scene).await;
        routed += swept.routed;
        if !swept.more {
            return routed;
        }
    }
    panic!("it never rests");
}

pub async fn a_long_unrouted_backlog_is_compared_with_new_routes_without_a_pause(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let mut events: Vec<_> = (0..350).map(|n| event_of(&format!("u{n}"), "other.thing")).collect();
    events.push(event_of("e1", "bill.paid"));
    scene.insert(&events).await;
    assert_eq!(sweep_while_there_is_more(&scene).await, 0);
    assert!(!sweep(&scene).await.more, "what no route matches is no reason to hurry");
    register(&scene, "c2", vec![destination(SHOP, &["order.*", "bill.*"])]).await;
    assert_eq!(sweep_while_there_is_more(&scene).await, 1, "behind three windows without a match");
    assert_eq!(scene.claim_ids("host-a").await, ["e1"]);
}

pub async fn an_event_without_any_delivery_row_is_adopted(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let mut producer = scene.db.begin(Isolation::ReadCommitted).await;
    producer.insert_without_routing(&event("e1")).await.expect("insert");
    producer.insert_without_routing(&event_of("e2", "bill.paid")).await.expect("insert");
    producer.commit().await.expect("commit");
    scene.insert_ids(&["e3"]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["e3"]);
    assert_eq!(sweep(&scene).await.adopted, 2);
    assert_eq!(sweep(&scene).await.adopted, 0);
    assert_eq!(scene.claim_ids("host-a").await, ["e1"]);
    assert_eq!(destinations_of(&scene, "e2").await, [UNROUTED_NAME]);
}

pub async fn a_new_destination_gets_new_events_only(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let both = vec![destination(SHOP, &["order.*"]), destination("audit", &["*"])];
    register(&scene, "c2", both).await;
    scene.insert_ids(&["e2"]).await;
    sweep(&scene).await;
    assert_eq!(destinations_of(&scene, "e1").await, [SHOP]);
    assert_eq!(destinations_of(&scene, "e2").await, ["audit", SHOP]);
}

pub async fn a_removed_destination_keeps_its_rows_and_gets_them_back(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    register(&scene, "c2", vec![destination("audit", &["*"])]).await;
    assert_eq!(scene.lane().await.state, LaneState::Removed);
    assert!(scene.claim("host-a").await.is_empty());
    scene.insert_ids(&["e2"]).await;
    assert_eq!(destinations_of(&scene, "e2").await, ["audit"], "it is routed no longer");
    let reports = scene.store.lane_reports().await.expect("reports");
    let removed = reports.iter().find(|report| report.destination == SHOP).expect("it is shown");
    assert_eq!((removed.state, removed.pending), (LaneState::Removed, 1));
    let refused = scene.store.resume(SHOP, "ann").await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let back = register(&scene, "c3", vec![destination(SHOP, &["order.*"])]).await;
    assert_eq!(back.destinations, [(SHOP.to_owned(), Some(scene.shop))], "the same id");
    assert_eq!(scene.lane().await.state, LaneState::Active);
    assert_eq!(scene.claim_ids("host-a").await, ["e1"]);
}

pub async fn a_renamed_destination_keeps_its_id_and_its_rows(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let renamed =
        DestinationConfig { renamed_from: Some(SHOP.to_owned()), ..destination("store", &["order.*"]) };
    let registered = register(&scene, "c2", vec![renamed.clone()]).await;
    assert_eq!(registered.destinations, [("store".to_owned(), Some(scene.shop))]);
    assert_eq!(destinations_of(&scene, "e1").await, ["store"]);
    // Once renamed, the line may stay or go.
    let later = DestinationConfig { renamed_from: None, ..renamed };
    let registered = register(&scene, "c3", vec![later]).await;
    assert_eq!(registered.destinations, [("store".to_owned(), Some(scene.shop))]);
    scene.insert_ids(&["e2"]).await;
    assert_eq!(scene.claim_ids("host-a").await, ["e1", "e2"]);
}

pub async fn a_digest_never_seen_takes_the_next_generation_and_an_old_one_does_not(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let one = registration("host-a", "c1", vec![destination(SHOP, &["order.*"])]);
    let two = registration("host-b", "c2", vec![destination(SHOP, &["*"]), destination("audit", &["*"])]);
    let again = scene.store.register(&one).await.expect("register");
    assert_eq!((again.generation, again.standing), (1, ConfigStanding::Current));
    let newer = scene.store.register(&two).await.expect("register");
    assert_eq!((newer.generation, newer.standing), (2, ConfigStanding::Current));
    assert_eq!(
        scene.store.heartbeat("host-a", &HostNotes::default()).await.expect("beat"),
        ConfigStanding::Superseded
    );
    assert_eq!(
        scene.store.heartbeat("host-b", &HostNotes::default()).await.expect("beat"),
        ConfigStanding::Current
    );
    // The old host restarts: its digest was seen, so it writes no routes and says so.
    let back = scene.store.register(&one).await.expect("register");
    assert_eq!((back.generation, back.standing), (2, ConfigStanding::Superseded));
    assert_eq!(back.destinations, [(SHOP.to_owned(), Some(scene.shop))]);
    scene.insert(&[event_of("e1", "bill.paid")]).await;
    assert_eq!(destinations_of(&scene, "e1").await, ["audit", SHOP], "the newer routes stand");
    // A person who applies it means it.
    let applied = HostRegistration { takeover: Takeover::UnlessCurrent, ..one };
    let applied = scene.store.register(&applied).await.expect("register");
    assert_eq!((applied.generation, applied.standing), (3, ConfigStanding::Current));
    assert_eq!(
        scene.store.heartbeat("host-b", &HostNotes::default()).await.expect("beat"),
        ConfigStanding::Superseded
    );
    scene.insert(&[event_of("e2", "bill.paid")]).await;
    assert_eq!(destinations_of(&scene, "e2").await, [UNROUTED_NAME]);
}

pub async fn a_config_that_could_not_be_applied_whole_does_not_take_over_from_the_whole_one(
    db: &dyn Database,
) {
    let scene = Scene::open(db).await;
    let part = registration("host-a", "part", vec![destination(SHOP, &["order.*"])]);
    let never = HostRegistration { takeover: Takeover::Never, ..part.clone() };
    let part = HostRegistration { takeover: Takeover::UnlessCurrentOr("whole".to_owned()), ..part };
    let standing = async |host: &HostRegistration| {
        let registered = scene.store.register(host).await.expect("register");
        (registered.generation, registered.standing)
    };
    assert_eq!(standing(&never).await, (1, ConfigStanding::Superseded));
    assert_eq!(standing(&part).await, (2, ConfigStanding::Current), "nobody runs the whole one");
    assert_eq!(standing(&part).await, (2, ConfigStanding::Current));
    register(&scene, "whole", vec![destination(SHOP, &["bill.*"])]).await;
    assert_eq!(standing(&part).await, (3, ConfigStanding::Superseded));
    scene.insert(&[event_of("e1", "bill.paid")]).await;
    assert_eq!(destinations_of(&scene, "e1").await, [SHOP], "the routes are those of the whole one");
}

pub async fn a_superseded_host_gets_no_id_for_what_the_current_config_never_had(db: &dyn Database) {
    let scene = Scene::open(db).await;
    register(&scene, "c2", vec![destination(SHOP, &["order.*"]), destination("audit", &["*"])]).await;
    let old = vec![destination(SHOP, &["order.*"]), destination("never", &["*"])];
    let superseded = register(&scene, "c1", old).await;
    assert_eq!(superseded.standing, ConfigStanding::Superseded);
    assert_eq!(superseded.destinations[0].1, Some(scene.shop));
    assert_eq!(superseded.destinations[1], ("never".to_owned(), None));
}

pub async fn a_host_touches_no_rows_of_a_destination_it_lacks(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let both = vec![destination(SHOP, &["order.*"]), destination("audit", &["*"])];
    let audit = register(&scene, "c2", both).await.destinations[1].1.expect("an id");
    let expiring = NewEvent { expires_at: Some(at(150)), ..event("e1") };
    scene.insert(&[expiring]).await;
    let request = ClaimRequest { destination: audit, max_attempts: 1, ..scene.request("host-b") };
    let claimed = scene.claims(&request).await.claimed.remove(0);
    scene.acknowledge(&claimed, Write::Retry(secs(500))).await;
    scene.at(200).await;
    // This host has the shop only: it buries there and leaves the other alone.
    scene.claims(&scene.request("host-a")).await;
    sweep(&scene).await;
    let report = scene.report("e1").await;
    let status = |name: &str| {
        report.deliveries.iter().find(|row| row.destination == name).map(|row| row.status).expect("a row")
    };
    assert_eq!(status(SHOP), DeliveryStatus::Dead);
    assert_eq!(status("audit"), DeliveryStatus::Pending);
    assert_eq!(scene.store.lanes(&[scene.shop]).await.expect("lanes").len(), 1);
}

pub async fn hosts_are_seen_with_their_config_and_what_they_say_of_themselves(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.at(130).await;
    let problem = LaneProblem { destination: SHOP.to_owned(), problem: "no such file".to_owned() };
    let loaded = LoadedNote {
        destination: "audit".to_owned(),
        generation: 3,
        component_digest: "ab".repeat(32),
        reload_error: Some("it trapped\0".to_owned()),
        canary: Some(CanaryNote {
            component_digest: "cd".repeat(32),
            share: "5%".to_owned(),
            off: Some("it says gone\0".to_owned()),
            handed_over: 3,
            stable: VariantNote::default(),
            canary: VariantNote {
                outcomes: BTreeMap::from([("delivered".to_owned(), 7)]),
                p50_micros: Some(1),
                p99_micros: Some(2),
            },
        }),
    };
    let notes = HostNotes {
        problems: vec![problem],
        loaded: vec![loaded],
        rates: vec![LaneRate { destination: SHOP.to_owned(), delivered_per_minute: 1_200 }],
        reload_error: Some("line 3: no such key".to_owned()),
    };
    scene.store.heartbeat("host-a", &notes).await.expect("beat");
    let hosts = scene.store.hosts().await.expect("hosts");
    assert_eq!(hosts.len(), 1);
    assert_eq!((hosts[0].host.as_str(), hosts[0].version.as_str()), ("host-a", "0.1.0"));
    assert_eq!((hosts[0].config_digest.as_str(), hosts[0].is_current), ("c1", true));
    assert_eq!(hosts[0].last_seen, at(130));
    let mut told = hosts[0].notes.clone();
    let error = told.loaded[0].reload_error.take().expect("it is kept");
    assert!(error.starts_with("it trapped"), "{error:?}");
    let off = told.loaded[0].canary.as_mut().and_then(|canary| canary.off.take()).expect("it is kept");
    assert!(off.starts_with("it says gone"), "{off:?}");
    let mut expected = notes.clone();
    expected.loaded[0].reload_error = None;
    expected.loaded[0].canary.as_mut().expect("it was told").off = None;
    assert_eq!(told, expected);
    // A reload registers again, and takes nothing back of what the host said.
    register(&scene, "c1", vec![destination(SHOP, &["order.*"])]).await;
    assert_eq!(scene.store.hosts().await.expect("hosts")[0].notes.problems.len(), 1);
    scene.store.heartbeat("host-a", &HostNotes::default()).await.expect("beat");
    assert_eq!(scene.store.hosts().await.expect("hosts")[0].notes, HostNotes::default());
    let unknown = scene.store.heartbeat("host-z", &HostNotes::default()).await;
    assert!(matches!(unknown, Err(StoreError::Refused(_))), "{unknown:?}");
}
