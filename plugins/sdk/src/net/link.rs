//! A session with a broker that outlives the calls, and the wait before it is opened again.

use std::time::{Duration, Instant};

use crate::Failure;

const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Holds a session while it is good. Once one could not be opened, the next try has to wait, longer
/// each time: a lane of many instances must not storm a broker that is coming back.
pub struct Link<S> {
    session: Option<S>,
    failures: u32,
    failed_at: Option<Instant>,
}

impl<S> Default for Link<S> {
    fn default() -> Self {
        Self { session: None, failures: 0, failed_at: None }
    }
}

impl<S> Link<S> {
    /// The session there is, or a new one.
    pub fn session(&mut self, open: impl FnOnce() -> Result<S, Failure>) -> Result<&mut S, Failure> {
        self.session_at(Instant::now(), open)
    }

    fn session_at(
        &mut self,
        now: Instant,
        open: impl FnOnce() -> Result<S, Failure>,
    ) -> Result<&mut S, Failure> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.open(now, open)?,
        };
        Ok(self.session.insert(session))
    }

    fn open(&mut self, now: Instant, open: impl FnOnce() -> Result<S, Failure>) -> Result<S, Failure> {
        if let Some(left) = self.wait_left(now) {
            let message = format!("the last {} tries to reach the broker failed", self.failures);
            return Err(Failure::unavailable("reconnecting", message).after(left));
        }
        let opened = open();
        match &opened {
            Ok(_) => (self.failures, self.failed_at) = (0, None),
            Err(_) => (self.failures, self.failed_at) = (self.failures.saturating_add(1), Some(now)),
        }
        opened
    }

    /// The first failure costs no wait: a broker that was restarted is there at once.
    fn wait_left(&self, now: Instant) -> Option<Duration> {
        let doublings = self.failures.checked_sub(2)?.min(10);
        let wait = (WAIT_MIN * 2_u32.pow(doublings)).min(WAIT_MAX);
        let left = wait.saturating_sub(now.saturating_duration_since(self.failed_at?));
        (!left.is_zero()).then_some(left)
    }

    /// The session, if there is one.
    pub fn current(&mut self) -> Option<&mut S> {
        self.session.as_mut()
    }

    /// Gives up the session: it broke, or the instance ends.
    pub fn drop_session(&mut self) -> Option<S> {
        self.session.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<u8, Failure> {
        Err(Failure::unavailable("unreachable", "nothing listens"))
    }

    #[test]
    fn a_session_is_opened_once_and_again_after_it_was_given_up() {
        let mut link = Link::default();
        assert_eq!(link.session(|| Ok(1)), Ok(&mut 1));
        assert_eq!(link.session(|| Ok(2)), Ok(&mut 1));
        assert_eq!(link.drop_session(), Some(1));
        assert_eq!(link.session(|| Ok(2)), Ok(&mut 2));
    }

    /// How long it says to wait, if it does not dial.
    fn asked(link: &mut Link<u8>, now: Instant) -> Option<Duration> {
        let mut dialled = false;
        let failure = link.session_at(now, || {
            dialled = true;
            refused()
        });
        let Err(Failure::Unavailable(info)) = failure else { panic!("{failure:?}") };
        assert_eq!(dialled, info.code == "unreachable");
        info.after_ms.map(Duration::from_millis)
    }

    #[test]
    fn tries_wait_longer_and_longer_until_one_succeeds() {
        let mut link = Link::default();
        let mut now = Instant::now();
        // The first failure costs no wait.
        assert_eq!((asked(&mut link, now), asked(&mut link, now)), (None, None));
        for expected_ms in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            let wait = asked(&mut link, now).expect("it does not dial before its time");
            assert_eq!(wait, Duration::from_millis(expected_ms));
            now += wait;
            assert_eq!(asked(&mut link, now), None, "its time has come");
        }
        now += WAIT_MAX;
        assert_eq!(link.session_at(now, || Ok(1)), Ok(&mut 1));
        link.drop_session();
        assert_eq!((asked(&mut link, now), asked(&mut link, now)), (None, None), "it begins anew");
    }
}
