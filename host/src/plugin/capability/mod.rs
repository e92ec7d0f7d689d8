//! What a plugin can reach, one module a capability: its grant check and its host side.

pub mod denials;
pub mod dial;
pub mod http;
pub mod log;
pub mod net;
pub mod nothing;
pub mod secrets;
pub mod sockets;
pub mod sql;

use std::time::Duration;

/// Until when (since boot) a call may wait for what comes before anything of it has left: so much earlier
/// than its end that the plugin can still say what it waited for.
pub fn waits_until(call_ends_at: Duration, now: Duration) -> Duration {
    let left = call_ends_at.saturating_sub(now);
    now + left - left / 8
}
