//! Metadata: which brokers there are, and which of them leads each partition of a topic.

use std::collections::BTreeMap;

use super::wire::{Reader, Writer};

/// No broker leads the partition now.
const NO_LEADER: i32 = -1;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `host:port` of each broker.
    pub brokers: BTreeMap<i32, String>,
    pub topics: Vec<Topic>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Topic {
    pub name: String,
    /// Kafka's error code.
    pub error: i16,
    /// The leader of each partition, in their order.
    pub leaders: Vec<Option<i32>>,
}

/// Asks for these topics. Where the broker lets topics come to be by being asked for, `create` does.
pub fn request(topics: &[&str], create: bool) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.count(topics.len());
    topics.iter().for_each(|topic| writer.text(topic));
    writer.bool(create);
    writer.done()
}

pub fn parse(answer: &[u8]) -> Result<Metadata, String> {
    let mut reader = Reader::of(answer);
    let _throttle_ms = reader.i32()?;
    let brokers = reader.array(|reader| {
        let (id, host, port) = (reader.i32()?, reader.text()?, reader.i32()?);
        let _rack = reader.maybe_text()?;
        // An IPv6 address is written in brackets before a port.
        Ok((id, if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }))
    })?;
    let (_cluster, _controller) = (reader.maybe_text()?, reader.i32()?);
    let topics = reader.array(topic)?;
    Ok(Metadata { brokers: brokers.into_iter().collect(), topics })
}

fn topic(reader: &mut Reader) -> Result<Topic, String> {
    let (error, name, _internal) = (reader.i16()?, reader.text()?, reader.bool()?);
    let mut partitions = reader.array(|reader| {
        let (_error, index, leader) = (reader.i16()?, reader.i32()?, reader.i32()?);
        let _leader_epoch = reader.i32()?;
        let (_replicas, _in_sync) = (reader.array(Reader::i32)?, reader.array(Reader::i32)?);
        let _offline = reader.array(Reader::i32)?;
        Ok((index, leader))
    })?;
    partitions.sort_unstable();
    if !partitions.iter().map(|(index, _)| *index).eq(0..partitions.len() as i32) {
        return Err(format!("the partitions of {name} are not numbered from 0"));
    }
    let leaders = partitions.into_iter().map(|(_, leader)| (leader != NO_LEADER).then_some(leader)).collect();
    Ok(Topic { name, error, leaders })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What a broker says of a cluster whose topics have partitions with these leaders.
    pub fn answer(brokers: &[(i32, &str, i32)], topics: &[(&str, i16, &[i32])]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.i32(0);
        writer.count(brokers.len());
        for (id, host, port) in brokers {
            writer.i32(*id);
            writer.text(host);
            writer.i32(*port);
            writer.no_text();
        }
        writer.text("cluster");
        writer.i32(1);
        writer.count(topics.len());
        for (name, error, leaders) in topics {
            writer.i16(*error);
            writer.text(name);
            writer.bool(false);
            writer.count(leaders.len());
            for (index, leader) in leaders.iter().enumerate().rev() {
                writer.i16(if *leader == NO_LEADER { 5 } else { 0 });
                writer.i32(index as i32);
                writer.i32(*leader);
                writer.i32(0);
                (0..3).for_each(|_| writer.count(0));
            }
        }
        writer.done()
    }

    #[test]
    fn leaders_are_known_by_partition_whatever_order_they_are_told_in() {
        let answer =
            answer(&[(1, "a", 9092), (2, "::1", 9093)], &[("orders", 0, &[2, -1, 1]), ("none", 3, &[])]);
        let metadata = parse(&answer).unwrap();
        assert_eq!(metadata.brokers, [(1, "a:9092".into()), (2, "[::1]:9093".into())].into());
        assert_eq!(
            metadata.topics,
            [
                Topic { name: "orders".into(), error: 0, leaders: vec![Some(2), None, Some(1)] },
                Topic { name: "none".into(), error: 3, leaders: vec![] }
            ]
        );
        (0..answer.len()).for_each(|end| assert!(parse(&answer[..end]).is_err(), "{end}"));
    }

    #[test]
    fn topics_are_asked_for_by_name() {
        assert_eq!(request(&["ab"], true), b"\x00\x00\x00\x01\x00\x02ab\x01");
        assert_eq!(request(&[], false), b"\x00\x00\x00\x00\x00");
    }
}
