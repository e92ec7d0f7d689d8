//! The claim token, the fence, and how long a process may believe its own lease.

use std::time::Duration;

/// Random for each claim and never guessable: whoever holds it, holds the attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimToken(pub [u8; 16]);

impl std::fmt::Debug for ClaimToken {
    // A token is a credential for one attempt; four bytes tell two apart in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "ClaimToken({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// Grows with every claim of a delivery and is passed to the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// Whether the database holds a lease at `now`: at `lease_until = now` it is expired.
pub fn is_held(lease_until: Option<super::Timestamp>, now: super::Timestamp) -> bool {
    lease_until.is_some_and(|until| until > now)
}

/// How long this process believes its own lease, in time since boot (CLOCK_BOOTTIME, which counts
/// through a suspended machine). Trust starts when the request was *sent*: counted from the reply,
/// a slow reply would stretch the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustWindow {
    ends_at: Duration,
}

impl TrustWindow {
    pub fn new(sent_at: Duration, lease: Duration, margin: Duration) -> Self {
        Self { ends_at: (sent_at + lease).saturating_sub(margin) }
    }

    pub fn holds_at(&self, now: Duration) -> bool {
        now < self.ends_at
    }

    /// What is left of the trust at `now`; zero once it ended.
    pub fn left_at(&self, now: Duration) -> Duration {
        self.ends_at.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Timestamp;
    use super::*;

    #[test]
    fn a_lease_is_held_until_its_end_and_not_at_it() {
        let until = Some(Timestamp::from_secs(120));
        assert!(is_held(until, Timestamp::from_secs(119)));
        assert!(!is_held(until, Timestamp::from_secs(120)));
        assert!(!is_held(None, Timestamp::from_secs(0)));
    }

    #[test]
    fn trust_counts_from_the_sending_and_ends_a_margin_early() {
        let secs = Duration::from_secs;
        let trust = TrustWindow::new(secs(100), secs(30), secs(2));
        assert!(trust.holds_at(secs(127)));
        assert!(!trust.holds_at(secs(128)));
        assert_eq!(trust.left_at(secs(120)), secs(8));
        assert_eq!(trust.left_at(secs(500)), Duration::ZERO);
    }
}
