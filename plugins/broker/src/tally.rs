//! The outcomes of a batch whose messages are all sent before the first is confirmed.

use outhaul_plugin::net::Error;
use outhaul_plugin::{Failure, Outcome};

/// What comes of a batch.
#[derive(Debug)]
pub struct Published {
    /// One for each event, in order.
    pub outcomes: Vec<Outcome>,
    /// The session can't be used again.
    pub is_broken: bool,
}

/// Which events of a batch have their outcome, and from which place in the stream on each was sent.
#[derive(Debug)]
pub struct Tally {
    places: Vec<Place>,
}

#[derive(Clone, Debug, Default)]
struct Place {
    outcome: Option<Outcome>,
    begin: Option<u64>,
}

impl Tally {
    pub fn of(events: usize) -> Self {
        Self { places: vec![Place::default(); events] }
    }

    /// The event's message is put in line at this place of the stream.
    pub fn begin(&mut self, event: usize, position: u64) {
        self.places[event].begin = Some(position);
    }

    /// The first word counts.
    pub fn settle(&mut self, event: usize, outcome: Outcome) {
        self.places[event].outcome.get_or_insert(outcome);
    }

    /// Whether the event was put in line and has no outcome yet.
    pub fn is_open(&self, event: usize) -> bool {
        self.places.get(event).is_some_and(|place| place.outcome.is_none() && place.begin.is_some())
    }

    /// Events that were put in line and have no outcome yet.
    pub fn open(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.places.len()).filter(|&event| self.is_open(event))
    }

    /// What looked like a success is none yet.
    pub fn revoke(&mut self, failure: &Failure) {
        let succeeded = self.places.iter_mut().filter(|place| matches!(place.outcome, Some(Ok(_))));
        succeeded.for_each(|place| place.outcome = Some(Err(failure.clone())));
    }

    /// Whether an event failed so.
    pub fn has(&self, is_so: impl Fn(&Failure) -> bool) -> bool {
        self.places.iter().any(|place| matches!(&place.outcome, Some(Err(failure)) if is_so(failure)))
    }

    /// All have an outcome.
    pub fn done(self) -> Published {
        let outcomes = self.places.into_iter().map(|place| {
            let missing = || Failure::other("no-outcome", "the plugin lost track of this event");
            place.outcome.unwrap_or_else(|| Err(missing().maybe_applied()))
        });
        Published { outcomes: outcomes.collect(), is_broken: false }
    }

    /// The session ended before all had their outcome, when `sent` bytes of the stream may have left.
    /// What had begun may have arrived; the rest has certainly not.
    pub fn cut(mut self, error: Error, sent: u64) -> Published {
        for place in self.places.iter_mut().filter(|place| place.outcome.is_none()) {
            let failure = Failure::from(error.clone());
            let may_have_left = place.begin.is_some_and(|begin| begin < sent);
            place.outcome = Some(Err(if may_have_left { failure.maybe_applied() } else { failure }));
        }
        Published { is_broken: true, ..self.done() }
    }
}

#[cfg(test)]
mod tests {
    use outhaul_plugin::{Failure, Receipt};

    use super::*;

    #[test]
    fn only_what_may_have_left_is_uncertain_after_a_cut() {
        let mut tally = Tally::of(4);
        tally.begin(0, 0);
        tally.begin(1, 10);
        tally.begin(2, 20);
        tally.settle(0, Ok(Receipt::delivered()));
        tally.settle(0, Err(Failure::other("late", "a second word")));
        assert_eq!(tally.open().collect::<Vec<_>>(), [1, 2]);
        let published = tally.cut(Error::Closed, 20);
        let lost = Failure::from(Error::Closed);
        let expected =
            [Ok(Receipt::delivered()), Err(lost.clone().maybe_applied()), Err(lost.clone()), Err(lost)];
        assert_eq!((published.outcomes.as_slice(), published.is_broken), (&expected[..], true));
    }
}
