//! Topics and the patterns that route them.
//!
//! A topic is dot-separated, 1–255 bytes, without white space. A pattern is a topic (exact),
//! `prefix.*` (every topic that starts with `prefix.`, at any depth) or `*`. Comparison is bytewise.

use std::fmt;

pub const TOPIC_BYTES_MAX: usize = 255;

/// A validated route pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern(String);

/// Why a text is not a topic or a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicError {
    Empty,
    TooLong(usize),
    WhiteSpace,
    Control,
    EmptySegment,
    MisplacedStar,
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "it is empty; a topic has 1 to {TOPIC_BYTES_MAX} bytes"),
            Self::TooLong(n) => write!(f, "it has {n} bytes; a topic has at most {TOPIC_BYTES_MAX}"),
            Self::WhiteSpace => write!(f, "it holds white space; use dots between the parts"),
            Self::Control => write!(f, "it holds a control character; use letters, digits, hyphens and dots"),
            Self::EmptySegment => write!(f, "it has an empty part; write a.b, not .a, a. or a..b"),
            Self::MisplacedStar => write!(f, "`*` may only stand alone or as the last part, as in order.*"),
        }
    }
}

impl std::error::Error for TopicError {}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, TopicError> {
        let stem = match text {
            "*" => return Ok(Self(text.to_owned())),
            _ => text.strip_suffix(".*").unwrap_or(text),
        };
        check_topic(stem)?;
        if stem.contains('*') {
            return Err(TopicError::MisplacedStar);
        }
        if text.len() > TOPIC_BYTES_MAX {
            return Err(TopicError::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, topic: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => topic.as_bytes().starts_with(prefix.as_bytes()),
            None => self.0 == topic,
        }
    }
}

/// Checks a topic a producer or an operator wrote.
pub fn check_topic(topic: &str) -> Result<(), TopicError> {
    if topic.is_empty() {
        return Err(TopicError::Empty);
    }
    if topic.len() > TOPIC_BYTES_MAX {
        return Err(TopicError::TooLong(topic.len()));
    }
    if topic.chars().any(char::is_whitespace) {
        return Err(TopicError::WhiteSpace);
    }
    if topic.chars().any(char::is_control) {
        return Err(TopicError::Control);
    }
    if topic.split('.').any(str::is_empty) {
        return Err(TopicError::EmptySegment);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_bytewise_and_at_any_depth() {
        let all = Pattern::parse("*").unwrap();
        let orders = Pattern::parse("order.*").unwrap();
        let exact = Pattern::parse("order.created").unwrap();
        let percent = Pattern::parse("order%.*").unwrap();
        for (pattern, topic, expected) in [
            (&all, "anything.at.all", true),
            (&orders, "order.created", true),
            (&orders, "order.line.added", true),
            (&orders, "order", false),
            (&orders, "orders.created", false),
            (&orders, "Order.created", false),
            (&exact, "order.created", true),
            (&exact, "order.created.late", false),
            (&percent, "order.created", false),
            (&percent, "order%.created", true),
        ] {
            assert_eq!(pattern.matches(topic), expected, "{pattern:?} {topic}");
        }
    }

    #[test]
    fn a_malformed_pattern_says_what_is_wrong() {
        for (text, error) in [
            ("", TopicError::Empty),
            ("a b", TopicError::WhiteSpace),
            ("a\0.b", TopicError::Control),
            ("a..b", TopicError::EmptySegment),
            (".*", TopicError::Empty),
            ("a.*.b", TopicError::MisplacedStar),
            ("a*", TopicError::MisplacedStar),
        ] {
            assert_eq!(Pattern::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(check_topic(&"x".repeat(256)), Err(TopicError::TooLong(256)));
    }
}
