//! Reading a JSON table and collecting what is wrong with it, by JSON Pointer.

use serde_json::Value;

/// One thing wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A JSON Pointer (RFC 6901).
    pub pointer: String,
    pub message: String,
}

impl Problem {
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// A JSON object with known keys.
pub struct Table<'a> {
    pointer: String,
    value: &'a Value,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Table<'a> {
    /// Complains of keys it does not know, and of a value that is no object.
    pub fn of(
        pointer: &str,
        value: &'a Value,
        known: &[&str],
        problems: &'a mut Vec<Problem>,
    ) -> Option<Self> {
        let mut table = Self { pointer: pointer.to_owned(), value, problems };
        let Some(object) = value.as_object() else {
            let message = format!("this is a table with the keys {}", known.join(", "));
            table.problems.push(Problem::new(pointer, message));
            return None;
        };
        for key in object.keys().filter(|key| !known.contains(&key.as_str())) {
            table.problem(&join("", key)[1..], &format!("there is no such setting; {}", hint(key, known)));
        }
        Some(table)
    }

    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        let value = self.value(key)?;
        if !value.is_string() {
            self.problem(key, "this setting is a text");
        }
        value.as_str()
    }

    pub fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        let value = self.value(key)?;
        let texts: Option<Vec<String>> = value
            .as_array()
            .and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        if texts.is_none() {
            self.problem(key, "this setting is a list of texts");
        }
        texts
    }

    /// The pairs of a table whose keys are free.
    pub fn pairs(&mut self, key: &str) -> Vec<(String, &'a Value)> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        match value.as_object() {
            Some(object) => object.iter().map(|(name, value)| (name.clone(), value)).collect(),
            None => {
                self.problem(key, "this setting is a table");
                Vec::new()
            }
        }
    }

    pub fn child<T>(
        &mut self,
        key: &str,
        known: &[&str],
        read: impl FnOnce(Table) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let pointer = format!("{}/{key}", self.pointer);
        Table::of(&pointer, value, known, self.problems).and_then(read)
    }

    pub fn one_of<T>(
        &mut self,
        key: &str,
        text: &str,
        known: &[&str],
        find: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let found = if known.contains(&text) { find(text) } else { None };
        if found.is_none() {
            self.problem(key, &format!("{text:?} is none of the choices; {}", hint(text, known)));
        }
        found
    }

    pub fn accept<T>(&mut self, key: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.problem(key, &message)).ok()
    }

    /// Complains of a setting that is missing, unless it is there with a wrong value, which has its
    /// own complaint.
    pub fn require(&mut self, key: &str, message: &str) {
        if self.value(key).is_none() {
            self.problem(key, &format!("this setting is missing; {message}"));
        }
    }

    pub fn problem(&mut self, key: &str, message: &str) {
        self.problems.push(Problem::new(format!("{}/{key}", self.pointer), message));
    }
}

/// `parent/key` with the key escaped as RFC 6901 says.
pub fn join(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The nearest known word where one is near, else all of them.
fn hint(word: &str, known: &[&str]) -> String {
    let nearest =
        known.iter().max_by(|a, b| strsim::jaro_winkler(word, a).total_cmp(&strsim::jaro_winkler(word, b)));
    match nearest {
        Some(nearest) if strsim::jaro_winkler(word, nearest) > 0.75 => format!("did you mean {nearest:?}?"),
        _ => format!("the choices are {}", known.join(", ")),
    }
}
