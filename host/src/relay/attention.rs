//! Looking so often that producers need not call.
//!
//! On PostgreSQL a notification in each producer's transaction makes their commits wait for each
//! other. A busy host gains nothing by being called: it looks again soon anyway. So it promises to
//! look, for a moment and for its busy lanes, and producers of these stay silent until the promise
//! runs out by itself. An idle host promises nothing and is called at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::lanes::LaneState;
use crate::domain::DestinationId;

/// How often it is judged which lanes are busy.
const WINDOW: Duration = Duration::from_millis(250);

/// A lane is busy when this many looks within a window found something due. Below that, being called
/// costs producers less than looking costs the database.
const SIGNS_OF_A_BUSY_LANE: f64 = 10.0;

/// Two windows, so that a lane that stays busy renews its promise before it runs out.
const PROMISE: Duration = Duration::from_millis(500);

/// Looking goes on so much longer, for what was written under the promise and is not yet committed.
const GRACE: Duration = Duration::from_millis(100);

/// Between two looks under a promise.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct Attention {
    judged_at: Duration,
    signs: BTreeMap<DestinationId, u64>,
    promised: Vec<DestinationId>,
    looks_until: Duration,
}

impl Attention {
    /// Called after each question. Promises where it pays, and asks again in time for what was
    /// promised.
    pub async fn pay(&mut self, ctx: &Context) {
        let busy = self.busy_lanes(&ctx.lanes(), ctx.clock.since_boot());
        // Failing costs nothing but the silence: producers go on calling.
        if !busy.is_empty()
            && let Ok(true) = ctx.ask("attend", ctx.store.attend(&busy, PROMISE)).await
        {
            // From the answer: the database's promise began before it.
            self.looks_until = ctx.clock.since_boot() + PROMISE + GRACE;
            self.promised = busy;
        }
        if ctx.clock.since_boot() < self.looks_until {
            // What is known to be due is claimed without a look, and asked for when it is used up.
            let is_known = |id: &DestinationId| ctx.lane(*id).is_none_or(|lane| lane.has_due());
            let is_all_known = self.promised.iter().all(is_known);
            ctx.questions.ask_after(if is_all_known { WINDOW } else { LOOK }, &*ctx.clock);
        }
    }

    fn busy_lanes(&mut self, lanes: &[Arc<LaneState>], now: Duration) -> Vec<DestinationId> {
        let passed = now.saturating_sub(self.judged_at);
        if passed < WINDOW {
            return Vec::new();
        }
        self.judged_at = now;
        let before = std::mem::take(&mut self.signs);
        let signs_min = SIGNS_OF_A_BUSY_LANE * passed.div_duration_f64(WINDOW);
        let mut busy = Vec::new();
        // A lane that can't run here claims nothing however often this host looks.
        for lane in lanes.iter().filter(|lane| lane.problem().is_none()) {
            let signs = lane.signs();
            let news = before.get(&lane.id).map_or(0, |before| signs.saturating_sub(*before));
            if lane.has_due() || news as f64 >= signs_min {
                busy.push(lane.id);
            }
            self.signs.insert(lane.id, signs);
        }
        busy
    }
}
