//! Why records have no answer, counted by kind.
//!
//! A list of a thousand failures is one fault a thousand times, or two faults of which the second is never seen. So each
//! kind is counted, and shown by its first record.

use std::fmt::Write as _;

use serde::Serialize;

use crate::outcome::{Failure, Outcome, place};
use crate::table::{counted, escaped, one_line};

/// The widest message in a report, in terminal cells.
pub(crate) const MESSAGE_CELLS: usize = 300;

/// Records without an answer for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// `line` for lines that cannot be used (a wrong gold answer is one), or a
    /// [kind](crate::AnswerErrorKind::as_str) of answer error.
    pub kind: &'static str,
    /// How many records.
    pub records: u64,
    /// Where the first of them stands in the data file, from 1.
    pub line: u64,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// What was said of it: one line for people.
    pub message: String,
}

impl Reason {
    /// Counts a failure of a record among the reasons; those that come first stay first.
    pub(crate) fn count(reasons: &mut Vec<Self>, outcome: &Outcome, failure: &Failure) {
        let kind = failure.kind();
        match reasons.iter_mut().find(|reason| reason.kind == kind) {
            Some(reason) => reason.records += 1,
            None => reasons.push(Self {
                kind,
                records: 1,
                line: outcome.line,
                id: outcome.id.clone(),
                message: failure.to_string(),
            }),
        }
    }

    /// One line for people: how many, why, and the first.
    pub(crate) fn to_line(&self) -> String {
        let words = match self.kind {
            "line" => "not asked, as the line cannot be used",
            "refused" => "refused",
            "unauthorized" => "not answered, as the key is not accepted",
            "busy" => "not answered, as the server stayed busy",
            "timed_out" => "not answered in time",
            "unreachable" => "not answered, as the server was not reached",
            "failed" => "not answered, as the server or the model failed",
            "unreadable" => "whose answer is not one to what was asked",
            other => other,
        };
        let first = if self.records == 1 { "" } else { "the first, " };
        let place = place(self.line, self.id.as_deref());
        format!(
            "{} {words}: {first}{place}: {}",
            counted(self.records, "record"),
            one_line(&self.message, MESSAGE_CELLS)
        )
    }
}

/// The reasons as a list of Markdown, after a blank line; nothing if there are none.
pub(crate) fn markdown_list(lines: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for (index, line) in lines.enumerate() {
        let blank = if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{blank}- {}", escaped(&line));
    }
    text
}

/// A title in bold, with a blank line after it.
pub(crate) fn markdown_title(title: &str) -> String {
    format!("**{}**\n\n", escaped(one_line(title, MESSAGE_CELLS).trim()))
}
