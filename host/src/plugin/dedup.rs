//! The identity of an event towards a destination.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Identifies (tenant, event ID) in one printable text: the event ID itself if the tenant is empty
/// and the ID is visible ASCII, else the hex SHA-256 over both, each behind its length as eight
/// big-endian bytes. Without the lengths, ("ab", "c") and ("a", "bc") would be one identity.
pub fn dedup_id(tenant: &str, event_id: &str) -> String {
    if tenant.is_empty() && event_id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return event_id.to_owned();
    }
    let mut hash = Sha256::new();
    for part in [tenant, event_id] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visible_ascii_id_without_a_tenant_is_its_own_identity() {
        assert_eq!(dedup_id("", "order-1~!"), "order-1~!");
    }

    #[test]
    fn tenant_and_id_are_told_apart_by_their_lengths() {
        assert_ne!(dedup_id("ab", "c"), dedup_id("a", "bc"));
        assert_ne!(dedup_id("a", "b"), dedup_id("", "ab"));
    }

    #[test]
    fn what_a_protocol_could_not_carry_is_hashed() {
        // printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3a b' | sha256sum
        assert_eq!(dedup_id("", "a b"), "7e8a20095d5d6600cf9c97096df6e144fe4dcce5450d11caee436b8fcac0d53a");
        for id in ["ü", "tab\there", "new\nline", "\u{7f}"] {
            assert_eq!(dedup_id("", id).len(), 64, "{id:?}");
        }
    }
}
