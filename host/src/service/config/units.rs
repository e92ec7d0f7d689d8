//! Config values that carry their unit in the text: `"5s"`, `"64MiB"`.

use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0.as_secs();
        if self.0.subsec_nanos() == 0 && secs > 0 && secs.is_multiple_of(86_400) {
            // Never "1month", which is no whole number of days.
            return write!(f, "{}d", secs / 86_400);
        }
        let text = humantime::format_duration(self.0).to_string();
        // "7days" reads well in prose; the config writes "7d".
        write!(f, "{}", text.replace("days", "d").replace("day", "d"))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a duration with its unit, such as \"5s\", \"250ms\", \"15m\" or \"7d\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
        humantime::parse_duration(text).map(Span).map_err(|_| {
            E::custom(format!("\"{text}\" is not a duration; write \"5s\", \"250ms\", \"15m\" or \"7d\""))
        })
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A duration with its unit.",
            "examples": ["250ms", "5s", "15m", "7d"],
        })
    }
}

/// A number of bytes with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl Bytes {
    pub fn parse(text: &str) -> Option<Self> {
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
        number.parse::<u64>().ok()?.checked_mul(*factor).map(Self)
    }

    /// For limits that are a `usize` in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let binary = UNITS.iter().filter(|(unit, _)| unit.ends_with("iB") || *unit == "B");
        for (unit, factor) in binary {
            if self.0.is_multiple_of(*factor) && self.0 >= *factor {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a size with its unit, such as \"64MiB\", \"16KiB\" or \"512B\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        Bytes::parse(text).ok_or_else(|| {
            E::custom(format!(
                "\"{text}\" is not a size; write a whole number with B, KiB, MiB, GiB, kB, MB or GB, as in \"64MiB\""
            ))
        })
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A number of bytes with its unit.",
            "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB|kB|MB|GB)$",
            "examples": ["512B", "16KiB", "64MiB"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_with_its_unit_and_written_back_the_same() {
        for (text, bytes) in [("512B", 512), ("16KiB", 16 << 10), ("64MiB", 64 << 20), ("2GiB", 2 << 30)] {
            assert_eq!(Bytes::parse(text), Some(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(Bytes::parse("1MB"), Some(Bytes(1_000_000)));
        for text in ["64", "MiB", "", "1.5MiB", "-1B", "64mib", "99999999999999999999B", "20000000000GiB"] {
            assert_eq!(Bytes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_duration_is_written_as_the_config_writes_it() {
        for (secs, text) in
            [(5, "5s"), (900, "15m"), (604_800, "7d"), (86_400, "1d"), (2_592_000, "30d"), (0, "0s")]
        {
            assert_eq!(Span::secs(secs).to_string(), text);
            assert_eq!(humantime::parse_duration(text).unwrap(), Duration::from_secs(secs));
        }
    }
}
