//! A plugin that does what its script says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use outhaul::domain::EventSeq;
use outhaul::domain::{Detail, HostFailure, Outcome, Receipt};
use outhaul::plugin::{BatchLimits, Call, Deliver};
use tokio::sync::Semaphore;

use crate::checks::{DeliveryId, Seen};
use crate::world::World;

/// What one call does.
#[derive(Clone, Debug)]
pub struct Act {
    pub takes: Takes,
    pub effect: Effect,
    pub outcome: Outcome,
}

#[derive(Clone, Debug)]
pub enum Takes {
    Time(Duration),
    /// Until the test adds a permit.
    Permit(Arc<Semaphore>),
    /// Never returns.
    Forever,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    AtStart,
    AtEnd,
}

impl Act {
    pub fn deliver(millis: u64) -> Self {
        Self {
            takes: Takes::Time(Duration::from_millis(millis)),
            effect: Effect::AtEnd,
            outcome: Outcome::Delivered(Receipt::default()),
        }
    }

    pub fn fail(outcome: Outcome) -> Self {
        Self { takes: Takes::Time(Duration::from_millis(1)), effect: Effect::None, outcome }
    }

    pub fn hang() -> Self {
        Self { takes: Takes::Forever, ..Self::deliver(0) }
    }

    pub fn deliver_when_permitted(permits: &Arc<Semaphore>) -> Self {
        Self { takes: Takes::Permit(permits.clone()), ..Self::deliver(0) }
    }
}

pub fn detail(code: &str) -> Detail {
    Detail::new(code, "as the script says")
}

pub fn retry() -> Outcome {
    Outcome::Retry { detail: detail("retry"), after: None }
}

pub fn unavailable() -> Outcome {
    Outcome::Unavailable { detail: detail("down"), after: None }
}

pub fn trap() -> Outcome {
    Outcome::Host(HostFailure::Trap, detail("trap"))
}

pub type Script = Arc<Mutex<dyn FnMut(&Call) -> Act + Send>>;

pub fn script(act: impl FnMut(&Call) -> Act + Send + 'static) -> Script {
    Arc::new(Mutex::new(act))
}

/// How a lane's plugin takes batches.
#[derive(Clone, Default)]
pub struct Batches {
    /// None: it does not.
    pub limits: Option<BatchLimits>,
    /// What comes of a batch as a whole; none, and each member ends as the script says.
    pub end: Option<BatchScript>,
    /// The batches it was given.
    pub seen: Arc<Mutex<Vec<Vec<EventSeq>>>>,
}

pub type BatchScript = Arc<dyn Fn(&[Call]) -> Option<Outcome> + Send + Sync>;

pub struct ScriptedPlugin {
    pub world: Arc<World>,
    pub host: String,
    pub lane: usize,
    pub script: Script,
    pub batches: Batches,
    /// Why it never loaded, if it did not.
    pub unready: Option<String>,
    /// Why `configure` refused the settings when it last ran, if it did.
    pub refused: Mutex<Option<String>>,
}

#[async_trait]
impl Deliver for ScriptedPlugin {
    async fn deliver(&self, call: Call) -> Outcome {
        let id = (self.world.lane_id(self.lane), call.event.seq);
        self.see(id, &call, |watch, seen| watch.call_began(seen));
        let running = Running { plugin: self, id, how: "dropped" };
        let act = (self.script.lock().unwrap())(&call);
        if act.effect == Effect::AtStart {
            self.see(id, &call, |watch, seen| watch.took_effect(seen));
        }
        match act.takes {
            Takes::Time(time) => tokio::time::sleep(time).await,
            Takes::Permit(permits) => permits.acquire().await.unwrap().forget(),
            Takes::Forever => std::future::pending().await,
        }
        if act.effect == Effect::AtEnd {
            self.see(id, &call, |watch, seen| watch.took_effect(seen));
        }
        running.end(act.outcome.kind());
        if let Outcome::Host(HostFailure::Configure, detail) = &act.outcome {
            *self.refused.lock().unwrap() = Some(detail.message.clone());
        }
        act.outcome
    }

    fn batch_limits(&self) -> Option<BatchLimits> {
        self.batches.limits
    }

    async fn deliver_batch(&self, calls: Vec<Call>) -> Vec<Outcome> {
        let count = calls.len();
        self.batches.seen.lock().unwrap().push(calls.iter().map(|call| call.event.seq).collect());
        let failed = self.batches.end.as_ref().and_then(|end| end(&calls));
        let outcomes = join_all(calls.into_iter().map(|call| self.deliver(call))).await;
        failed.map_or(outcomes, |failed| vec![failed; count])
    }

    fn component_digest(&self) -> &str {
        "scripted"
    }

    fn unready(&self) -> Option<String> {
        self.unready.clone().or_else(|| self.refused.lock().unwrap().clone())
    }

    fn try_anew(&self) {
        *self.refused.lock().unwrap() = None;
    }
}

impl ScriptedPlugin {
    fn see(&self, id: DeliveryId, call: &Call, tell: impl FnOnce(&crate::checks::Watch, &Seen)) {
        let rows = self.world.model.rows();
        let seen = Seen { host: &self.host, id, call, now: self.world.now(), rows: &rows };
        tell(&self.world.watch, &seen);
    }
}

/// Sees to it that a dropped call is seen to end.
struct Running<'a> {
    plugin: &'a ScriptedPlugin,
    id: DeliveryId,
    how: &'static str,
}

impl Running<'_> {
    fn end(mut self, how: &'static str) {
        self.how = how;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let ScriptedPlugin { world, host, .. } = self.plugin;
        world.watch.call_ended(host, self.id, self.how, world.now());
    }
}
