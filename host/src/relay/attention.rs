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
    /// How many signs each lane had when last judged, and whether something was due.
    judged: BTreeMap<DestinationId, (u64, bool)>,
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
        }
        if ctx.clock.since_boot() < self.looks_until {
            ctx.questions.ask_after(LOOK, &*ctx.clock);
        }
    }

    fn busy_lanes(&mut self, lanes: &[Arc<LaneState>], now: Duration) -> Vec<DestinationId> {
        let passed = now.saturating_sub(self.judged_at);
        if passed < WINDOW {
            return Vec::new();
        }
        self.judged_at = now;
        let before = std::mem::take(&mut self.judged);
        let signs_min = SIGNS_OF_A_BUSY_LANE * passed.div_duration_f64(WINDOW);
        let is_recent = passed < WINDOW * 2;
        let mut busy = Vec::new();
        // A lane that can't run here claims nothing however often this host looks.
        for lane in lanes.iter().filter(|lane| lane.problem().is_none()) {
            let (signs, has_due) = (lane.signs(), lane.has_due());
            if let Some((signs_before, had_due)) = before.get(&lane.id) {
                // One event that was just found makes no busy lane; a backlog is due twice in a row.
                let is_backlog = has_due && *had_due && is_recent;
                if is_backlog || signs.saturating_sub(*signs_before) as f64 >= signs_min {
                    busy.push(lane.id);
                }
            }
            self.judged.insert(lane.id, (signs, has_due));
        }
        busy
    }
}
