//! What operators do, and what is kept of it.

use outhaul::domain::Write;
use outhaul::store::*;

use crate::harness::Database;
use crate::scene::*;

fn redrive(id: &str) -> RedriveOrder {
    RedriveOrder { target: target(id), limit: 100, ..RedriveOrder::default() }
}

pub async fn a_cancelled_delivery_is_not_claimed_and_its_late_result_is_fenced(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2"]).await;
    let claimed = scene.claim("host-a").await;
    assert_eq!(scene.store.cancel(&target("e1"), "ann").await.expect("cancel"), 1);
    assert_eq!(scene.store.cancel(&target("e1"), "ann").await.expect("cancel"), 0);
    assert_eq!(scene.store.renew(&refs(&claimed), LEASE).await.expect("renew")[0], Settled::Fenced);
    assert_eq!(scene.acknowledge(&claimed[0], Write::Delivered).await, Settled::Fenced);
    let row = scene.row("e1").await;
    assert_eq!((row.status, row.finished_at), (DeliveryStatus::Cancelled, Some(at(100))));
    scene.at(1_000).await;
    assert_eq!(scene.claim_ids("host-a").await, ["e2"]);
    assert_eq!(scene.history("e1").await, [(1, 1, "delivered".to_owned(), true)]);
    assert_eq!(scene.actions().await, [("ann".to_owned(), "cancel".to_owned(), 1)]);
}

pub async fn s24_a_redrive_starts_attempts_again_and_keeps_both_series(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let first = scene.claim_one("host-a").await;
    scene.acknowledge(&first, Write::Retry(secs(0))).await;
    let second = scene.claim_one("host-a").await;
    scene.reject(&second).await;
    assert_eq!(scene.store.redrive(&redrive("e1"), "ann").await.expect("redrive"), 1);
    let row = scene.row("e1").await;
    assert_eq!((row.status, row.attempts, row.fence), (DeliveryStatus::Pending, 0, 2));
    assert_eq!((row.disposition, row.finished_at), (None, None));
    scene.at(500).await;
    let third = scene.claim_one("host-a").await;
    assert_eq!((third.attempt, third.claim.fence.0), (1, 3));
    assert_eq!(third.first_claimed_at, at(500), "its age counts from here");
    scene.deliver(&third).await;
    let outcome = |fence, attempt, outcome: &str| (fence, attempt, outcome.to_owned(), false);
    let expected = [outcome(1, 1, "retry"), outcome(2, 2, "rejected"), outcome(3, 1, "delivered")];
    assert_eq!(scene.history("e1").await, expected);
}

pub async fn s24_a_bulk_redrive_is_capped_and_staggered(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let names: Vec<String> = (0..5).map(|n| format!("e{n}")).collect();
    scene.insert(&names.iter().map(|id| event(id)).collect::<Vec<_>>()).await;
    for claimed in scene.claim("host-a").await {
        scene.reject(&claimed).await;
    }
    let order = RedriveOrder {
        target: Target { destination: Some(SHOP.to_owned()), ..Target::default() },
        limit: 3,
        stagger: secs(10),
        start_after: secs(5),
        ignore_expiry: false,
    };
    assert_eq!(scene.store.redrive(&order, "ann").await.expect("redrive"), 3);
    let mut due = Vec::new();
    for id in &names {
        let row = scene.row(id).await;
        due.push((row.status, row.due_at.filter(|_| row.status == DeliveryStatus::Pending)));
    }
    let pending = |secs| (DeliveryStatus::Pending, Some(at(secs)));
    let dead = (DeliveryStatus::Dead, None);
    assert_eq!(due, [pending(105), pending(115), pending(125), dead, dead]);
    assert_eq!(scene.store.redrive(&order, "ann").await.expect("redrive"), 2);
    assert_eq!(scene.store.redrive(&order, "ann").await.expect("redrive"), 0);
    let act = |count| ("ann".to_owned(), "redrive".to_owned(), count);
    assert_eq!(scene.actions().await, [act(2), act(3)], "what changed nothing is no act");
}

