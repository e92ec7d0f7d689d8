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
use crate::store::{LaneView, SharedStore};

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

/// What a drain left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Deliveries still running at the deadline. They keep their leases, and another host takes
    /// them over when those run out.
    pub left_running: usize,
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
            return known.replace(lane);
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
        }
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

    /// Stops in order: claims no more, gives back what was not started, waits for what runs.
    /// Returns when nothing is in flight, or at the drain's deadline.
    pub async fn drain(&self) -> Drained {
        self.stop_claiming();
        self.finish_running(self.ctx.settings.drain).await;
        self.leave_the_rest().await
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
            loop {
                let ended = self.ctx.flights.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if self.ctx.flights.is_empty() {
                    return;
                }
                ended.await;
            }
        };
        let _ = tokio::time::timeout(deadline, all_ended).await;
    }

    /// Step three. What still runs keeps its lease until that ends by itself: giving it back now
    /// would let another host start it while its effect may be under way.
    async fn leave_the_rest(&self) -> Drained {
        let left_running = self.ctx.flights.count();
        self.ctx.end.cancel();
        self.ctx.tasks.close();
        self.ctx.tasks.wait().await;
        tracing::info!(left_running, "drained");
        Drained { left_running }
    }
}

impl Drop for RelayHandle {
    fn drop(&mut self) {
        self.ctx.end.cancel();
    }
}
