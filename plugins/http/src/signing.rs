//! Standard Webhooks 1.0: what is signed, and how the signatures are written.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Which signatures a message carries. The keys stay with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    HmacSha256,
    Ed25519,
}

impl Algorithm {
    pub const ALL: [Self; 2] = [Self::HmacSha256, Self::Ed25519];

    /// The name that `outhaul:secrets` and the settings know it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HmacSha256 => "hmac-sha256",
            Self::Ed25519 => "ed25519",
        }
    }

    /// The prefix in the header: symmetric signatures are `v1`, asymmetric ones `v1a`.
    fn version(self) -> &'static str {
        match self {
            Self::HmacSha256 => "v1",
            Self::Ed25519 => "v1a",
        }
    }
}

/// The message's ID: the same on every attempt. An ID that holds a dot would make the signed text
/// ambiguous, since a dot separates its parts; its hash stands for it.
pub fn message_id(dedup_id: &str) -> String {
    if !dedup_id.contains('.') {
        return dedup_id.to_owned();
    }
    let digest = Sha256::digest(dedup_id.as_bytes());
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// `id.timestamp.body`, the bytes exactly as they are sent.
pub fn signed_text(id: &str, timestamp_s: u64, body: &[u8]) -> Vec<u8> {
    let mut text = format!("{id}.{timestamp_s}.").into_bytes();
    text.extend_from_slice(body);
    text
}

/// The header `webhook-signature`: one signature for each algorithm and key, separated by spaces.
#[derive(Debug, Default)]
pub struct SignatureHeader(String);

impl SignatureHeader {
    pub fn add(&mut self, algorithm: Algorithm, signature: &[u8]) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(algorithm.version());
        self.0.push(',');
        STANDARD.encode_string(signature, &mut self.0);
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_a_dot_is_replaced_by_its_hash_and_any_other_is_kept() {
        assert_eq!(message_id("order-1"), "order-1");
        assert_eq!(message_id("a.b"), "2e7336dc8eba87ef472df568c35482abf2575dc3e5eac0c5c62b8ffaeac2c934");
    }

    #[test]
    fn the_signed_text_holds_the_exact_bytes_of_the_body() {
        assert_eq!(signed_text("id", 1_700_000_000, b"\x00\xff.\n"), b"id.1700000000.\x00\xff.\n");
    }

    #[test]
    fn each_key_of_each_algorithm_adds_a_signature() {
        let mut header = SignatureHeader::default();
        header.add(Algorithm::HmacSha256, &[0, 1, 2]);
        header.add(Algorithm::HmacSha256, &[3, 4, 5]);
        header.add(Algorithm::Ed25519, &[255; 3]);
        assert_eq!(header.into_text(), "v1,AAEC v1,AwQF v1a,////");
    }
}