pub async fn an_expired_dead_letter_is_redriven_only_with_its_expiry_ignored(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert(&[NewEvent { expires_at: Some(at(110)), ..event("e1") }]).await;
    scene.at(110).await;
    assert_eq!(scene.claims(&scene.request("host-a")).await.buried.len(), 1);
    assert_eq!(scene.store.redrive(&redrive("e1"), "ann").await.expect("redrive"), 0);
    assert_eq!(scene.row("e1").await.status, DeliveryStatus::Dead);
    let order = RedriveOrder { ignore_expiry: true, ..redrive("e1") };
    assert_eq!(scene.store.redrive(&order, "ann").await.expect("redrive"), 1);
    let claimed = scene.claim_one("host-a").await;
    scene.acknowledge(&claimed, Write::Retry(secs(60))).await;
    scene.at(1_000).await;
    assert_eq!(ids(&scene.claim("host-a").await), ["e1"], "it is stored on the row");
}

pub async fn a_delivered_event_is_sent_again_on_purpose(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2"]).await;
    for claimed in scene.claim("host-a").await {
        scene.deliver(&claimed).await;
    }
    assert_eq!(scene.store.redeliver(&target("e1"), "ann").await.expect("redeliver"), 1);
    let again = scene.claim_one("host-a").await;
    assert_eq!((again.event.id.as_str(), again.attempt, again.claim.fence.0), ("e1", 1, 2));
    scene.deliver(&again).await;
    let delivered = |fence| (fence, 1, "delivered".to_owned(), false);
    assert_eq!(scene.history("e1").await, [delivered(1), delivered(2)]);
    assert_eq!(scene.actions().await, [("ann".to_owned(), "redeliver".to_owned(), 1)]);
}

pub async fn a_discarded_dead_letter_is_finished(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1", "e2", "e3"]).await;
    for claimed in scene.claim("host-a").await {
        scene.reject(&claimed).await;
    }
    let all = Target { destination: Some(SHOP.to_owned()), ..Target::default() };
    assert_eq!(scene.store.discard(&all, 2, "ann").await.expect("discard"), 2);
    assert_eq!(scene.row("e1").await.status, DeliveryStatus::Cancelled);
    assert_eq!(scene.row("e3").await.status, DeliveryStatus::Dead);
    assert_eq!(scene.store.redrive(&redrive("e1"), "ann").await.expect("redrive"), 0);
    assert_eq!(scene.store.discard(&Target::default(), 9, "ann").await.expect("discard"), 1);
    let act = |count| ("ann".to_owned(), "discard".to_owned(), count);
    assert_eq!(scene.actions().await, [act(1), act(2)]);
}

pub async fn an_act_means_the_deliveries_it_names_and_no_others(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let both = vec![destination(SHOP, &["order.*"]), destination("audit", &["*"])];
    scene.store.register(&registration("host-a", "c2", both)).await.expect("register");
    let of_acme = NewEvent { tenant: "acme".to_owned(), ..event("e1") };
    scene.insert(&[event("e1"), of_acme, event("e2")]).await;
    let one = Target {
        tenant: Some("acme".to_owned()),
        event_id: Some("e1".to_owned()),
        destination: Some("audit".to_owned()),
    };
    assert_eq!(scene.store.cancel(&one, "ann").await.expect("cancel"), 1);
    let cancelled =
        DeliveryFilter { status: Some(DeliveryStatus::Cancelled), limit: 10, ..DeliveryFilter::default() };
    let rows = scene.store.deliveries(&cancelled).await.expect("list");
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].tenant.as_str(), rows[0].destination.as_str()), ("acme", "audit"));
    let tenant = Target { tenant: Some("acme".to_owned()), ..Target::default() };
    assert_eq!(scene.store.cancel(&tenant, "ann").await.expect("cancel"), 1);
    for refused in [
        scene.store.cancel(&Target::default(), "ann").await,
        scene.store.redeliver(&Target::default(), "ann").await,
        scene
            .store
            .cancel(&Target { destination: Some("nowhere".to_owned()), ..Target::default() }, "ann")
            .await,
    ] {
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
    assert_eq!(scene.claim_ids("host-a").await, ["e1", "e2"]);
}

