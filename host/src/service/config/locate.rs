//! Where in the file a key stands, so that every message can say it.

use std::fmt;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::wording::plain;

/// One thing wrong with the config: where, what and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// From 1; 0 if the problem has no place in the file.
    pub line: usize,
    /// Dotted, as in `destination.stock.topics`; empty for the file as a whole.
    pub key: String,
    pub text: String,
}

/// Everything found wrong with one config file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    pub file: String,
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { line, key, text }) in self.problems.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{}", self.file)?;
            if *line > 0 {
                write!(f, ":{line}")?;
            }
            if !key.is_empty() {
                write!(f, ": {key}")?;
            }
            write!(f, ": {text}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The parsed file with its places, and what was found wrong so far.
pub struct Located<'t> {
    text: &'t str,
    pub tree: DeTable<'t>,
    pub problems: Vec<Problem>,
}

impl<'t> Located<'t> {
    pub fn new(text: &'t str, tree: DeTable<'t>) -> Self {
        Self { text, tree, problems: Vec::new() }
    }

    /// Reports a problem of the key at `path`, or, if the file does not have it, of the nearest
    /// table above it.
    pub fn refuse(&mut self, path: &[&str], text: impl Into<String>) {
        let line = (0..=path.len())
            .rev()
            .find_map(|depth| span_of(&self.tree, &path[..depth]))
            .map_or(0, |span| line_of(self.text, span.start));
        self.problems.push(Problem { line, key: path.join("."), text: text.into() });
    }

    pub fn refuse_at(&mut self, at: usize, key: String, text: impl Into<String>) {
        self.problems.push(Problem { line: line_of(self.text, at), key, text: text.into() });
    }

    /// Reports what serde says of a value, under the most precise key that holds its place.
    pub fn refuse_value(&mut self, path: &[&str], error: &toml::de::Error) {
        match error.span() {
            Some(span) => {
                let key = key_at(&self.tree, &span).unwrap_or_else(|| path.join("."));
                let text = plain(error.message(), &key);
                // A table that lost an unknown key often misses one too; one message is enough.
                if !self.problems.iter().any(|known| is_below(&known.key, &key)) {
                    self.refuse_at(span.start, key, text);
                }
            }
            None => self.refuse(path, plain(error.message(), &path.join("."))),
        }
    }
}

fn is_below(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'))
}

pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// In characters, from 1.
pub fn column_of(text: &str, offset: usize) -> usize {
    let before = &text[..text.floor_char_boundary(offset)];
    before.chars().rev().take_while(|char| *char != '\n').count() + 1
}

fn span_of(tree: &DeTable<'_>, path: &[&str]) -> Option<Range<usize>> {
    let (first, rest) = path.split_first()?;
    let (key, value) = tree.get_key_value(*first)?;
    match (rest, value.get_ref()) {
        ([], _) => Some(key.span()),
        ([index, rest @ ..], DeValue::Array(items)) => {
            let item = items.get(index.parse::<usize>().ok()?)?;
            match (rest, item.get_ref()) {
                ([], _) => Some(item.span()),
                (rest, DeValue::Table(table)) => span_of(table, rest),
                _ => None,
            }
        }
        (rest, DeValue::Table(table)) => span_of(table, rest),
        _ => None,
    }
}

/// The key whose value is the smallest that holds `span`.
fn key_at(tree: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let mut best = None;
    search(tree, &mut Vec::new(), span, &mut best);
    best.map(|(_, key)| key)
}

type Best = Option<(usize, String)>;

fn search(tree: &DeTable<'_>, path: &mut Vec<String>, wanted: &Range<usize>, best: &mut Best) {
    for (key, value) in tree.iter() {
        path.push(key.get_ref().to_string());
        visit(value.get_ref(), value.span(), path, wanted, best);
        path.pop();
    }
}

fn visit(
    value: &DeValue<'_>,
    span: Range<usize>,
    path: &mut Vec<String>,
    wanted: &Range<usize>,
    best: &mut Best,
) {
    let holds = span.start <= wanted.start && wanted.end <= span.end;
    if holds && best.as_ref().is_none_or(|(length, _)| span.len() <= *length) {
        *best = Some((span.len(), path.join(".")));
    }
    match value {
        DeValue::Table(table) => search(table, path, wanted, best),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                visit(item.get_ref(), item.span(), path, wanted, best);
                path.pop();
            }
        }
        _ => {}
    }
}
