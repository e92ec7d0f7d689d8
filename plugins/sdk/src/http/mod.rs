//! Requests through the host: bounded in time, and with what their failures mean for the delivery.
//!
//! The host does TLS, keeps connections, injects the operator's header secrets, and lets a plugin reach
//! only the origins its config grants. Redirects are never followed.

mod error;
mod request;
mod response;
pub mod retry_after;

use std::time::Duration;

pub use error::{Error, Fault};
pub use request::Request;
pub use response::Response;

/// How long a request may take: what the operator set, but never so long that the host would end the
/// call first, for then nobody could say what happened.
pub fn request_timeout(setting: Option<Duration>, budget: Duration) -> Duration {
    let margin = (budget / 20).clamp(MARGIN_MIN, MARGIN_MAX).min(budget / 2);
    let most = budget - margin;
    setting.map_or(most, |setting| setting.min(most))
}

const MARGIN_MIN: Duration = Duration::from_millis(100);
const MARGIN_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_ends_before_the_calls_budget_does() {
        let ms = Duration::from_millis;
        for (setting, budget, expected) in [
            (None, ms(10_000), ms(9_500)),
            (Some(ms(3_000)), ms(10_000), ms(3_000)),
            (Some(ms(60_000)), ms(10_000), ms(9_500)),
            (None, ms(60_000), ms(59_000)),
            (None, ms(1_000), ms(900)),
            (None, ms(100), ms(50)),
            (None, ms(0), ms(0)),
        ] {
            assert_eq!(request_timeout(setting, budget), expected, "{setting:?} {budget:?}");
        }
    }
}
