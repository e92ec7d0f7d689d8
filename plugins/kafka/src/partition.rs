//! Which partition an event belongs to, as the Java client decides it.

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;
const R: u32 = 24;

/// The partition of this key among so many.
pub fn of_key(key: &[u8], partitions: usize) -> usize {
    // The client clears the sign bit, where the absolute value would be another number.
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

/// MurmurHash2 by Austin Appleby, 32 bits, with the seed that Kafka's clients share.
fn murmur2(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(4);
    let rest = words.remainder();
    let mut hash = SEED ^ bytes.len() as u32;
    for word in words {
        let word = word.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte)).wrapping_mul(M);
        let word = (word ^ (word >> R)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ word;
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the Java client's own test has.
    #[test]
    fn keys_hash_as_in_the_java_client() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    #[test]
    fn a_negative_hash_has_a_partition_too() {
        assert_eq!(of_key(b"21", 7), ((-973_932_308_i32) & 0x7fff_ffff) as usize % 7);
        assert!((0..1_000).all(|key: i32| of_key(&key.to_le_bytes(), 3) < 3));
    }
}
