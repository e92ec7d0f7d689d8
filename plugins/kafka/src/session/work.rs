//! The events of one call, by the partition they go to.

use std::collections::{BTreeMap, VecDeque};

use broker::Published;
use outhaul_plugin::{Failure, Outcome};

use crate::answer;
use crate::protocol::batch::{self, Record};
use crate::protocol::compression::Compression;
use crate::protocol::producer_id::ProducerId;

use super::numbers::Numbers;

/// A batch has no more, so that brokers with the usual limit (1 MiB) take it; a larger record goes alone.
const BATCH_BYTES: usize = 512 << 10;
/// Until leaders have moved, or followers have caught up. Who is not there then, is not there.
const TRIES: u32 = 5;

/// A topic's partition.
pub type Place = (String, i32);

pub struct Work {
    /// Of each event, in order.
    outcomes: Vec<Option<Outcome>>,
    records: Vec<Option<Record>>,
    pub lines: BTreeMap<Place, Line>,
    /// The fate of a batch was left unknown, so that its numbers can't be used again.
    pub has_doubt: bool,
}

/// What goes to one partition, one batch after the other.
pub struct Line {
    waiting: VecDeque<usize>,
    pub batch: Option<Batch>,
    bytes_max: usize,
}

pub struct Batch {
    events: Vec<usize>,
    pub sealed: Option<Sealed>,
    /// That it has had.
    pub tries: u32,
    pub may_be_stored: bool,
    /// Why the last try was none, if there must be another.
    pub again: Option<Failure>,
}

/// As it is sent. While it may be stored, it is sent again as it is.
pub struct Sealed {
    pub bytes: Vec<u8>,
    pub producer: ProducerId,
    first: i32,
}

impl Work {
    pub fn of(events: usize) -> Self {
        Self {
            outcomes: vec![None; events],
            records: vec![None; events],
            lines: BTreeMap::new(),
            has_doubt: false,
        }
    }

    pub fn put(&mut self, event: usize, record: Record, place: Place) {
        self.records[event] = Some(record);
        let line = self.lines.entry(place).or_insert_with(|| Line {
            waiting: VecDeque::new(),
            batch: None,
            bytes_max: BATCH_BYTES,
        });
        line.waiting.push_back(event);
    }

    /// The first word counts.
    pub fn settle(&mut self, event: usize, outcome: Outcome) {
        self.outcomes[event].get_or_insert(outcome);
    }

    pub fn settle_all(&mut self, failure: &Failure) {
        (0..self.outcomes.len()).for_each(|event| self.settle(event, Err(failure.clone())));
    }

    /// Each line with something to send has its batch, with numbers. Returns their places.
    pub fn seal(&mut self, numbers: &Numbers, compression: Compression) -> Vec<Place> {
        let records = &self.records;
        let bytes = |event: usize| records[event].as_ref().map_or(0, Record::bytes);
        for (place, line) in &mut self.lines {
            let batch = match line.batch.take() {
                Some(batch) => batch,
                None => match line.next(bytes) {
                    Some(batch) => batch,
                    None => continue,
                },
            };
            let batch = line.batch.insert(batch);
            if batch.sealed.is_none() {
                let records = batch.events.iter().filter_map(|event| records[*event].as_ref());
                let first = numbers.next(&place.0, place.1);
                let bytes = batch::encode(records, compression, numbers.producer, first);
                batch.sealed = Some(Sealed { bytes, producer: numbers.producer, first });
            }
        }
        self.lines.retain(|_, line| line.batch.is_some());
        self.lines.keys().cloned().collect()
    }

    pub fn batch(&mut self, place: &Place) -> &mut Batch {
        let line = self.lines.get_mut(place).expect("its place was named by seal");
        line.batch.as_mut().expect("seal gave it one")
    }

    /// The first record of the batch has this place in the log, if the broker says.
    pub fn stored(&mut self, place: &Place, numbers: Option<&mut Numbers>, offset: Option<i64>) {
        let Some(batch) = self.take_batch(place) else { return };
        let (topic, partition) = (&place.0, place.1);
        if let (Some(sealed), Some(numbers)) = (batch.sealed, numbers) {
            // Else they are new since it was sealed.
            if sealed.producer == numbers.producer {
                numbers.stored(topic, partition, sealed.first, batch.events.len());
            }
        }
        for (event, nth) in batch.events.into_iter().zip(0..) {
            let offset = offset.map(|offset: i64| offset.saturating_add(nth));
            self.settle(event, Ok(answer::stored(topic, partition, offset)));
        }
    }

