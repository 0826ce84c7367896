//! One error type for everything that can go wrong between a file and a hidden state.

use std::fmt;

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, for callers that decide what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open or read a file.
    Io,
    /// The bytes are not a GGUF file, or one that is cut off or contradicts itself.
    InvalidFile,
    /// A sound file that this build cannot use (another architecture, an unknown type).
    Unsupported,
    /// An argument is outside what the model or the context allows.
    InvalidArgument,
    /// Memory for weights, cache or graph could not be had.
    OutOfMemory,
    /// The caller asked for the computation to stop.
    Aborted,
    /// llama.cpp reported a failure of its own.
    Upstream,
}

/// An error with a one-line message that names the value and the limit.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    #[source]
    source: Option<std::io::Error>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: one_line(message), source: None }
    }

    pub(crate) fn io(message: impl fmt::Display, source: std::io::Error) -> Self {
        let message = one_line(format_args!("{message}: {source}"));
        Self { kind: ErrorKind::Io, message, source: Some(source) }
    }

    pub(crate) fn invalid(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::InvalidFile, message)
    }

    pub(crate) fn unsupported(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    pub(crate) fn argument(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Something llama.cpp said no to: `what` failed, with the last complaint it logged.
    pub(crate) fn upstream(what: impl fmt::Display) -> Self {
        match crate::log::take_last_complaint() {
            Some(line) => {
                let kind = if line.contains("failed to allocate") || line.contains("unable to allocate") {
                    ErrorKind::OutOfMemory
                } else {
                    ErrorKind::Upstream
                };
                Self::new(kind, format_args!("{what}: {line}"))
            }
            None => Self::new(ErrorKind::Upstream, what),
        }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// The longest message; beyond it a file is quoted, not described.
const MAX_MESSAGE_CHARS: usize = 1000;

/// One short line without control characters, whatever a file or the library put into it: logs are read line by line,
/// and terminals obey escape sequences.
fn one_line(message: impl fmt::Display) -> String {
    let message = message.to_string().replace(char::is_control, " ");
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message,
    }
}
