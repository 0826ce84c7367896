//! Why measuring stopped.
//!
//! These end a run. What is wrong with one line of a data file, or with one answer, ends nothing: it is counted, and
//! stands with its line in the outcome (see [`Failure`](crate::Failure)).

use std::error::Error as StdError;
use std::fmt;

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for callers that decide what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The data file cannot be opened or read, or holds no records.
    Data,
    /// The file of results cannot be read or written, or is not one, or is of something else.
    Results,
    /// The address of a server is not one.
    Address,
    /// Nobody answers: the server is away, refuses the key or fails, record after record.
    GaveUp,
    /// The data was read to its end, and not one record has an answer.
    NothingAnswered,
    /// Two runs that are to be compared are not over the same requests.
    Mismatch,
    /// A chart could not be drawn, or its folder cannot be written.
    Chart,
}

/// A failure with a one-line message that names the file, the line or the address.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), source: None }
    }

    pub(crate) fn with_source(self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// One line for people; the same as `Display`.
    pub fn message(&self) -> &str {
        &self.message
    }
}
