//! A producer's numbers: one for itself, and one for each record of a partition, by which a broker knows
//! what it has stored already.

use std::collections::BTreeMap;

use crate::protocol::producer_id::ProducerId;

pub struct Numbers {
    pub producer: ProducerId,
    /// Of the next record of a topic's partition.
    next: BTreeMap<(String, i32), i32>,
}

impl Numbers {
    pub fn of(producer: ProducerId) -> Self {
        Self { producer, next: BTreeMap::new() }
    }

    pub fn next(&self, topic: &str, partition: i32) -> i32 {
        self.next.get(&(topic.to_owned(), partition)).copied().unwrap_or(0)
    }

    /// So many records were stored under the numbers from `first` on. After the largest comes 0.
    pub fn stored(&mut self, topic: &str, partition: i32, first: i32, count: usize) {
        let next = (i64::from(first) + count as i64) % (i64::from(i32::MAX) + 1);
        self.next.insert((topic.to_owned(), partition), i32::try_from(next).expect("it is a remainder"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_by_partition_and_begin_again_after_the_largest() {
        let mut numbers = Numbers::of(ProducerId { id: 1, epoch: 0 });
        numbers.stored("orders", 0, 0, 5);
        assert_eq!(
            (numbers.next("orders", 0), numbers.next("orders", 1), numbers.next("other", 0)),
            (5, 0, 0)
        );
        numbers.stored("orders", 0, i32::MAX - 1, 2);
        assert_eq!(numbers.next("orders", 0), 0);
        numbers.stored("orders", 0, i32::MAX, 3);
        assert_eq!(numbers.next("orders", 0), 2);
    }
}
