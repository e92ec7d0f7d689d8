//! SaslHandshake and SaslAuthenticate: which mechanism, then its messages.

use super::wire::{Reader, Writer};

pub fn handshake(mechanism: &str) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.text(mechanism);
    writer.done()
}

/// Kafka's error code and the mechanisms that the broker offers.
pub fn parse_handshake(answer: &[u8]) -> Result<(i16, Vec<String>), String> {
    let mut reader = Reader::of(answer);
    Ok((reader.i16()?, reader.array(Reader::text)?))
}

pub fn authenticate(message: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(message);
    writer.done()
}

#[derive(Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub error: i16,
    pub text: String,
    pub message: Vec<u8>,
    /// After so many milliseconds the broker ends the connection; 0 is never.
    pub lifetime_ms: i64,
}

pub fn parse_authenticate(answer: &[u8]) -> Result<Authenticated, String> {
    let mut reader = Reader::of(answer);
    let (error, text) = (reader.i16()?, reader.text()?);
    let message = reader.bytes()?.to_vec();
    Ok(Authenticated { error, text, message, lifetime_ms: reader.i64()? })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn handshake_answer(error: i16, mechanisms: &[&str]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.i16(error);
        writer.count(mechanisms.len());
        mechanisms.iter().for_each(|mechanism| writer.text(mechanism));
        writer.done()
    }

    pub fn authenticate_answer(error: i16, text: &str, message: &[u8], lifetime_ms: i64) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.i16(error);
        writer.text(text);
        writer.bytes(message);
        writer.i64(lifetime_ms);
        writer.done()
    }

    #[test]
    fn the_mechanisms_offered_and_the_end_of_a_login_are_read() {
        assert_eq!(handshake("PLAIN"), b"\x00\x05PLAIN");
        let offered = parse_handshake(&handshake_answer(33, &["PLAIN", "SCRAM-SHA-256"]));
        assert_eq!(offered, Ok((33, vec!["PLAIN".into(), "SCRAM-SHA-256".into()])));
        let done = parse_authenticate(&authenticate_answer(58, "no", b"m", 9)).unwrap();
        assert_eq!(
            (done.error, done.text.as_str(), &done.message[..], done.lifetime_ms),
            (58, "no", &b"m"[..], 9)
        );
    }
}
