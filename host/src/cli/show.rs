//! Aligned columns for people, JSON for programs.

use std::io::Write;

use serde::Serialize;

/// Rows under headings, each column as wide as its widest cell.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    pub fn print(&self, out: &mut (dyn Write + Send)) -> std::io::Result<()> {
        let columns = self.rows[0].len();
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// Of an explanation in a list: what it begins with, on one line. The whole is in `show` and --json.
pub fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    let Some((cut, _)) = text.char_indices().nth(CHARS_MAX) else { return text.to_owned() };
    let kept = text.char_indices().nth(CHARS_MAX - 1).map_or(cut, |(at, _)| at);
    format!("{}…", text[..kept].trim_end())
}

/// Text from events and plugins must not move the cursor or start a new line of its own.
pub fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '·' } else { char }).collect()
}

pub fn json(out: &mut (dyn Write + Send), value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// `1 event`, `2 events`.
pub fn count(number: u64, one: &str, more: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {more}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_explanation_is_cut_to_a_hundred_characters() {
        assert_eq!(shortened(&"é".repeat(100)), "é".repeat(100));
        assert_eq!(shortened(&"é".repeat(101)), format!("{}…", "é".repeat(99)));
    }

    #[test]
    fn columns_are_aligned_and_control_characters_shown_as_dots() {
        let mut table = Table::new(&["NAME", "STATE"]);
        table.row(["a".into(), "active".into()]);
        table.row(["longer".into(), "\u{1b}[31mred\n".into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "NAME    STATE\na       active\nlonger  ·[31mred·\n");
    }
}
