//! How the way to the database behaves, for one host.

use std::sync::Mutex;
use std::time::Duration;

use crate::chance::Chance;

/// What happens to one statement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    pub before: Duration,
    pub fails_before: bool,
    pub after: Duration,
    pub fails_after: bool,
}

type Rule = Box<dyn FnMut(&'static str) -> Option<Fate> + Send>;

/// Draws the fate of each statement: by a test's own rule, else by chance.
pub struct Weather {
    chance: Chance,
    inner: Mutex<Inner>,
}

struct Inner {
    latency_ms: (u64, u64),
    failure: f64,
    hang: f64,
    is_down: bool,
    rule: Option<Rule>,
}

impl Weather {
    pub fn calm(chance: Chance) -> Self {
        let inner = Inner { latency_ms: (1, 1), failure: 0.0, hang: 0.0, is_down: false, rule: None };
        Self { chance, inner: Mutex::new(inner) }
    }

    /// Statements take a random time, fail before or after their effect with this probability, and
    /// some hang for a while on one side of it.
    pub fn storm(&self, latency_ms: (u64, u64), failure: f64, hang: f64) {
        let mut inner = self.inner.lock().unwrap();
        (inner.latency_ms, inner.failure, inner.hang) = (latency_ms, failure, hang);
    }

    pub fn set_down(&self, is_down: bool) {
        self.inner.lock().unwrap().is_down = is_down;
    }

    /// Asked first, by the statement's name; None leaves it to chance.
    pub fn set_rule(&self, rule: impl FnMut(&'static str) -> Option<Fate> + Send + 'static) {
        self.inner.lock().unwrap().rule = Some(Box::new(rule));
    }

    pub fn clear_rule(&self) {
        self.inner.lock().unwrap().rule = None;
    }

    pub fn draw(&self, statement: &'static str) -> Fate {
        let mut inner = self.inner.lock().unwrap();
        if inner.is_down {
            return Fate { before: Duration::from_millis(1), fails_before: true, ..Fate::default() };
        }
        if let Some(fate) = inner.rule.as_mut().and_then(|rule| rule(statement)) {
            return fate;
        }
        let (low, high) = inner.latency_ms;
        let mut fate = Fate {
            before: self.chance.millis(low, high),
            fails_before: false,
            after: self.chance.millis(0, high),
            fails_after: false,
        };
        if self.chance.happens(inner.failure) {
            if self.chance.happens(0.5) { fate.fails_before = true } else { fate.fails_after = true }
        }
        if self.chance.happens(inner.hang) {
            // Longer than the margin of trust, or longer than the limit of a statement.
            let long = match self.chance.happens(0.7) {
                true => self.chance.millis(200, 480),
                false => Duration::from_secs(10),
            };
            if self.chance.happens(0.5) { fate.before = long } else { fate.after = long }
        }
        fate
    }
}
