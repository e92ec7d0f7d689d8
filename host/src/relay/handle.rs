//! Starting, watching and stopping the relay.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use super::context::Context;
use super::lanes::LaneState;
use super::metrics::Metrics;
use super::settings::{Lane, RelaySettings};
use super::{acknowledger, asker, claimer, housekeeper, renewer};
use crate::clock::SharedClock;
use crate::domain::DestinationId;
use crate::store::{HostNotes, LaneChange, LaneState as StoredState, LaneView, SharedStore, StoreResult};

pub struct Relay;

/// A running relay. Dropping it ends the relay where it stands, as a crash would: leases run out,
/// and other hosts take over. [`RelayHandle::drain`] is the orderly way.
pub struct RelayHandle {
    ctx: Arc<Context>,
}

/// What the relay knows of itself, for status pages and readiness.
#[derive(Clone, Debug)]
pub struct RelayStatus {
    pub is_draining: bool,
    pub config_is_superseded: bool,
    pub in_flight: usize,
    /// Operations of the database that fail now, with their latest errors.
    pub store_problems: Vec<String>,
    pub lanes: Vec<LaneStatus>,
}

#[derive(Clone, Debug)]
pub struct LaneStatus {
    pub destination: DestinationId,
    pub name: String,
    /// What the database last said; none before its first answer.
    pub view: Option<LaneView>,
    /// Claimed by this host and not yet ended in the database.
    pub in_flight: u32,
    /// Why this lane can't run on this host.
    pub problem: Option<String>,
}

/// What a drain could not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Calls that still ran at the deadline and were dropped. Each used an attempt, may have had its
    /// effect, and is tried again.
    pub interrupted: usize,
    /// Deliveries whose end the database could not be told in time. They keep their leases, and
    /// another host takes them over when those run out.
    pub left_leased: usize,
}

impl Relay {
    /// Starts the relay on the caller's runtime, which must not run guests: renewals must never
    /// wait for one.
    pub fn start(
        store: SharedStore,
        clock: SharedClock,
        settings: RelaySettings,
        lanes: Vec<Lane>,
    ) -> RelayHandle {
        let (reports, inbox) = mpsc::unbounded_channel();
        let ctx = Arc::new(Context::new(store, clock, settings, reports));
        let handle = RelayHandle { ctx: ctx.clone() };
        ctx.spawn(renewer::run(ctx.clone()));
        ctx.spawn(acknowledger::run(ctx.clone(), inbox));
        ctx.spawn(housekeeper::heartbeat(ctx.clone()));
        ctx.spawn(housekeeper::sweep(ctx.clone()));
        lanes.into_iter().for_each(|lane| handle.put_lane(lane));
        ctx.spawn(asker::run(ctx.clone()));
        handle
    }
}

impl RelayHandle {
    /// Adds a lane, or replaces its settings and plugin: attempts already started end with what
    /// they started with.
    pub fn put_lane(&self, lane: Lane) {
        let mut lanes = self.ctx.lanes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lanes.get(&lane.id) {
            let old_name = known.name();
            if old_name != lane.settings.name {
                self.ctx.metrics.forget_state(&old_name);
            }
            known.replace(lane);
            self.ctx.questions.ask_now();
            return;
        }
        let state = Arc::new(LaneState::new(lane));
        lanes.insert(state.id, state.clone());
        drop(lanes);
        self.ctx.spawn_claimer(claimer::run(self.ctx.clone(), state));
        self.ctx.questions.ask_now();
    }

    /// Stops claiming for a lane. What it has in flight ends as usual.
    pub fn remove_lane(&self, id: DestinationId) {
        let removed = self.ctx.lanes.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(lane) = removed {
            lane.removed.cancel();
            self.ctx.metrics.show_state(&lane.name(), StoredState::Removed);
        }
    }