pub async fn a_list_is_filtered_and_goes_on_where_it_ended(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let other = NewEvent { topic: "order.paid".to_owned(), ..event("e3") };
    scene.insert(&[event("e1"), event("e2"), other, event("e4")]).await;
    let dead = scene.claims(&ClaimRequest { limit: 1, ..scene.request("host-a") }).await.claimed.remove(0);
    scene.reject(&dead).await;
    let list = async |filter: DeliveryFilter| {
        let rows = scene.store.deliveries(&filter).await.expect("list");
        rows.into_iter().map(|row| row.event_id).collect::<Vec<_>>()
    };
    let all = || DeliveryFilter { limit: 10, ..DeliveryFilter::default() };
    assert_eq!(list(all()).await, ["e1", "e2", "e3", "e4"]);
    assert_eq!(list(DeliveryFilter { limit: 2, ..all() }).await, ["e1", "e2"]);
    let rows = scene.store.deliveries(&DeliveryFilter { limit: 2, ..all() }).await.expect("list");
    let after = Some(PageEnd { event: outhaul::domain::EventSeq(rows[1].sequence), destination: None });
    assert_eq!(list(DeliveryFilter { after, ..all() }).await, ["e3", "e4"]);
    assert_eq!(list(DeliveryFilter { status: Some(DeliveryStatus::Dead), ..all() }).await, ["e1"]);
    assert_eq!(
        list(DeliveryFilter { status: Some(DeliveryStatus::Pending), ..all() }).await,
        ["e2", "e3", "e4"]
    );
    assert_eq!(list(DeliveryFilter { topic: Some("order.paid".to_owned()), ..all() }).await, ["e3"]);
    assert_eq!(list(DeliveryFilter { event_id: Some("e2".to_owned()), ..all() }).await, ["e2"]);
    assert_eq!(list(DeliveryFilter { destination: Some(SHOP.to_owned()), ..all() }).await.len(), 4);
    assert_eq!(list(DeliveryFilter { tenant: Some("acme".to_owned()), ..all() }).await.len(), 0);
    assert_eq!(list(DeliveryFilter { destination: Some("nowhere".to_owned()), ..all() }).await.len(), 0);
}

pub async fn a_page_may_end_between_two_deliveries_of_one_event(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let both = vec![destination(SHOP, &["order.*"]), destination("audit", &["order.*"])];
    scene.store.register(&registration("host-a", "c2", both)).await.expect("register");
    scene.insert_ids(&["e1", "e2", "e3"]).await;
    for status in [None, Some(DeliveryStatus::Pending)] {
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let filter = DeliveryFilter { limit: 1, status, after, ..DeliveryFilter::default() };
            let mut page = scene.store.deliveries(&filter).await.expect("list");
            assert!(page.len() <= 1);
            let Some(row) = page.pop() else { break };
            after = Some(PageEnd {
                event: outhaul::domain::EventSeq(row.sequence),
                destination: Some(row.destination.clone()),
            });
            listed.push((row.event_id, row.destination));
        }
        let expected =
            ["e1", "e2", "e3"].map(|id| [SHOP, "audit"].map(|name| (id.to_owned(), name.to_owned())));
        assert_eq!(listed, expected.concat(), "{status:?}");
    }
}

pub async fn what_was_delivered_or_died_is_read_page_by_page_the_newest_first(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let headers = vec![("b".to_owned(), "2".to_owned())];
    scene.insert(&[NewEvent { headers, key: Some("k".to_owned()), ..event("e1") }]).await;
    scene.insert_ids(&["e2", "e3", "e4", "e5", "e6"]).await;
    for claimed in scene.claim("host-a").await {
        match claimed.event.id.as_str() {
            "e1" | "e5" => scene.deliver(&claimed).await,
            "e2" => scene.reject(&claimed).await,
            // e3, e4 and e6 stay leased.
            _ => {}
        }
    }
    let mut found = Vec::new();
    let mut pages = 0;
    let mut before = None;
    loop {
        let page = scene.store.recorded(SHOP, before, 2).await.expect("recorded");
        found.extend(page.deliveries);
        let Some(next) = page.next else { break };
        assert!(before.is_none_or(|before| next < before), "a page goes on before the last one");
        before = Some(next);
        pages += 1;
    }
    assert_eq!(pages, 3, "two deliveries each, also where none of them has ended");
    let told: Vec<_> = found
        .iter()
        .map(|it| (&*it.event.id, it.status, it.outcome.as_deref(), it.code.as_deref().unwrap_or_default()))
        .collect();
    let delivered = |id| (id, DeliveryStatus::Delivered, Some("delivered"), "");
    let expected = [delivered("e5"), ("e2", DeliveryStatus::Dead, Some("rejected"), "no"), delivered("e1")];
    assert_eq!(told, expected);
    assert_eq!(found[1].disposition.as_deref(), Some("rejected"));
    let first = &found[2].event;
    assert_eq!((first.key.as_deref(), first.payload_bytes), (Some("k"), 7));
    assert_eq!(first.headers, [("b".to_owned(), "2".to_owned())]);
    for unknown in ["nowhere", UNROUTED_NAME] {
        let refused = scene.store.recorded(unknown, None, 2).await.expect_err("it is not there");
        assert!(refused.to_string().contains("no destination"), "{refused}");
    }
}

