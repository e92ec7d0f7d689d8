//! Names of tables and columns, which the settings hold and which go into statements as they are.

use outhaul_plugin::sql::{Dialect, quoted};
use serde::Deserialize;

/// A table or a column, `name` or `schema.name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

impl Name {
    /// One that the code itself holds.
    pub fn of(name: &str) -> Self {
        Self::try_from(name.to_owned()).expect("it is a name")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn quoted(&self, dialect: Dialect) -> String {
        quoted(dialect, &self.0)
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_part = |part: &str| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.len() <= 64
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if name.split('.').count() <= 3 && name.split('.').all(is_part) {
            return Ok(Self(name));
        }
        Err(format!("{name:?} is no name; write letters, digits and `_`, with dots between schema and table"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word_or_words_with_dots() {
        for good in ["stock", "_x1", "shop.stock", "Stock"] {
            assert!(Name::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "1x", "a b", "a;b", "a\"b", "a.", "a..b", "a.b.c.d", "ä", "a-b"] {
            assert!(Name::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        assert_eq!(Name::of("shop.stock").quoted(Dialect::Mysql), "`shop`.`stock`");
    }
}
