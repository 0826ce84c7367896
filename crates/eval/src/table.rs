//! Tables of figures, for terminals and for documents.

use std::fmt::Write as _;

use clef_record::Grouped;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The widest name of a row, in terminal cells.
const NAME_CELLS: usize = 40;

/// What stands where there is no figure.
const ABSENT: &str = "-";

/// Rows of cells under a header. The first column is of names, on the left; all others are on the right.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone)]
enum Row {
    Cells(Vec<Cell>),
    Section(String),
}

/// One cell: text on one line, without control characters.
#[derive(Debug, Clone)]
pub(crate) struct Cell(String);

impl Cell {
    /// A name that somebody else chose.
    pub(crate) fn name(name: &str) -> Self {
        Self(one_line(name, NAME_CELLS))
    }

    pub(crate) fn count(count: u64) -> Self {
        Self(Grouped(usize::try_from(count).unwrap_or(usize::MAX)).to_string())
    }

    pub(crate) fn number(value: Option<f64>, decimals: usize) -> Self {
        Self(value.map_or_else(|| ABSENT.to_owned(), |value| format!("{value:.decimals$}")))
    }

    /// A small figure by its first digits, whatever its size.
    pub(crate) fn scientific(value: Option<f64>) -> Self {
        Self(value.map_or_else(
            || ABSENT.to_owned(),
            |value| if value == 0.0 { "0".to_owned() } else { format!("{value:.2e}") },
        ))
    }
}

impl Table {
    pub(crate) fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row of as many cells as the header has.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.header.len(), "a row has a cell for each column");
        self.rows.push(Row::Cells(cells));
    }

    /// Adds a line that says what the rows below it are.
    pub(crate) fn section(&mut self, title: &str) {
        self.rows.push(Row::Section(title.to_owned()));
    }

    /// Aligned columns, two blanks between them.
    pub(crate) fn to_text(&self) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|title| title.width()).collect();
        for row in &self.rows {
            match row {
                Row::Cells(cells) => {
                    for (width, cell) in widths.iter_mut().zip(cells) {
                        *width = (*width).max(cell.0.width());
                    }
                }
                Row::Section(title) => widths[0] = widths[0].max(title.width()),
            }
        }
        let mut text = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (column, (cell, &width)) in cells.zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.width());
                match column {
                    0 => line.extend([cell, &padding]),
                    _ => line.extend(["  ", &padding, cell]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        };
        line(&mut self.header.iter().copied());
        for row in &self.rows {
            match row {
                Row::Cells(cells) => line(&mut cells.iter().map(|cell| cell.0.as_str())),
                Row::Section(title) => {
                    line(&mut std::iter::empty());
                    line(&mut std::iter::once(title.as_str()));
                }
            }
        }
        text
    }

    /// A table of GitHub's Markdown; sections are rows in bold.
    pub(crate) fn to_markdown(&self) -> String {
        let header: Vec<String> = self.header.iter().map(|title| escaped(title)).collect();
        let mut text = format!("| {} |\n|---|{}\n", header.join(" | "), "---:|".repeat(header.len() - 1));
        for row in &self.rows {
            let _ = match row {
                Row::Cells(cells) => {
                    let cells: Vec<String> = cells.iter().map(|cell| escaped(&cell.0)).collect();
                    writeln!(text, "| {} |", cells.join(" | "))
                }
                Row::Section(title) => {
                    writeln!(text, "| **{}** |{}", escaped(title), " |".repeat(self.header.len() - 1))
                }
            };
        }
        text
    }
}

/// A count and what is counted, whose plural takes an `s`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", Grouped(usize::try_from(count).unwrap_or(usize::MAX)))
}

/// Somebody else's text on one line of at most so many terminal cells: no control characters, nothing that turns the
/// direction of writing.
pub(crate) fn one_line(text: &str, cells: usize) -> String {
    let mut line = String::new();
    let mut width = 0;
    for character in text.chars() {
        let shown = match character {
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => {
                char::REPLACEMENT_CHARACTER
            }
            '\n' | '\t' => ' ',
            _ if character.is_control() => char::REPLACEMENT_CHARACTER,
            _ => character,
        };
        width += shown.width().unwrap_or(0);
        if width > cells {
            while line.width() + 1 > cells && line.pop().is_some() {}
            line.push('…');
            break;
        }
        line.push(shown);
    }
    line
}

/// Somebody else's text as Markdown shows it.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | '|' | '`' | '*' | '[' | '<' | '&') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["", "n", "share"]);
        table.row(vec![Cell::name("all"), Cell::count(12_345), Cell::number(Some(0.5), 3)]);
        table.section("by group");
        table.row(vec![Cell::name("東京|b"), Cell::count(1), Cell::number(None, 3)]);
        table
    }

    #[test]
    fn columns_are_aligned_by_terminal_cells() {
        assert_eq!(
            table().to_text(),
            "               n  share\n\
             all       12,345  0.500\n\
             \n\
             by group\n\
             東京|b         1      -\n"
        );
    }

    #[test]
    fn a_bar_in_a_name_is_no_column_of_markdown() {
        assert_eq!(
            table().to_markdown(),
            "|  | n | share |\n|---|---:|---:|\n| all | 12,345 | 0.500 |\n| **by group** | | |\n| 東京\\|b | 1 | - |\n"
        );
    }

    #[test]
    fn names_are_one_line_and_end_somewhere() {
        assert_eq!(one_line("a\nb\u{1b}[31m\u{202e}c", 40), "a b\u{fffd}[31m\u{fffd}c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("日本語日本語", 6), "日本…");
        assert_eq!(one_line("", 6), "");
    }

    #[test]
    fn small_figures_keep_their_digits() {
        let shown = [None, Some(0.0), Some(0.000_012_34), Some(0.5)].map(|value| Cell::scientific(value).0);
        assert_eq!(shown, ["-", "0", "1.23e-5", "5.00e-1"]);
    }
}
