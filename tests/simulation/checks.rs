//! What is watched at every step: the trace, and the guarantees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use outhaul::domain::{DestinationId, EventSeq, Timestamp};
use outhaul::plugin::Call;
use outhaul::store::memory::Row;
use outhaul::store::{Claims, DeliveryStatus, OnDead, Order};

/// What the tests know of one delivery beside its row.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub claims: u32,
    pub given_back: u32,
    /// Fences of all calls, in the order they began.
    pub fences: Vec<i64>,
    /// When each call began, by the database's clock.
    pub began: Vec<Timestamp>,
    pub running: u32,
    /// Calls that took effect.
    pub effects: u32,
    /// Calls whose plugin reported success.
    pub successes: u32,
    pub dedup_id: Option<String>,
    finished: Option<DeliveryStatus>,
}

pub type DeliveryId = (DestinationId, EventSeq);

#[derive(Default)]
pub struct Watch {
    inner: Mutex<Inner>,
    stepped: tokio::sync::Notify,
}

#[derive(Default)]
struct Inner {
    trace: Vec<String>,
    violations: Vec<String>,
    accounts: BTreeMap<DeliveryId, Account>,
    /// Committed events, with the step of their commit.
    committed: BTreeMap<EventSeq, u64>,
    /// The step of the latest claim that took effect.
    claimed_at: BTreeMap<DeliveryId, u64>,
    step: u64,
    orders: BTreeMap<DestinationId, Order>,
    max_attempts: u32,
}

/// A call as the checks need it.
pub struct Seen<'a> {
    pub host: &'a str,
    pub id: DeliveryId,
    pub call: &'a Call,
    pub now: Timestamp,
    pub rows: &'a [Row],
}

impl Watch {
    pub fn new(orders: BTreeMap<DestinationId, Order>, max_attempts: u32) -> Self {
        let inner = Inner { orders, max_attempts, ..Inner::default() };
        Self { inner: Mutex::new(inner), stepped: tokio::sync::Notify::new() }
    }

    fn step(&self, line: String, act: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock().unwrap();
        inner.step += 1;
        inner.trace.push(line);
        act(&mut inner);
        drop(inner);
        self.stepped.notify_waiters();
    }

    /// Waits until a step makes `condition` true. Time runs on; an hour of it is a failure.
    pub async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let all = async {
            loop {
                let stepped = self.stepped.notified();
                tokio::pin!(stepped);
                stepped.as_mut().enable();
                if condition() {
                    return;
                }
                stepped.await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(3600), all).await.is_err() {
            panic!("an hour passed and still not: {what}\n{}", self.tail(60));
        }
    }

    pub fn account(&self, id: DeliveryId) -> Account {
        self.inner.lock().unwrap().accounts.get(&id).cloned().unwrap_or_default()
    }

    pub fn accounts(&self) -> BTreeMap<DeliveryId, Account> {
        self.inner.lock().unwrap().accounts.clone()
    }

    pub fn committed_events(&self) -> BTreeSet<EventSeq> {
        self.inner.lock().unwrap().committed.keys().copied().collect()
    }

    pub fn trace(&self) -> Vec<String> {
        self.inner.lock().unwrap().trace.clone()
    }

    fn tail(&self, lines: usize) -> String {
        let inner = self.inner.lock().unwrap();
        inner.trace[inner.trace.len().saturating_sub(lines)..].join("\n")
    }

    /// Fails the test if a guarantee was broken at any step.
    pub fn assert_kept(&self) {
        let violations = self.inner.lock().unwrap().violations.clone();
        assert!(violations.is_empty(), "{}\n\n{}", violations.join("\n"), self.tail(60));
    }

    pub fn note(&self, line: String) {
        self.step(line, |_| {});
    }

    pub fn committed(&self, events: &[EventSeq], now: Timestamp) {
        self.step(format!("{} commit {events:?}", now.0), |inner| {
            let step = inner.step;
            inner.committed.extend(events.iter().map(|event| (*event, step)));
        });
    }

    pub fn claimed(&self, host: &str, destination: DestinationId, claims: &Claims, now: Timestamp) {
        let taken: Vec<_> = claims.claimed.iter().map(|claimed| claimed.claim.event.0).collect();
        let line = format!(
            "{} {host} claim {} {taken:?} lost {} buried {:?} parked {}",
            now.0, destination.0, claims.lost, claims.buried, claims.parked
        );
        self.step(line, |inner| {
            for claimed in &claims.claimed {
                let id = (destination, claimed.claim.event);
                inner.accounts.entry(id).or_default().claims += 1;
                inner.claimed_at.insert(id, inner.step);
            }
        });
    }

    /// A defer or a release was recorded.
    pub fn gave_back(&self, ids: &[DeliveryId]) {
        let mut inner = self.inner.lock().unwrap();
        for id in ids {
            inner.accounts.entry(*id).or_default().given_back += 1;
        }
    }

