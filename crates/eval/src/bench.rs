//! How the speed of reading prompts is reported. Measuring it is the business of whoever has the model.

use serde::Serialize;

use crate::reasons::markdown_title;
use crate::table::{Cell, Table, one_line};

/// Prefill speed by size. As JSON, fields have these names; later versions only add some.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchReport {
    /// What was measured, and on what.
    pub subject: String,
    /// One row per size, in the order measured.
    pub rows: Vec<BenchRow>,
}

/// Prompts of one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BenchRow {
    /// The prompt's tokens.
    pub tokens: u64,
    /// The answer to a prompt never seen, in milliseconds.
    pub cold_ms: f64,
    /// The same state with another question, in milliseconds.
    pub cached_ms: f64,
    /// Tokens of that prompt that were not read again.
    pub reused_tokens: u64,
    /// Tokens that were read of the cold prompt over its time; absent if that is not above 0.
    pub tokens_per_second: Option<f64>,
}

impl BenchRow {
    /// A row of what was measured. Of the cold prompt's tokens `read` were read; every prompt begins with some that are
    /// known before.
    pub fn new(tokens: u64, read: u64, cold_ms: f64, cached_ms: f64, reused_tokens: u64) -> Self {
        let tokens_per_second = (cold_ms > 0.0).then(|| read as f64 / cold_ms * 1e3);
        Self { tokens, cold_ms, cached_ms, reused_tokens, tokens_per_second }
    }
}

impl BenchReport {
    /// For a terminal: aligned columns.
    pub fn to_text(&self) -> String {
        format!("{}\n\n{}", one_line(&self.subject, 120), self.table().to_text())
    }

    /// For a document: the same title and table.
    pub fn to_markdown(&self) -> String {
        markdown_title(&self.subject) + &self.table().to_markdown()
    }

    /// All of it, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("times are numbers") + "\n"
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["tokens", "cold ms", "tokens/s", "asked again ms", "of it reused"]);
        for row in &self.rows {
            table.row(vec![
                Cell::count(row.tokens),
                Cell::number(Some(row.cold_ms), 1),
                Cell::number(row.tokens_per_second, 1),
                Cell::number(Some(row.cached_ms), 1),
                Cell::count(row.reused_tokens),
            ]);
        }
        table
    }
}
