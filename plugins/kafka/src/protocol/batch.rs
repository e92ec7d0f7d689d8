//! A batch of records (magic 2), as it stands in a Produce request and in the broker's log.

use super::compression::Compression;
use super::producer_id::ProducerId;
use super::wire::Writer;

const MAGIC: i8 = 2;
/// Of the fields before the records, and of those of them that the length counts.
const OVERHEAD: usize = 61;
const BEFORE_LENGTH: usize = 12;
/// Of the fields that the checksum does not cover.
const BEFORE_CHECKED: usize = 21;
/// The partition leader's epoch is the broker's to write.
const NO_EPOCH: i32 = -1;

/// One record's own bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub headers: Vec<(String, Vec<u8>)>,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
}

impl Record {
    /// About how many bytes it has in a batch; never fewer than it has.
    pub fn bytes(&self) -> usize {
        const NUMBERS: usize = 40;
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 10).sum();
        NUMBERS + self.key.as_ref().map_or(0, Vec::len) + self.value.len() + headers
    }
}

/// The batch of these records, the first of which has this number of the producer's for the partition.
pub fn encode<'a>(
    records: impl IntoIterator<Item = &'a Record>,
    compression: Compression,
    producer: ProducerId,
    sequence: i32,
) -> Vec<u8> {
    let records: Vec<&Record> = records.into_iter().collect();
    let base_ms = records.first().map_or(0, |record| record.timestamp_ms);
    let max_ms = records.iter().map(|record| record.timestamp_ms).max().unwrap_or(base_ms);
    let mut body = Writer::default();
    records.iter().enumerate().for_each(|(place, record)| write_record(&mut body, record, place, base_ms));
    let body = compression.apply(body.done());

    let mut checked = Writer::default();
    checked.i16(compression.bits());
    checked.i32(records.len() as i32 - 1);
    checked.i64(base_ms);
    checked.i64(max_ms);
    checked.i64(producer.id);
    checked.i16(producer.epoch);
    checked.i32(sequence);
    checked.count(records.len());
    checked.raw(&body);
    let checked = checked.done();

    let mut batch = Writer::default();
    batch.i64(0);
    batch.count(checked.len() + BEFORE_CHECKED - BEFORE_LENGTH);
    batch.i32(NO_EPOCH);
    batch.i8(MAGIC);
    batch.i32(crc32c::crc32c(&checked) as i32);
    batch.raw(&checked);
    batch.done()
}

fn write_record(body: &mut Writer, record: &Record, place: usize, base_ms: i64) {
    let mut inside = Writer::default();
    // Attributes, of which there are none.
    inside.i8(0);
    inside.varint(record.timestamp_ms - base_ms);
    inside.varint(place as i64);
    match &record.key {
        Some(key) => inside.varint_bytes(key),
        None => inside.varint(-1),
    }
    inside.varint_bytes(&record.value);
    inside.varint(record.headers.len() as i64);
    for (name, value) in &record.headers {
        inside.varint_bytes(name.as_bytes());
        inside.varint_bytes(value);
    }
    body.varint_bytes(&inside.done());
}

/// How many bytes a batch has besides its records.
pub const fn overhead() -> usize {
    OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::Reader;

    fn record() -> Record {
        Record {
            key: Some(b"k".to_vec()),
            value: b"val".to_vec(),
            headers: vec![("h".into(), b"\xff".to_vec())],
            timestamp_ms: 1_000,
        }
    }

    #[test]
    fn a_batch_has_its_producers_number_and_a_checksum_of_the_rest() {
        let bare = Record { key: None, value: Vec::new(), headers: Vec::new(), timestamp_ms: 999 };
        let records = [record(), bare];
        let batch = encode(&records, Compression::None, ProducerId { id: 5, epoch: 2 }, 7);
        let mut reader = Reader::of(&batch);
        assert_eq!((reader.i64(), reader.i32()), (Ok(0), Ok(batch.len() as i32 - 12)));
        assert_eq!((reader.i32(), reader.bool()), (Ok(-1), Ok(true)));
        assert_eq!(batch[16], 2, "magic");
        let crc = reader.i32().unwrap() as u32;
        assert_eq!(crc, crc32c::crc32c(&batch[21..]));
        assert_eq!((reader.i16(), reader.i32()), (Ok(0), Ok(1)));
        assert_eq!((reader.i64(), reader.i64()), (Ok(1_000), Ok(1_000)));
        assert_eq!((reader.i64(), reader.i16(), reader.i32(), reader.i32()), (Ok(5), Ok(2), Ok(7), Ok(2)));
        let first = b"\x1c\x00\x00\x00\x02k\x06val\x02\x02h\x02\xff";
        let second = b"\x0c\x00\x01\x02\x01\x00\x00";
        assert_eq!(&batch[61..], [&first[..], second].concat());
    }

    #[test]
    fn the_estimate_of_a_record_is_never_too_small() {
        let large = Record { value: vec![1; 100_000], ..record() };
        for record in [Record::default(), record(), large] {
            let batch = encode([&record], Compression::None, ProducerId { id: 1, epoch: 0 }, 0);
            assert!(overhead() + record.bytes() >= batch.len(), "{}", batch.len());
        }
    }

    #[test]
    fn compression_covers_the_records_alone_and_is_named() {
        let records = vec![record(); 50];
        for compression in Compression::ALL {
            let batch = encode(&records, compression, ProducerId { id: 1, epoch: 0 }, 0);
            assert_eq!(i16::from_be_bytes([batch[21], batch[22]]), compression.bits());
            assert_eq!(batch[57..61], 50_i32.to_be_bytes());
        }
    }
}
