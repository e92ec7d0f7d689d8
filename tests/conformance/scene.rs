//! One host, one destination `shop` for `order.*`, and the verbs of a test. The clock starts at
//! 100 s; leases are 20 s long and three attempts are the most, unless a test says otherwise.

use std::sync::Arc;
use std::time::Duration;

use outhaul::domain::{DeadReason, DestinationId, Timestamp, Write};
use outhaul::store::*;

use crate::harness::{AnyStore, Database, Isolation};

pub const SHOP: &str = "shop";
pub const LEASE: Duration = Duration::from_secs(20);

pub struct Scene<'a> {
    pub db: &'a dyn Database,
    pub store: Arc<dyn AnyStore>,
    pub shop: DestinationId,
    pub order: Order,
}

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

pub fn event(id: &str) -> NewEvent {
    NewEvent {
        id: id.to_owned(),
        topic: "order.created".to_owned(),
        payload: br#"{"n":1}"#.to_vec(),
        ..NewEvent::default()
    }
}

pub fn keyed(id: &str, key: &str) -> NewEvent {
    NewEvent { key: Some(key.to_owned()), ..event(id) }
}

pub fn destination(name: &str, topics: &[&str]) -> DestinationConfig {
    DestinationConfig {
        name: name.to_owned(),
        renamed_from: None,
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        order: Order::None,
        digest: "d1".to_owned(),
    }
}

pub fn registration(host: &str, digest: &str, destinations: Vec<DestinationConfig>) -> HostRegistration {
    HostRegistration {
        host_id: host.to_owned(),
        version: "0.1.0".to_owned(),
        config_digest: digest.to_owned(),
        destinations,
        takeover: Takeover::IfNeverSeen,
    }
}

impl<'a> Scene<'a> {
    pub async fn open(db: &'a dyn Database) -> Self {
        Self::ordered(db, Order::None).await
    }

    pub async fn ordered(db: &'a dyn Database, order: Order) -> Self {
        db.set_now(at(100)).await;
        let store = db.store();
        let config = DestinationConfig { order, ..destination(SHOP, &["order.*"]) };
        let registered = store.register(&registration("host-a", "c1", vec![config])).await.expect("register");
        let shop = registered.destinations[0].1.expect("the destination has an id");
        Self { db, store, shop, order }
    }

    pub async fn at(&self, secs: i64) {
        self.db.set_now(at(secs)).await;
    }

    /// Inserts as an application does: in a transaction of its own that commits.
    pub async fn insert(&self, events: &[NewEvent]) {
        let mut producer = self.db.begin(Isolation::ReadCommitted).await;
        for event in events {
            producer.insert(event).await.expect("insert");
        }
        producer.commit().await.expect("commit");
    }

    pub async fn insert_ids(&self, ids: &[&str]) {
        self.insert(&ids.iter().map(|id| event(id)).collect::<Vec<_>>()).await;
    }

    pub fn request(&self, host: &str) -> ClaimRequest {
        ClaimRequest {
            host_id: host.to_owned(),
            destination: self.shop,
            limit: 10,
            lease: LEASE,
            order: self.order,
            max_attempts: 3,
            which: Which::Ordinary,
            probe: None,
        }
    }

    pub async fn claims(&self, request: &ClaimRequest) -> Claims {
        self.store.claim(request).await.expect("claim")
    }

    pub async fn claim(&self, host: &str) -> Vec<Claimed> {
        self.claims(&self.request(host)).await.claimed
    }

    /// The claim of the one delivery that is due.
    pub async fn claim_one(&self, host: &str) -> Claimed {
        let mut claimed = self.claim(host).await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        claimed.remove(0)
    }

    /// Claims until a claim neither takes, parks nor buries anything, as the relay does.
    pub async fn claim_all(&self, host: &str) -> Vec<Claimed> {
        let mut all = Vec::new();
        loop {
            let claims = self.claims(&self.request(host)).await;
            let idle = claims.claimed.is_empty() && claims.parked == 0 && claims.buried.is_empty();
            all.extend(claims.claimed);
            if idle {
                return all;
            }
        }
    }

    pub async fn claim_ids(&self, host: &str) -> Vec<String> {
        ids(&self.claim_all(host).await)
    }

    pub async fn acknowledge(&self, claimed: &Claimed, write: Write) -> Settled {
        let settled = self.store.acknowledge(&[answer(claimed, write)]).await.expect("acknowledge");
        assert_eq!(settled.len(), 1);
        settled[0]
    }

    pub async fn deliver(&self, claimed: &Claimed) {
        assert_eq!(self.acknowledge(claimed, Write::Delivered).await, Settled::Recorded);
    }

    pub async fn reject(&self, claimed: &Claimed) {
        assert_eq!(self.acknowledge(claimed, Write::Dead(DeadReason::Rejected)).await, Settled::Recorded);
    }

    pub async fn report(&self, id: &str) -> EventReport {
        self.store.show("", id).await.expect("show").expect("the event exists")
    }

    /// The delivery of an event for the scene's destination.
    pub async fn row(&self, id: &str) -> DeliveryRow {
        let report = self.report(id).await;
        let row = report.deliveries.into_iter().find(|row| row.destination == SHOP);
        row.expect("the event has a delivery for the destination")
    }

    /// (fence, attempt, outcome, uncertain) of each attempt, oldest first.
    pub async fn history(&self, id: &str) -> Vec<(i64, u32, String, bool)> {
        let report = self.report(id).await;
        report.attempts.into_iter().map(|row| (row.fence, row.attempt, row.outcome, row.uncertain)).collect()
    }

    pub async fn lane(&self) -> LaneView {
        let mut lanes = self.store.lanes(&[self.shop]).await.expect("lanes");
        assert_eq!(lanes.len(), 1);
        lanes.remove(0)
    }

    pub async fn actions(&self) -> Vec<(String, String, i64)> {
        let rows = self.store.actions(100).await.expect("actions");
        rows.into_iter().map(|row| (row.who, row.action, row.count)).collect()
    }
}

pub fn ids(claimed: &[Claimed]) -> Vec<String> {
    claimed.iter().map(|claimed| claimed.event.id.clone()).collect()
}

/// Everything of one event, for an operator's act.
pub fn target(id: &str) -> Target {
    Target { event_id: Some(id.to_owned()), ..Target::default() }
}

pub fn refs(claimed: &[Claimed]) -> Vec<ClaimRef> {
    claimed.iter().map(|claimed| claimed.claim).collect()
}

/// The acknowledgement a worker would send for this verdict.
pub fn answer(claimed: &Claimed, write: Write) -> Acknowledgement {
    let (outcome, code) = match write {
        Write::Delivered => ("delivered", ""),
        Write::Dead(_) => ("rejected", "no"),
        Write::Retry(_) => ("retry", "later"),
        Write::Defer => ("unavailable", "down"),
    };
    Acknowledgement {
        claim: claimed.claim,
        lane_works: write == Write::Delivered,
        write,
        record: AttemptRecord {
            host_id: "host-a".to_owned(),
            attempt: claimed.attempt,
            started_at: claimed.claimed_at,
            ended_at: claimed.claimed_at,
            outcome: outcome.to_owned(),
            code: code.to_owned(),
            message: if code.is_empty() { String::new() } else { "the destination said so".to_owned() },
            uncertain: false,
            reference: Some("ref-1".to_owned()),
            component_digest: "abc".to_owned(),
        },
    }
}