    /// The batch has another try, or none.
    pub fn again(&mut self, place: &Place, failure: Failure, may_be_stored: bool) {
        let batch = self.batch(place);
        batch.may_be_stored |= may_be_stored;
        batch.tries += 1;
        if batch.tries >= TRIES {
            self.give_up(place, failure);
            return;
        }
        batch.again = Some(failure);
        if !batch.may_be_stored {
            batch.sealed = None;
        }
    }

    /// Nothing more goes to this partition in this call.
    pub fn give_up(&mut self, place: &Place, failure: Failure) {
        let Some(mut line) = self.lines.remove(place) else { return };
        line.waiting.drain(..).for_each(|event| self.settle(event, Err(failure.clone())));
        let Some(batch) = line.batch else { return };
        self.has_doubt |= batch.may_be_stored;
        let failure = if batch.may_be_stored { failure.maybe_applied() } else { failure };
        batch.events.into_iter().for_each(|event| self.settle(event, Err(failure.clone())));
    }

    pub fn give_up_all(&mut self, failure: &Failure) {
        let places: Vec<Place> = self.lines.keys().cloned().collect();
        places.iter().for_each(|place| self.give_up(place, failure.clone()));
    }

    /// Halves what the line sends at once; what can't be halved is rejected.
    pub fn split(&mut self, place: &Place, rejected: impl FnOnce(usize) -> Outcome) {
        let Some(batch) = self.take_batch(place) else { return };
        let bytes = |event: usize| self.records[event].as_ref().map_or(0, Record::bytes);
        let total: usize = batch.events.iter().map(|event| bytes(*event)).sum();
        match batch.events.as_slice() {
            [event] => self.settle(*event, rejected(total)),
            events => {
                let line = self.lines.get_mut(place).expect("its batch was taken from it");
                line.bytes_max = total / 2;
                line.put_back(events.iter().copied());
            }
        }
    }

    /// Rejects the records at these places of the batch; the others go once more.
    pub fn mend(&mut self, place: &Place, at_fault: &[(i32, String)]) {
        let Some(batch) = self.take_batch(place) else { return };
        let fault = |nth: usize| at_fault.iter().find(|(place, _)| usize::try_from(*place) == Ok(nth));
        let mut left = Vec::new();
        for (nth, event) in batch.events.into_iter().enumerate() {
            match fault(nth) {
                Some((_, text)) => self.settle(event, answer::at_fault(&place.0, text)),
                None => left.push(event),
            }
        }
        self.lines.get_mut(place).expect("its batch was taken from it").put_back(left.into_iter());
    }

    fn take_batch(&mut self, place: &Place) -> Option<Batch> {
        self.lines.get_mut(place).and_then(|line| line.batch.take())
    }

    pub fn done(self, is_broken: bool) -> Published {
        let outcomes = self.outcomes.into_iter().map(|outcome| {
            let missing = || Failure::other("no-outcome", "the plugin lost track of this event");
            outcome.unwrap_or_else(|| Err(missing().maybe_applied()))
        });
        Published { outcomes: outcomes.collect(), is_broken }
    }
}

impl Batch {
    /// Whether it has a record at this place.
    pub fn holds(&self, place: i32) -> bool {
        usize::try_from(place).is_ok_and(|place| place < self.events.len())
    }
}

impl Line {
    /// As many as fit, and one at least.
    fn next(&mut self, bytes: impl Fn(usize) -> usize) -> Option<Batch> {
        let mut events = vec![self.waiting.pop_front()?];
        let mut total = bytes(events[0]);
        while let Some(&event) = self.waiting.front() {
            total += bytes(event);
            if total > self.bytes_max {
                break;
            }
            events.push(event);
            self.waiting.pop_front();
        }
        Some(Batch { events, sealed: None, tries: 0, may_be_stored: false, again: None })
    }

    fn put_back(&mut self, events: impl DoubleEndedIterator<Item = usize>) {
        events.rev().for_each(|event| self.waiting.push_front(event));
    }
}
