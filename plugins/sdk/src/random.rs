//! Random numbers of the host, fit for what must not be guessed.

use crate::bindings::destination::wasi::random::random;

pub fn bytes(length: u64) -> Vec<u8> {
    random::get_random_bytes(length)
}

/// As many random bytes, in hex.
pub fn hex(length: u64) -> String {
    bytes(length).iter().map(|byte| format!("{byte:02x}")).collect()
}
