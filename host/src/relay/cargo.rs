//! Payloads: read after the claim, within a byte budget, so that memory is bounded whatever the
//! rows hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Notify;

use super::backoff::Backoff;
use super::batch::{self, Loaded};
use super::claimer::Flight;
use super::context::Context;
use super::worker;
use crate::domain::{DestinationId, EventSeq};
use crate::store::StoreError;

/// Reads of one payload that fail while the database answers other questions, after which the
/// attempt ends: it would go on for ever, and each renewal would keep its slot taken.
const FAILED_READS_MAX: u32 = 3;

/// Payload bytes this host may hold at once.
pub(super) struct Budget {
    total: u64,
    taken: Mutex<Taken>,
    freed: Notify,
    gauge: Gauge,
}

#[derive(Default)]
struct Taken {
    bytes: u64,
    by_lane: BTreeMap<DestinationId, u64>,
    /// The turns of those that wait, by lane, first come first.
    waiting: BTreeMap<DestinationId, BTreeSet<u64>>,
    next_turn: u64,
}

/// Bytes of one payload; dropping it gives them back.
pub(super) struct Share {
    budget: Arc<Budget>,
    lane: DestinationId,
    bytes: u64,
}

/// A place in its lane's queue for memory; dropping it lets the next one forward.
pub(super) struct Turn {
    budget: Arc<Budget>,
    lane: DestinationId,
    number: u64,
}

/// Memory for one payload, or a place in the queue for it.
pub(super) enum Room {
    Taken(Share),
    Queued(Turn),
}

/// What a worker finds when it starts.
pub(super) enum Cargo {
    Loaded(Bytes, Share),
    /// It did not fit the budget when it was claimed, or was not read in time.
    NotLoaded(Room),
    /// Larger than its destination takes: never read.
    TooLarge,
    /// The database has no such payload.
    Missing,
    /// The database answers, but can't hand it over.
    Unreadable(StoreError),
}

impl Budget {
    pub fn new(total: u64, gauge: Gauge) -> Self {
        Self { total, taken: Mutex::default(), freed: Notify::new(), gauge }
    }

    /// Takes the bytes if they fit and none of the lane waits: small payloads that went past a
    /// waiting large one would keep the lane's memory in use, and it would wait for ever.
    fn room(self: &Arc<Self>, lane: DestinationId, bytes: u64) -> Room {
        let mut taken = self.lock();
        if !taken.waiting.contains_key(&lane)
            && let Some(share) = self.take(&mut taken, lane, bytes)
        {
            return Room::Taken(share);
        }
        let number = taken.next_turn;
        taken.next_turn += 1;
        taken.waiting.entry(lane).or_default().insert(number);
        Room::Queued(Turn { budget: self.clone(), lane, number })
    }

