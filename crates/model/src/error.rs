//! Why a model cannot be opened.

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file cannot be read or written.
    Io,
    /// A file is not a sound model, or its parts do not fit each other.
    InvalidFile,
    /// A sound file that cannot decide: another architecture, or no head.
    Unsupported,
    /// Options that make no sense for this model.
    InvalidOption,
    /// Memory ran out.
    OutOfMemory,
    /// A chat template cannot be compiled, or fails.
    Template,
    /// A text to write from that does not fit the model, or images that cannot be read.
    Request,
    /// Loading was stopped by the caller.
    Stopped,
    /// llama.cpp failed.
    Upstream,
}

/// An error with a one-line message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
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
}

fn kind_of(error: &clef_llama::Error) -> ErrorKind {
    use clef_llama::ErrorKind as Below;
    match error.kind() {
        Below::Io => ErrorKind::Io,
        Below::InvalidFile => ErrorKind::InvalidFile,
        Below::Unsupported => ErrorKind::Unsupported,
        Below::InvalidArgument => ErrorKind::InvalidOption,
        Below::OutOfMemory => ErrorKind::OutOfMemory,
        Below::Aborted => ErrorKind::Stopped,
        _ => ErrorKind::Upstream,
    }
}

impl From<clef_llama::Error> for Error {
    fn from(source: clef_llama::Error) -> Self {
        Self { kind: kind_of(&source), message: source.to_string(), source: Some(Box::new(source)) }
    }
}

impl From<clef_head::Error> for Error {
    fn from(source: clef_head::Error) -> Self {
        let kind = match source.kind() {
            clef_head::ErrorKind::Io => ErrorKind::Io,
            clef_head::ErrorKind::Missing => ErrorKind::Unsupported,
            clef_head::ErrorKind::InvalidFile => ErrorKind::InvalidFile,
            clef_head::ErrorKind::InvalidArgument => ErrorKind::InvalidOption,
            _ => source.llama().map_or(ErrorKind::Upstream, kind_of),
        };
        Self { kind, message: source.to_string(), source: Some(Box::new(source)) }
    }
}
