//! Kafka's wire protocol (<https://kafka.apache.org/protocol>), as much of it as a producer needs, without
//! any I/O. Each request has one fixed version, the newest without "flexible" fields that Kafka 2.4 to 4.x
//! all understand.

pub mod batch;
pub mod compression;
pub mod metadata;
pub mod produce;
pub mod producer_id;
pub mod sasl;
pub mod versions;
pub mod wire;

use wire::Writer;

/// Larger answers are no answers to what we ask, and would not leave the plugin enough of the 64 MiB it may have. The
/// longest are about topics: this much tells of some 100,000 partitions with three replicas each, a third of what one
/// cluster may have, and we ask for those topics only that a batch goes to.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The first byte of a TLS alert record, where Kafka has the length of an answer.
const TLS_ALERT: u8 = 21;

/// A kind of request, by Kafka's number for it, in the one version that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    pub name: &'static str,
    pub key: i16,
    pub version: i16,
}

pub const PRODUCE: Api = Api { name: "Produce", key: 0, version: 8 };
pub const METADATA: Api = Api { name: "Metadata", key: 3, version: 7 };
pub const SASL_HANDSHAKE: Api = Api { name: "SaslHandshake", key: 17, version: 1 };
pub const API_VERSIONS: Api = Api { name: "ApiVersions", key: 18, version: 0 };
pub const INIT_PRODUCER_ID: Api = Api { name: "InitProducerId", key: 22, version: 1 };
pub const SASL_AUTHENTICATE: Api = Api { name: "SaslAuthenticate", key: 36, version: 1 };

/// A whole request: its length, the header in version 1, and the body.
pub fn request(api: Api, correlation: i32, client_id: &str, body: &[u8]) -> Vec<u8> {
    let mut header = Writer::default();
    header.i16(api.key);
    header.i16(api.version);
    header.i32(correlation);
    header.text(client_id);
    let header = header.done();
    let length = i32::try_from(header.len() + body.len()).unwrap_or(i32::MAX);
    [&length.to_be_bytes(), header.as_slice(), body].concat()
}

/// An answer: the number of its request, and its body.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub correlation: i32,
    pub body: Vec<u8>,
}

/// The next whole answer among what was received, and its length.
pub fn parse(bytes: &[u8]) -> Result<Option<(usize, Frame)>, String> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    if length[0] == TLS_ALERT {
        return Err("the broker speaks TLS on this port; add  tls = true  to the endpoint".to_owned());
    }
    let length = usize::try_from(i32::from_be_bytes(*length)).ok().filter(|length| *length >= 4);
    let length = length
        .filter(|length| *length <= ANSWER_BYTES_MAX)
        .ok_or_else(|| format!("it begins with {:?}, which is no length of Kafka's", &bytes[..4]))?;
    let Some(answer) = bytes.get(4..4 + length) else { return Ok(None) };
    let (correlation, body) = answer.split_first_chunk::<4>().expect("it has four bytes at least");
    let frame = Frame { correlation: i32::from_be_bytes(*correlation), body: body.to_vec() };
    Ok(Some((4 + length, frame)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_its_length_its_kind_its_number_and_who_asks() {
        let request = request(METADATA, 7, "ab", b"xyz");
        assert_eq!(request, b"\x00\x00\x00\x0f\x00\x03\x00\x07\x00\x00\x00\x07\x00\x02abxyz");
    }

    #[test]
    fn an_answer_is_taken_once_it_is_whole() {
        let answer = b"\x00\x00\x00\x06\x00\x00\x00\x09okrest";
        for end in 0..10 {
            assert_eq!(parse(&answer[..end]), Ok(None), "{end}");
        }
        assert_eq!(parse(answer), Ok(Some((10, Frame { correlation: 9, body: b"ok".to_vec() }))));
    }

    #[test]
    fn what_is_not_kafka_is_told() {
        let alert = parse(b"\x15\x03\x03\x00\x02\x02\x50").unwrap_err();
        assert!(alert.contains("tls = true"), "{alert}");
        assert!(parse(b"HTTP/1.1 400").unwrap_err().contains("no length"));
        assert!(parse(b"\x00\x00\x00\x03abc").is_err());
        assert_eq!(parse(b"\x00\x40\x00\x00"), Ok(None));
        assert!(parse(b"\x00\x40\x00\x01").is_err(), "it is not waited for");
        assert!(parse(b"\xff\xff\xff\xffabc").is_err());
    }
}
