//! Which deliveries are the canary's.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::domain::Event;

const WHOLE: u32 = 1_000_000;
const OF_A_PERCENT: u32 = WHOLE / 100;
const DECIMALS_MAX: usize = 4;

/// A part of all keys, and of all events without one, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// Reads `5%` or `0.25%`: more than nothing, at most all, in steps of 0.0001%.
    pub fn parse(text: &str) -> Option<Self> {
        let number = text.strip_suffix('%')?.trim_end();
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(part) || part.len() > DECIMALS_MAX {
            return None;
        }
        let part: u32 = format!("{part:0<DECIMALS_MAX$}").parse().ok()?;
        let millionths = whole.parse::<u32>().ok()?.checked_mul(OF_A_PERCENT)?.checked_add(part)?;
        (1..=WHOLE).contains(&millionths).then_some(Self(millionths))
    }

    /// The same on every attempt, every host and after every restart, and of a key for all its events. A
    /// larger share holds whatever a smaller one does.
    pub fn holds(self, event: &Event) -> bool {
        let mut hasher = Sha256::new();
        let (kind, name) = match &event.key {
            Some(key) => (b"key", key),
            None => (b"id ", &event.id),
        };
        // With its length in front, so that no two pairs read the same.
        hasher.update((event.tenant.len() as u64).to_be_bytes());
        hasher.update(&event.tenant);
        hasher.update(kind);
        hasher.update(name);
        let hash = hasher.finalize();
        let number = hash.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        number % u64::from(WHOLE) < u64::from(self.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / OF_A_PERCENT, self.0 % OF_A_PERCENT);
        match part {
            0 => write!(f, "{whole}%"),
            _ => write!(f, "{whole}.{}%", format!("{part:0DECIMALS_MAX$}").trim_end_matches('0')),
        }
    }
}
