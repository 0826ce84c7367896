//! Why there is no file, and what the person who asked for it can do about it.
//!
//! A message names the repository, file or address and the next step: it may be all that a user sees before the process
//! ends. It never holds a token, nor the query of an address (which may be a signature).

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::text::Bytes;

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for callers that decide what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What was asked for cannot be asked for: a repository, revision, file name, address, token or proxy that is none.
    InvalidRequest,
    /// No token, or one that is refused.
    Unauthorized,
    /// The repository is open only to those who accepted its terms.
    Gated,
    /// No such repository, or a private one.
    RepoNotFound,
    /// The repository has no such branch, tag or commit.
    RevisionNotFound,
    /// No such file, no file of that quantization, a part of a set is missing, or nothing at that address.
    FileNotFound,
    /// No connection: no network, no such host, refused, no TLS.
    Unreachable,
    /// The connection broke, stalled or trickled, as often as that is put up with.
    Interrupted,
    /// The other side answered that it cannot serve now, or is asked too often.
    Server,
    /// The other side answered something that means nothing, or that is not let in.
    Protocol,
    /// What arrived is not what was announced: wrong size or checksum. Nothing of it was kept.
    Corrupt,
    /// There is not enough room for the file.
    DiskFull,
    /// A file or folder of the cache cannot be read or written.
    Io,
    /// No network may be used and the cache does not hold what was asked for.
    Offline,
    /// The callback for progress said to stop. The next download goes on from what had arrived, where that can be done.
    Cancelled,
}

/// A failure with a one-line message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    is_transient: bool,
    retry_after: Option<Duration>,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), is_transient: false, retry_after: None, source: None }
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "the download was cancelled; the next one goes on where it can")
    }

    /// No room for what is `needed`, in bytes, if that is known.
    pub(crate) fn disk_full(what: &str, needed: Option<u64>, free: u64, folder: &Path) -> Self {
        let needed = needed.map_or("more room".to_owned(), |needed| Bytes(needed).to_string());
        let free = Bytes(free);
        let folder = folder.display();
        let help = "make room, or set HF_HOME (for -mu: XDG_CACHE_HOME) to a folder on a larger disk";
        Self::new(ErrorKind::DiskFull, format_args!("{what} needs {needed}, {free} are free in {folder}; {help}"))
    }

    /// A failure to do `action` (as "write") with `path`.
    pub(crate) fn io(action: &str, path: &Path, source: io::Error) -> Self {
        Self::new(ErrorKind::Io, format_args!("cannot {action} {}: {source}", path.display())).with_source(source)
    }

    pub(crate) fn with_source(self, source: impl StdError + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// Marks a failure that may not happen again.
    pub(crate) fn transient(self) -> Self {
        Self { is_transient: true, ..self }
    }

    pub(crate) fn with_retry_after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }

    pub(crate) fn with_message(self, message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), ..self }
    }

    /// Whether the same thing may succeed a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// How long the other side asked to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// One line for people, a few kilobytes at most; the same as `Display`.
    pub fn message(&self) -> &str {
        &self.message
    }
}
