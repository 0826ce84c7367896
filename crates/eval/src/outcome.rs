//! What became of one record.

use std::fmt;

use crate::answer::Answer;
use crate::answerer::AnswerErrorKind;
use crate::case::{Question, RequestDigest};
use crate::table::one_line;

/// The widest id of a record in a line for people, in terminal cells.
const ID_CELLS: usize = 40;

/// What became of one line of a data file. Holds no request: a run of a million records keeps only answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Where the record stands in the data file, from 1.
    pub line: u64,
    /// The record's id, if it has one.
    pub id: Option<String>,
    /// The digest of the request; none if the line could not be read.
    pub digest: Option<RequestDigest>,
    /// What was asked, with gold answers and groups; empty if the line could not be read.
    pub questions: Vec<Question>,
    /// What came back.
    pub reply: Result<Reply, Failure>,
}

impl Outcome {
    /// The record's name for people: its id, or else its line.
    pub fn name(&self) -> String {
        self.id.clone().unwrap_or_else(|| format!("line {}", self.line))
    }

    /// Its line, and its id if it has one.
    pub(crate) fn place(&self) -> String {
        place(self.line, self.id.as_deref())
    }
}

/// Where a record stands, for people.
pub(crate) fn place(line: u64, id: Option<&str>) -> String {
    let id = id.map_or_else(String::new, |id| format!(" ({})", one_line(id, ID_CELLS)));
    format!("line {line}{id}")
}

/// The answers to a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// One per question, in the order asked.
    pub answers: Vec<Answer>,
    /// From asking to having the response, waits for a busy server included, in milliseconds.
    pub latency_ms: f64,
}

/// Why a record has no answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The line of the data file cannot be used; nobody was asked.
    Line(String),
    /// There was no answer, or none to what was asked.
    Answer {
        /// Whose fault it is.
        kind: AnswerErrorKind,
        /// One line for people.
        message: String,
    },
}

impl Failure {
    /// `line`, or the [kind](AnswerErrorKind::as_str) of answer error.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Line(_) => "line",
            Self::Answer { kind, .. } => kind.as_str(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(message) | Self::Answer { message, .. } => f.write_str(message),
        }
    }
}
