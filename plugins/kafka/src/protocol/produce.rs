//! Produce: batches of records for partitions that one broker leads.

use std::collections::BTreeMap;

use super::wire::{Reader, Writer};

/// Confirmed once all in-sync replicas have it.
const ACKS_ALL: i16 = -1;

/// A batch on its way: topic, partition, and the bytes of the batch.
pub type Part<'a> = (&'a str, i32, &'a [u8]);

pub fn request(parts: &[Part], timeout_ms: i32) -> Vec<u8> {
    let mut topics = BTreeMap::<&str, Vec<(i32, &[u8])>>::new();
    parts
        .iter()
        .for_each(|(topic, partition, batch)| topics.entry(topic).or_default().push((*partition, batch)));
    let mut writer = Writer::default();
    // No transaction.
    writer.no_text();
    writer.i16(ACKS_ALL);
    writer.i32(timeout_ms);
    writer.count(topics.len());
    for (topic, partitions) in topics {
        writer.text(topic);
        writer.count(partitions.len());
        for (partition, batch) in partitions {
            writer.i32(partition);
            writer.bytes(batch);
        }
    }
    writer.done()
}

#[derive(Debug, PartialEq, Eq)]
pub struct Produced {
    pub partitions: Vec<Answer>,
    /// For so long the broker reads nothing more from this connection.
    pub throttle_ms: i32,
}

/// What became of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub topic: String,
    pub partition: i32,
    pub error: i16,
    /// Of the first record; negative where the broker does not know it.
    pub base_offset: i64,
    /// Records at fault, by their place in the batch, with the broker's words.
    pub at_fault: Vec<(i32, String)>,
    pub text: String,
}

pub fn parse(answer: &[u8]) -> Result<Produced, String> {
    let mut reader = Reader::of(answer);
    let topics = reader.array(|reader| {
        let topic = reader.text()?;
        reader.array(|reader| partition(reader, &topic))
    })?;
    Ok(Produced { partitions: topics.into_iter().flatten().collect(), throttle_ms: reader.i32()? })
}

fn partition(reader: &mut Reader, topic: &str) -> Result<Answer, String> {
    let (partition, error, base_offset) = (reader.i32()?, reader.i16()?, reader.i64()?);
    let (_append_time, _log_start) = (reader.i64()?, reader.i64()?);
    let at_fault = reader.array(|reader| Ok((reader.i32()?, reader.text()?)))?;
    Ok(Answer { topic: topic.to_owned(), partition, error, base_offset, at_fault, text: reader.text()? })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn answer(answers: &[Answer], throttle_ms: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.count(answers.len());
        for answer in answers {
            writer.text(&answer.topic);
            writer.count(1);
            writer.i32(answer.partition);
            writer.i16(answer.error);
            writer.i64(answer.base_offset);
            writer.i64(-1);
            writer.i64(0);
            writer.count(answer.at_fault.len());
            for (place, text) in &answer.at_fault {
                writer.i32(*place);
                writer.text(text);
            }
            writer.text(&answer.text);
        }
        writer.i32(throttle_ms);
        writer.done()
    }

    pub fn said(partition: i32, error: i16, base_offset: i64) -> Answer {
        let (topic, text) = ("orders".to_owned(), String::new());
        Answer { topic, partition, error, base_offset, at_fault: Vec::new(), text }
    }

    #[test]
    fn batches_stand_under_their_topic() {
        let parts: [Part; 3] = [("b", 1, b"x"), ("a", 0, b"y"), ("b", 0, b"z")];
        let mut expected = b"\xff\xff\xff\xff\x00\x00\x03\xe8\x00\x00\x00\x02".to_vec();
        expected.extend(b"\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01y");
        expected.extend(
            b"\x00\x01b\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01x\x00\x00\x00\x00\x00\x00\x00\x01z",
        );
        assert_eq!(request(&parts, 1_000), expected);
    }

    #[test]
    fn each_partition_has_its_own_answer() {
        let faulty = Answer { at_fault: vec![(2, "no key".into())], text: "bad".into(), ..said(1, 87, -1) };
        let answers = [said(0, 0, 41), faulty];
        let bytes = answer(&answers, 7);
        assert_eq!(parse(&bytes), Ok(Produced { partitions: answers.to_vec(), throttle_ms: 7 }));
        (0..bytes.len()).for_each(|end| assert!(parse(&bytes[..end]).is_err(), "{end}"));
    }
}