    /// What this host says of itself from now on, beside what the relay knows of its lanes.
    pub fn tell(&self, notes: HostNotes) {
        *self.ctx.notes.lock().unwrap_or_else(PoisonError::into_inner) = notes;
        self.ctx.has_news.notify_one();
    }

    /// Tries a stopped lane again, for all hosts, unless this one's config is superseded. Returns
    /// whether it was stopped.
    pub async fn revive_lane(&self, id: DestinationId) -> StoreResult<bool> {
        revive(&self.ctx, id).await
    }

    pub fn metrics(&self) -> &Metrics {
        &self.ctx.metrics
    }

    pub fn status(&self) -> RelayStatus {
        let lanes = self.ctx.lanes();
        let lanes = lanes.iter().map(|lane| LaneStatus {
            destination: lane.id,
            name: lane.name(),
            view: lane.view(),
            in_flight: lane.in_flight(),
            problem: lane.problem(),
        });
        RelayStatus {
            is_draining: self.ctx.stop_claiming.is_cancelled(),
            config_is_superseded: self.ctx.config_is_superseded.load(Relaxed),
            in_flight: self.ctx.flights.count(),
            store_problems: self.ctx.health.problems(self.ctx.clock.since_boot()),
            lanes: lanes.collect(),
        }
    }

    /// Stops in order: claims no more and gives back what was not started, waits for what runs,
    /// interrupts what still runs at the drain's deadline. Returns when nothing is in flight, or one
    /// statement's time after that deadline.
    pub async fn drain(&self) -> Drained {
        self.stop_claiming();
        self.finish_running(self.ctx.settings.drain).await;
        self.interrupt_the_rest().await
    }

    /// Ends at once, as a crash would, and returns when nothing of it runs any more.
    pub async fn end(self) {
        self.ctx.end.cancel();
        self.ctx.tasks.close();
        self.ctx.tasks.wait().await;
    }

    /// Step one. Claims on their way end; what they bring, and what had not started, is released
    /// at once, so that another host need not wait for its lease.
    fn stop_claiming(&self) {
        tracing::info!(in_flight = self.ctx.flights.count(), "draining: no more claims");
        self.ctx.stop_claiming.cancel();
    }

    /// Step two. Renewals and acknowledgements go on for what runs.
    async fn finish_running(&self, deadline: Duration) {
        let all_ended = async {
            self.ctx.claimers.close();
            self.ctx.claimers.wait().await;
            self.ctx.flights.all_ended().await;
        };
        let _ = tokio::time::timeout(deadline, all_ended).await;
    }

    /// Step three. What still runs is dropped, and the database is told so under the claim's token:
    /// a lease left to run out would count as lost, and two such restarts make a suspect. What the
    /// database does not take in time keeps its lease until that ends by itself.
    async fn interrupt_the_rest(&self) -> Drained {
        let interrupted = self.ctx.flights.running();
        self.ctx.interrupt.cancel();
        let _ = tokio::time::timeout(self.ctx.settings.store_timeout, self.ctx.flights.all_ended()).await;
        let left_leased = self.ctx.flights.count();
        self.ctx.end.cancel();
        self.ctx.tasks.close();
        self.ctx.tasks.wait().await;
        tracing::info!(interrupted, left_leased, "drained");
        Drained { interrupted, left_leased }
    }
}

pub(super) async fn revive(ctx: &Context, id: DestinationId) -> StoreResult<bool> {
    if ctx.config_is_superseded.load(Relaxed) {
        return Ok(false);
    }
    let views = ctx.ask("lanes", ctx.store.lanes(&[id])).await?;
    let Some(view) = views.first().filter(|view| view.state == StoredState::Stopped) else {
        return Ok(false);
    };
    let change = ctx.store.change_lane(id, view.epoch, LaneChange::Revive);
    let is_revived = ctx.ask("change_lane", change).await?;
    ctx.questions.ask_now();
    Ok(is_revived)
}

impl Drop for RelayHandle {
    fn drop(&mut self) {
        self.ctx.end.cancel();
    }
}
