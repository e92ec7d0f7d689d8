//! JSON-lines files: each line is the payload of one event.

use anyhow::Context as _;
use clap::Args;
use serde_json::Value;

use super::Misuse;

/// Which fields of a payload say more of its event.
#[derive(Args, Clone, Debug, Default)]
pub struct Fields {
    /// Of a file with a payload a line: the field of each that is its event's ID (what is emitted
    /// again then inserts nothing twice)
    #[arg(long, value_name = "FIELD")]
    id_field: Option<String>,
    /// Of a file with a payload a line: the field of each that is its event's key
    #[arg(long, value_name = "FIELD")]
    key_field: Option<String>,
}

pub struct Line {
    pub payload: Vec<u8>,
    pub id: Option<String>,
    pub key: Option<String>,
}

impl Fields {
    /// They say nothing without the option that names a file of lines.
    pub fn check_unused(&self, option: &str) -> Result<(), Misuse> {
        for (name, given) in [("--id-field", &self.id_field), ("--key-field", &self.key_field)] {
            if given.is_some() {
                return Err(Misuse(format!("{name} needs {option}: it names a field of each line")));
            }
        }
        Ok(())
    }

    /// The events have IDs of their own.
    pub fn has_ids(&self) -> bool {
        self.id_field.is_some()
    }

    pub fn read(&self, line: Vec<u8>) -> anyhow::Result<Line> {
        let payload = line.strip_suffix(b"\r").map(<[u8]>::to_vec).unwrap_or(line);
        let parsed: Value =
            serde_json::from_slice(&payload).context("the line is not JSON; each line is one payload")?;
        let field = |name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => match parsed.get(name) {
                Some(Value::String(text)) => Ok(Some(text.clone())),
                Some(Value::Number(number)) if !number.is_f64() => Ok(Some(number.to_string())),
                // Two of them could become one.
                Some(Value::Number(_)) => Err(anyhow::anyhow!(
                    "the number in the field `{name}` has a fraction or more digits than 64 bits hold; write it as a text"
                )),
                _ => Err(anyhow::anyhow!("the payload has no text or number in its field `{name}`")),
            },
        };
        Ok(Line { id: field(&self.id_field)?, key: field(&self.key_field)?, payload })
    }
}
