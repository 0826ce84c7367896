//! What can be wrong with a record, and whose fault it is.
//!
//! A server turns these into one of a few status codes and a command line into one line of text, so an error carries
//! the kind (which code), the place in the body (`loc`), a slug for programs (`type`) and a message for people. All
//! four are bounded: together they stay far below two kilobytes whatever the client sent.

use std::fmt;

use crate::text::{Grouped, Shortened};

/// A request that is refused, or logits that mean nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RecordError {
    kind: RecordErrorKind,
    message: String,
    loc: Vec<LocItem>,
    slug: &'static str,
}

/// Which sort of refusal an error is; a server maps each to a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordErrorKind {
    /// The body is not JSON (RFC 8259 in UTF-8), or holds half of a surrogate pair.
    Json(Position),
    /// Arrays and objects are nested deeper than [`json::MAX_DEPTH`](crate::json::MAX_DEPTH).
    Nesting(Position),
    /// The body, or what it would grow to, is over a fixed bound of this crate.
    TooLarge,
    /// Well-formed, but against a rule of the API.
    Invalid,
    /// The model returned logits of the wrong count, or NaN, or infinities. Never the client's fault.
    Logits,
}

/// A place in the body's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Bytes before the place, from 0.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The position of a byte offset; `body` need not be valid UTF-8 after it.
    pub(crate) fn of(body: &[u8], offset: usize) -> Self {
        let before = &body[..offset.min(body.len())];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let is_character_start = |byte: &&u8| (**byte & 0b1100_0000) != 0b1000_0000;
        Self {
            offset,
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: before[line_start..].iter().filter(is_character_start).count() + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {} (byte {})", self.line, self.column, self.offset)
    }
}

/// One step from the body to the value that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocItem {
    /// A field of an object, or the root `body`; shortened as in messages.
    Field(String),
    /// An element of an array, from 0.
    Index(usize),
}

impl LocItem {
    /// A step into an object's field, the name shortened to what a message may repeat.
    pub fn field(name: &str) -> Self {
        Self::Field(Shortened(name).to_string())
    }
}

impl From<&str> for LocItem {
    fn from(name: &str) -> Self {
        Self::field(name)
    }
}

impl From<usize> for LocItem {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

impl fmt::Display for LocItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Index(index) => write!(f, "{index}"),
        }
    }
}

impl RecordError {
    /// Which sort of refusal this is.
    pub fn kind(&self) -> RecordErrorKind {
        self.kind
    }

    /// One line for people, at most one kilobyte; the same as `Display`.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The place: `["body", "questions", "q1", "criteria"]`. Empty for [`RecordErrorKind::Logits`].
    pub fn loc(&self) -> &[LocItem] {
        &self.loc
    }

    /// A slug for programs: `json_invalid`, `missing`, `duplicate_key`, ...
    pub fn slug(&self) -> &'static str {
        self.slug
    }

    /// Where the body stops being acceptable JSON, for the kinds that know.
    pub fn position(&self) -> Option<Position> {
        match self.kind {
            RecordErrorKind::Json(position) | RecordErrorKind::Nesting(position) => Some(position),
            _ => None,
        }
    }

    pub(crate) fn json(body: &[u8], offset: usize, what: &str) -> Self {
        let position = Position::of(body, offset);
        Self {
            kind: RecordErrorKind::Json(position),
            message: format!("body is not valid JSON: {what} at {position}"),
            loc: vec!["body".into(), offset.into()],
            slug: "json_invalid",
        }
    }

    pub(crate) fn nesting(body: &[u8], offset: usize, limit: usize) -> Self {
        let position = Position::of(body, offset);
        Self {
            kind: RecordErrorKind::Nesting(position),
            message: format!("body is nested deeper than {limit} arrays and objects at {position}"),
            loc: vec!["body".into()],
            slug: "nested_too_deep",
        }
    }

    pub(crate) fn too_large(what: &str, bytes: usize, limit: usize) -> Self {
        Self {
            kind: RecordErrorKind::TooLarge,
            message: format!("{what} {} bytes, the limit is {}", Grouped(bytes), Grouped(limit)),
            loc: vec!["body".into()],
            slug: "too_large",
        }
    }

    pub(crate) fn invalid(loc: Vec<LocItem>, slug: &'static str, message: String) -> Self {
        Self { kind: RecordErrorKind::Invalid, message, loc, slug }
    }

    pub(crate) fn logits(message: String) -> Self {
        Self { kind: RecordErrorKind::Logits, message, loc: Vec::new(), slug: "bad_logits" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let body = "{\n \"é\": x".as_bytes();
        let position = Position::of(body, body.len() - 1);
        assert_eq!((position.offset, position.line, position.column), (9, 2, 7));
        assert_eq!(position.to_string(), "line 2 column 7 (byte 9)");
    }
}