    pub fn call_began(&self, seen: &Seen) {
        let Seen { host, id, call, now, rows } = seen;
        let line = format!("{} {host} call {} {} fence {}", now.0, id.0.0, call.event.id, call.fence.0);
        self.step(line, |inner| {
            inner.check_owner(seen, "began");
            inner.check_key(*id, rows, *now);
            let is_unknown = !inner.committed.contains_key(&id.1);
            let account = inner.accounts.entry(*id).or_default();
            let mut wrong = Vec::new();
            if is_unknown {
                wrong.push("G2: delivered although its transaction did not commit");
            }
            if account.running > 0 {
                wrong.push("two calls of one delivery at once");
            }
            if account.fences.last().is_some_and(|last| *last >= call.fence.0) {
                wrong.push("the fence did not grow");
            }
            if account.dedup_id.get_or_insert_with(|| call.dedup_id.clone()) != &call.dedup_id {
                wrong.push("G6: the identity changed between attempts");
            }
            if call.attempt != account.claims - account.given_back {
                wrong.push("G5: the attempt number is not the number of claims");
            }
            account.running += 1;
            account.fences.push(call.fence.0);
            account.began.push(*now);
            let lines = wrong.into_iter().map(|what| format!("{} {id:?}: {what}", now.0));
            inner.violations.extend(lines.collect::<Vec<_>>());
        });
    }

    /// The effect happens at the destination.
    pub fn took_effect(&self, seen: &Seen) {
        let Seen { host, id, call, now, .. } = seen;
        self.step(format!("{} {host} effect {} {}", now.0, id.0.0, call.event.id), |inner| {
            inner.check_owner(seen, "took effect");
            let account = inner.accounts.entry(*id).or_default();
            account.effects += 1;
            if account.effects > 1 && !call.uncertain_before {
                let line = format!("{} {id:?}: applied again, and the plugin was not warned", now.0);
                inner.violations.push(line);
            }
        });
    }

    pub fn call_ended(&self, host: &str, id: DeliveryId, how: &str, now: Timestamp) {
        self.step(format!("{} {host} end {} {} {how}", now.0, id.0.0, id.1.0), |inner| {
            let account = inner.accounts.entry(id).or_default();
            account.running -= 1;
            account.successes += u32::from(matches!(how, "delivered" | "duplicate"));
        });
    }

    /// Compares every row with what is known of it.
    pub fn statement(&self, host: &str, statement: &str, how: &str, now: Timestamp, rows: &[Row]) {
        self.step(format!("{} {host} {statement} {how}", now.0), |inner| {
            rows.iter().for_each(|row| inner.check_row(row, now));
        });
    }
}

impl Inner {
    fn violate(&mut self, id: DeliveryId, now: Timestamp, what: impl std::fmt::Display) {
        self.violations.push(format!("{} {id:?}: {what}", now.0));
    }

    /// Whoever works on a delivery holds its lease by the database's clock, at this very moment.
    fn check_owner(&mut self, seen: &Seen, what: &str) {
        let row = seen.rows.iter().find(|row| (row.destination, row.event) == seen.id);
        let owns = row.is_some_and(|row| {
            row.fence == seen.call.fence.0 && row.token.is_some() && row.has_live_lease(seen.now)
        });
        if !owns {
            self.violate(seen.id, seen.now, format!("G3: a call {what} without a lease: {row:?}"));
        }
    }

    /// Nothing of the key that was there at the claim is earlier and unfinished.
    fn check_key(&mut self, id: DeliveryId, rows: &[Row], now: Timestamp) {
        let Some(Order::Key(on_dead)) = self.orders.get(&id.0).copied() else { return };
        let Some(row) = rows.iter().find(|row| (row.destination, row.event) == id) else { return };
        let (tenant, Some(key)) = (&row.tenant, &row.key) else { return };
        let claimed_at = self.claimed_at.get(&id).copied().unwrap_or_default();
        let overtaken = rows.iter().find(|other| {
            let is_before = other.destination == id.0
                && other.key.as_ref() == Some(key)
                && &other.tenant == tenant
                && other.event < id.1
                && self.committed.get(&other.event).is_some_and(|step| *step < claimed_at);
            let blocks = match other.status {
                DeliveryStatus::Pending => !other.is_past_expiry(now),
                DeliveryStatus::Dead => {
                    on_dead == OnDead::Block && other.disposition.as_deref() != Some("expired")
                }
                _ => false,
            };
            is_before && blocks
        });
        if let Some(other) = overtaken {
            let what = format!("G7: overtook event {} of key {key}", other.event.0);
            self.violations.push(format!("{id:?}: {what}"));
        }
        let busy = self.accounts.iter().find(|(other, account)| {
            account.running > 0
                && other.0 == id.0
                && **other != id
                && rows.iter().any(|row| {
                    (row.destination, row.event) == **other
                        && (&row.tenant, row.key.as_ref()) == (tenant, Some(key))
                })
        });
        if let Some((other, _)) = busy {
            self.violations.push(format!("{id:?}: G7: {other:?} of the same key {key} runs too"));
        }
    }

    fn check_row(&mut self, row: &Row, now: Timestamp) {
        let id = (row.destination, row.event);
        let account = self.accounts.entry(id).or_default();
        let (claims, given_back, was) = (account.claims, account.given_back, account.finished);
        let is_finished = !matches!(row.status, DeliveryStatus::Pending | DeliveryStatus::Unrouted);
        account.finished = is_finished.then_some(row.status);
        if row.attempts != claims - given_back {
            self.violate(id, now, format!("G5: {} attempts after {claims} claims", row.attempts));
        }
        if row.attempts > self.max_attempts {
            self.violate(id, now, format!("{} attempts of {}", row.attempts, self.max_attempts));
        }
        if was.is_some_and(|was| was != row.status) {
            self.violate(id, now, format!("left {was:?} for {:?}", row.status));
        }
        if is_finished && (row.token.is_some() || row.lease_until.is_some()) {
            self.violate(id, now, "G4: a finished delivery kept its claim");
        }
    }
}
