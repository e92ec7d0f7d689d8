//! Times as people write and read them on a command line.

use std::time::Duration;

use crate::domain::Timestamp;

/// `3m ago`, `in 2h`: the two largest units, since nobody needs the third.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", short(at.since(now))) } else { format!("{} ago", short(now.since(at))) }
}

pub fn short(span: Duration) -> String {
    let secs = span.as_secs();
    let (days, hours, minutes) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if secs < 10 => format!("{secs}.{}s", span.subsec_millis() / 100),
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", secs % 60),
        (0, _, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

/// A point in time as an argument: RFC 3339, or a duration from the database's now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    At(Timestamp),
    In(Duration),
}

impl When {
    pub fn parse(text: &str) -> Result<Self, String> {
        use time::format_description::well_known::Rfc3339;
        if let Some(span) = text.strip_prefix('+') {
            return humantime::parse_duration(span)
                .map(Self::In)
                .map_err(|error| format!("{error}; write +90s, +15m or +2h"));
        }
        let at = time::OffsetDateTime::parse(text, &Rfc3339).map_err(|error| {
            format!("{error}; write 2026-01-31T12:00:00Z, or +15m for 15 minutes from now")
        })?;
        let micros =
            i64::try_from(at.unix_timestamp_nanos() / 1_000).map_err(|_| "it is too far away".to_owned())?;
        Ok(Self::At(Timestamp(micros)))
    }

    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(span) => now.plus(span),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_the_two_largest_units() {
        for (secs, text) in [(3, "3.0s"), (59, "59s"), (61, "1m01s"), (7_260, "2h01m"), (90_000, "1d01h")] {
            assert_eq!(short(Duration::from_secs(secs)), text);
        }
        let now = Timestamp::from_secs(100);
        assert_eq!(relative(Timestamp::from_secs(40), now), "1m00s ago");
        assert_eq!(relative(Timestamp::from_secs(160), now), "in 1m00s");
    }

    #[test]
    fn a_point_in_time_is_absolute_or_from_the_databases_now() {
        let now = Timestamp::from_secs(100);
        assert_eq!(When::parse("+15m").unwrap().resolve(now), Timestamp::from_secs(1_000));
        assert_eq!(When::parse("1970-01-01T01:00:00+01:00").unwrap().resolve(now), Timestamp::from_secs(0));
        assert!(When::parse("tomorrow").unwrap_err().contains("+15m"));
        assert!(When::parse("+soon").unwrap_err().contains("+90s"));
    }
}
