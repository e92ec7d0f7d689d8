//! ApiVersions: what a broker understands.

use super::wire::Reader;
use super::{Api, INIT_PRODUCER_ID, METADATA, PRODUCE};

/// Whether the broker understands what a producer will ask of it.
pub fn check(answer: &[u8]) -> Result<(), String> {
    let mut reader = Reader::of(answer);
    let error = reader.i16()?;
    let ranges = reader.array(|reader| Ok((reader.i16()?, reader.i16()?, reader.i16()?)))?;
    if error != 0 {
        return Err(format!("the broker does not say what it understands (error {error})"));
    }
    [PRODUCE, METADATA, INIT_PRODUCER_ID].into_iter().try_for_each(|api| check_one(api, &ranges))
}

fn check_one(api: Api, ranges: &[(i16, i16, i16)]) -> Result<(), String> {
    let Api { name, key, version } = api;
    match ranges.iter().find(|range| range.0 == key) {
        Some(&(_, least, most)) if (least..=most).contains(&version) => Ok(()),
        Some((_, least, most)) => Err(format!(
            "the broker understands {name} in the versions {least} to {most}, and this plugin speaks {version}; it \
             needs Kafka 2.4 or newer"
        )),
        None => Err(format!("the broker does not understand {name}")),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::protocol::wire::Writer;

    /// What a broker says that understands these.
    pub fn answer(ranges: &[(i16, i16, i16)]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.i16(0);
        writer.count(ranges.len());
        for (key, least, most) in ranges {
            [key, least, most].into_iter().for_each(|value| writer.i16(*value));
        }
        writer.done()
    }

    /// As Kafka 4.1 says.
    pub fn modern() -> Vec<u8> {
        answer(&[(0, 0, 13), (3, 0, 13), (22, 0, 6)])
    }

    #[test]
    fn a_broker_that_is_too_old_is_told_by_what_it_lacks() {
        assert_eq!(check(&modern()), Ok(()));
        let old = check(&answer(&[(0, 0, 7), (3, 0, 13), (22, 0, 6)])).unwrap_err();
        assert!(old.contains("Produce in the versions 0 to 7") && old.contains("Kafka 2.4"), "{old}");
        let other = check(&answer(&[(0, 0, 9), (3, 0, 13)])).unwrap_err();
        assert!(other.contains("InitProducerId"), "{other}");
        assert!(check(b"\x00\x23\x00\x00\x00\x00").is_err());
    }
}
