//! InitProducerId: the number under which a producer's batches are told from each other.

use super::wire::{Reader, Writer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerId {
    pub id: i64,
    pub epoch: i16,
}

/// For a producer without transactions.
pub fn request() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.no_text();
    // The timeout of transactions, of which there are none.
    writer.i32(i32::MAX);
    writer.done()
}

/// The number, or Kafka's error code.
pub fn parse(answer: &[u8]) -> Result<Result<ProducerId, i16>, String> {
    let mut reader = Reader::of(answer);
    let (_throttle_ms, error) = (reader.i32()?, reader.i16()?);
    let given = ProducerId { id: reader.i64()?, epoch: reader.i16()? };
    Ok(if error == 0 { Ok(given) } else { Err(error) })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn answer(error: i16, id: i64, epoch: i16) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.i32(0);
        writer.i16(error);
        writer.i64(id);
        writer.i16(epoch);
        writer.done()
    }

    #[test]
    fn a_number_is_given_or_an_error() {
        assert_eq!(request(), b"\xff\xff\x7f\xff\xff\xff");
        assert_eq!(parse(&answer(0, 9, 1)), Ok(Ok(ProducerId { id: 9, epoch: 1 })));
        assert_eq!(parse(&answer(31, -1, -1)), Ok(Err(31)));
        assert!(parse(b"\x00").is_err());
    }
}
