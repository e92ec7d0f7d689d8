//! Values from and to Rust's types.

use super::Value;

impl Value {
    /// A number, also where a database has it as a boolean or as a decimal without fraction.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(value) | Self::Timestamp(value) => Some(*value),
            Self::Boolean(value) => Some((*value).into()),
            Self::Decimal(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// A truth, also where a database has it as 0 or 1.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            Self::Integer(value @ (0 | 1)) => Some(*value == 1),
            _ => None,
        }
    }

    /// A text, also of JSON, of a UUID or of a decimal, which some databases have as text only.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Json(text) | Self::Uuid(text) | Self::Decimal(text) => Some(text),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_databases_tell_in_different_types_reads_the_same() {
        assert_eq!((Value::Integer(1).as_bool(), Value::Boolean(true).as_bool()), (Some(true), Some(true)));
        assert_eq!((Value::Decimal("7".into()).as_i64(), Value::Integer(7).as_i64()), (Some(7), Some(7)));
        assert_eq!(Value::Json("{}".into()).as_text(), Some("{}"));
        assert_eq!((Value::Integer(2).as_bool(), Value::Null.as_text()), (None, None));
        assert_eq!(Value::from(None::<i64>), Value::Null);
    }
}