    /// A lane that holds nothing always gets one payload, or a lane whose plugin hangs on large
    /// events could starve the others of memory.
    fn take(self: &Arc<Self>, taken: &mut Taken, lane: DestinationId, bytes: u64) -> Option<Share> {
        let holds_nothing = !taken.by_lane.contains_key(&lane);
        if taken.bytes.saturating_add(bytes) > self.total && !holds_nothing {
            return None;
        }
        taken.bytes += bytes;
        *taken.by_lane.entry(lane).or_default() += 1;
        self.gauge.set(taken.bytes.try_into().unwrap_or(i64::MAX));
        Some(Share { budget: self.clone(), lane, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    async fn share(self, bytes: u64) -> Share {
        match self {
            Self::Taken(share) => share,
            Self::Queued(turn) => turn.share(bytes).await,
        }
    }
}

impl Turn {
    async fn share(self, bytes: u64) -> Share {
        loop {
            let freed = self.budget.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(share) = self.try_share(bytes) {
                return share;
            }
            freed.await;
        }
    }

    fn try_share(&self, bytes: u64) -> Option<Share> {
        let mut taken = self.budget.lock();
        let first = taken.waiting.get(&self.lane).and_then(BTreeSet::first);
        if first != Some(&self.number) {
            return None;
        }
        self.budget.take(&mut taken, self.lane, bytes)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut taken = self.budget.lock();
        if let Some(turns) = taken.waiting.get_mut(&self.lane) {
            turns.remove(&self.number);
            if turns.is_empty() {
                taken.waiting.remove(&self.lane);
            }
        }
        drop(taken);
        self.budget.freed.notify_waiters();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.budget.lock();
        taken.bytes -= self.bytes;
        if let Some(payloads) = taken.by_lane.get_mut(&self.lane) {
            *payloads -= 1;
            if *payloads == 0 {
                taken.by_lane.remove(&self.lane);
            }
        }
        self.budget.gauge.set(taken.bytes.try_into().unwrap_or(i64::MAX));
        drop(taken);
        self.budget.freed.notify_waiters();
    }
}

/// Reads in one statement what fits the budget, and starts a worker for each claim, or one for
/// several where the plugin takes them together.
pub(super) async fn load_and_start(ctx: Arc<Context>, flights: Vec<Flight>) {
    let mut fitting = Vec::new();
    for flight in flights {
        let event = &flight.claimed.event;
        if event.payload_bytes > flight.spec.settings.payload_bytes_max {
            begin(&ctx, flight, Cargo::TooLarge);
            continue;
        }
        match ctx.budget.room(flight.lane.id, event.payload_bytes) {
            Room::Taken(share) => fitting.push((flight, share)),
            queued => begin(&ctx, flight, Cargo::NotLoaded(queued)),
        }
    }
    let events: Vec<_> = fitting.iter().map(|(flight, _)| flight.claimed.event.seq).collect();
    let Some((last, _)) = fitting.last() else { return };
    let mut payloads = tokio::select! {
        biased;
        // What is not read by now is given back by its worker.
        () = ctx.stop_claiming.cancelled() => None,
        () = last.held.hold.trust_ended(&*ctx.clock) => None,
        payloads = read(&ctx, &events, 1) => Some(payloads),
    };
    let mut loaded = Vec::new();
    for (flight, share) in fitting {
        let cargo = match &mut payloads {
            None => Cargo::NotLoaded(Room::Taken(share)),
            // One of several may be at fault, or they are too much at once: each worker reads its own.
            Some(Err(_)) => Cargo::NotLoaded(Room::Taken(share)),
            Some(Ok(payloads)) => match payloads.remove(&flight.claimed.event.seq) {
                Some(payload) => {
                    loaded.push(Loaded { flight, payload, share });
                    continue;
                }
                None => Cargo::Missing,
            },
        };
        begin(&ctx, flight, cargo);
    }
    batch::start(&ctx, loaded);
}

pub(super) fn begin(ctx: &Arc<Context>, flight: Flight, cargo: Cargo) {
    ctx.spawn(worker::run(ctx.clone(), flight, cargo));
}

/// Waits for room and reads one payload.
pub(super) async fn load_later(ctx: &Context, flight: &Flight, room: Room) -> Cargo {
    let event = &flight.claimed.event;
    let share = room.share(event.payload_bytes).await;
    match read(ctx, &[event.seq], FAILED_READS_MAX).await.map(|mut payloads| payloads.remove(&event.seq)) {
        Ok(Some(payload)) => Cargo::Loaded(payload, share),
        Ok(None) => Cargo::Missing,
        Err(error) => Cargo::Unreadable(error),
    }
}

/// Reads payloads, as often as it takes while the database is down, and until so many reads failed
/// while it was not. Ended by the caller when the claim is no longer trusted.
async fn read(
    ctx: &Context,
    events: &[EventSeq],
    failures_max: u32,
) -> Result<BTreeMap<EventSeq, Bytes>, StoreError> {
    let mut backoff = Backoff::default();
    let mut failures = 0;
    loop {
        let turn = ctx.read_gate.acquire().await;
        let error = match ctx.ask("payloads", ctx.store.payloads(events)).await {
            Ok(payloads) => return Ok(payloads.into_iter().collect()),
            Err(error) => error,
        };
        // A database that answers another question right after is not down: it is these rows.
        if ctx.ask("now", ctx.store.now()).await.is_ok() {
            failures += 1;
        }
        drop(turn);
        if failures >= failures_max {
            return Err(error);
        }
        tokio::time::sleep(backoff.next(ctx.clock.jitter())).await;
    }
}
