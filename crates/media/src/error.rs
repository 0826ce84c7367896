//! Why a picture is refused.
//!
//! Nearly all of these are the client's to mend, and a server passes the message on as it is: it names what was found,
//! the limit or the choices, and repeats nothing of what the client sent.

use std::error::Error as StdError;
use std::fmt;

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for callers that decide what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A URL that would have to be fetched (`https:`, `file:`, ...).
    RemoteUrl,
    /// Base64 without the `data:` in front of it.
    BareBase64,
    /// Some other text, or a data URL that is not base64.
    NotADataUrl,
    /// A data URL whose base64 does not decode.
    InvalidBase64,
    /// The bytes are no picture, or one of a format that is not read.
    UnsupportedFormat,
    /// A sound file of a format that is read, of a variety that is not.
    UnsupportedVariety,
    /// The file is cut off or contradicts itself.
    Damaged,
    /// The file asks for more pixels, frames or memory than the limits allow.
    TooLarge,
    /// The reference refuses this shape: too elongated, or too few frames.
    Shape,
    /// An argument that no file can be blamed for, such as a target without pixels: a fault of the caller.
    InvalidArgument,
}

/// A refusal with a one-line message that names the value and the limit.
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

    pub(crate) fn damaged(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Damaged, message)
    }

    pub(crate) fn with_source(self, source: impl StdError + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// One line for people, at most one kilobyte; the same as `Display`.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// Displays a count with a comma between thousands: `16,777,216`.
pub(crate) struct Grouped(pub(crate) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}
