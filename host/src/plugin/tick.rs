//! Ticks of idle instances, so that connections they keep stay alive.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::instance::{CallEnd, Instance};
use super::pool::Pool;

/// A plugin that asks for less gets this, and so its first tick comes this long after its start.
pub const MIN: Duration = Duration::from_secs(1);
/// A plugin that asks for more is asked again by then.
pub const MAX: Duration = Duration::from_secs(3600);

/// Ticks what is idle and due, until the pool is gone. Runs on the guests' threads.
pub async fn run(pool: Weak<Pool>) {
    loop {
        let Some(strong) = pool.upgrade() else { return };
        let next = strong.start_due_ticks();
        drop(strong);
        tokio::time::sleep(next).await;
    }
}

impl Pool {
    /// Starts every tick that is due, each with a place of its own, as a call has. Returns when to
    /// look again: an instance made meanwhile is not due before.
    fn start_due_ticks(self: &Arc<Self>) -> Duration {
        let now = self.parts.clock.since_boot();
        while let Some(place) = self.try_place() {
            let Some(instance) = self.take_due(now) else { break };
            let (pool, in_progress) = (self.clone(), self.in_progress());
            tokio::spawn(async move {
                pool.tick(instance, place).await;
                drop(in_progress);
            });
        }
        let idle = self.idle();
        let next = idle.iter().flatten().map(Instance::tick_at).min();
        next.map_or(MIN, |at| at.saturating_sub(now)).clamp(MIN / 20, MIN)
    }

    fn take_due(&self, now: Duration) -> Option<Instance> {
        let mut idle = self.idle();
        let idle = idle.as_mut()?;
        let due = idle.iter().position(|instance| instance.tick_at() <= now)?;
        Some(idle.remove(due))
    }

    async fn tick(&self, mut instance: Instance, place: OwnedSemaphorePermit) {
        let (stats, clock, budget) = (&self.parts.stats, &self.parts.clock, self.aside_budget());
        stats.ticks.add_one();
        let ended = tokio::time::timeout(budget, instance.tick(clock.since_boot() + budget)).await;
        let problem = match ended {
            Ok(CallEnd::Answered(after)) => {
                instance.tick_again_at(clock.since_boot() + after.clamp(MIN, MAX));
                // To the cold end: it was not needed.
                let put = |idle: &mut Vec<Instance>, instance| idle.insert(0, instance);
                if let Some(instance) = self.keep(instance, put) {
                    self.close(instance, Some(place));
                }
                return;
            }
            Ok(CallEnd::Broke(_, message)) => message,
            Err(_) => format!("it took longer than {} ms", budget.as_millis()),
        };
        stats.ticks_failed.add_one();
        let destination = &self.parts.destination;
        tracing::warn!(destination, problem, "a tick failed, and its instance is dropped");
    }
}