pub async fn hosts_that_were_silent_for_a_week_are_forgotten(db: &dyn Database) {
    let scene = Scene::open(db).await;
    let other = registration("host-b", "c1", vec![destination(SHOP, &["order.*"])]);
    scene.store.register(&other).await.expect("register");
    let hosts = async || {
        let hosts = scene.store.hosts().await.expect("hosts");
        hosts.into_iter().map(|host| host.host).collect::<std::collections::BTreeSet<_>>()
    };
    let both = hosts().await;
    assert!(both.contains("host-a") && both.contains("host-b"), "{both:?}");
    let week_secs = 7 * 86_400;
    scene.at(100 + week_secs - 1).await;
    scene.store.heartbeat("host-b", &HostNotes::default()).await.expect("heartbeat");
    scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    assert_eq!(hosts().await, both);
    scene.at(100 + week_secs).await;
    scene.store.sweep(&[scene.shop], 100).await.expect("sweep");
    assert_eq!(hosts().await.into_iter().collect::<Vec<_>>(), ["host-b"]);
}

pub async fn a_report_counts_what_waits_what_runs_and_what_died(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    scene.at(110).await;
    scene.insert_ids(&["e2", "e3", "e4"]).await;
    let claimed = scene.claims(&ClaimRequest { limit: 2, ..scene.request("host-a") }).await.claimed;
    assert_eq!(ids(&claimed), ["e1", "e2"]);
    scene.reject(&claimed[1]).await;
    let reports = scene.store.lane_reports().await.expect("reports");
    assert_eq!(reports.len(), 1);
    let report = &reports[0];
    assert_eq!((report.destination.as_str(), report.id), (SHOP, Some(scene.shop)));
    assert_eq!((report.pending, report.leased, report.dead), (3, 1, 1));
    assert_eq!((report.oldest_pending, report.now), (Some(at(100)), at(110)));
    scene.at(130).await;
    assert_eq!(scene.store.lane_reports().await.expect("reports")[0].leased, 0);
}

pub async fn an_event_is_shown_with_its_deliveries_and_its_history(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    let claimed = scene.claim_one("host-a").await;
    scene.at(105).await;
    scene.reject(&claimed).await;
    let report = scene.report("e1").await;
    assert_eq!((report.event_id.as_str(), report.payload_bytes), ("e1", 7));
    assert_eq!(report.sequence, claimed.event.seq.0);
    assert_eq!(report.attempts.len(), 1);
    let attempt = &report.attempts[0];
    assert_eq!((attempt.destination.as_str(), attempt.host.as_str()), (SHOP, "host-a"));
    assert_eq!((attempt.code.as_deref(), attempt.component_digest.as_deref()), (Some("no"), Some("abc")));
    assert_eq!(attempt.message.as_deref(), Some("the destination said so"));
    assert_eq!((attempt.started_at, attempt.ended_at), (Some(at(100)), Some(at(100))));
    assert!(scene.store.show("acme", "e1").await.expect("show").is_none());
    assert!(scene.store.show("", "none").await.expect("show").is_none());
}

pub async fn a_second_migration_changes_nothing(db: &dyn Database) {
    let scene = Scene::open(db).await;
    scene.insert_ids(&["e1"]).await;
    assert!(scene.store.migrate().await.expect("migrate").is_empty());
    let status = scene.store.status().await.expect("status");
    assert_eq!((status.installed, status.pending.len()), (Some(status.newest_known), 0));
    assert_eq!(scene.claim_ids("host-a").await, ["e1"]);
}
