//! What can go wrong in the head.

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for callers that decide what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be read.
    Io,
    /// The file holds no head.
    Missing,
    /// The file holds a head that contradicts itself or the backbone.
    InvalidFile,
    /// Spans or hidden states that do not belong together: a fault of the caller.
    InvalidArgument,
    /// The computation failed; the source says why.
    Compute,
}

/// An error with a one-line message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    #[source]
    source: Option<clef_llama::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl std::fmt::Display) -> Self {
        // A path may hold anything; a message is one line.
        Self { kind, message: message.to_string().replace(char::is_control, " "), source: None }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The error of the layer below, if that is where it came from.
    pub fn llama(&self) -> Option<&clef_llama::Error> {
        self.source.as_ref()
    }
}

impl From<clef_llama::Error> for Error {
    fn from(source: clef_llama::Error) -> Self {
        Self { kind: ErrorKind::Compute, message: source.to_string(), source: Some(source) }
    }
}
