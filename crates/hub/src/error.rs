//! Why there is no file, and what the person who asked for it can do about it.
//!
//! A message names the repository, file or address, then the cause, then the next step: it may be all that a user sees
//! before the process ends. It never holds a token, nor the query of an address (which may be a signature). Who prints
//! an error with its sources can leave out what was said: the message has the text of its source.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::text::{Bytes, distinct};

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, for callers that decide what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What was asked for cannot be asked for: the name of a repository, revision or file, the address, token or proxy
    /// is not one.
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
    /// The other side answered that it cannot serve now, or no more of so many requests.
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
    /// What went wrong, and why.
    fault: String,
    /// What can be done about it; may be empty.
    advice: String,
    /// Both.
    message: String,
    retry: Retry,
    retry_after: Option<Duration>,
    #[source]
    source: Option<io::Error>,
}

/// Whether the same thing may succeed a moment later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    Never,
    /// Once more, in case somebody was just replacing the file: a contradiction that stays is not one of these.
    Once,
    /// As often as there is patience.
    Patiently,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, fault: impl fmt::Display) -> Self {
        let fault = fault.to_string();
        let message = fault.clone();
        Self { kind, fault, advice: String::new(), message, retry: Retry::Never, retry_after: None, source: None }
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "the download was cancelled; the next one goes on where it can")
    }

    /// No room for what is `needed`, in bytes, if that is known.
    pub(crate) fn disk_full(what: &str, needed: Option<u64>, free: u64, folder: &Path) -> Self {
        let (needed, free) = match needed {
            Some(needed) => distinct(needed, free),
            None => ("more room".to_owned(), Bytes(free).to_string()),
        };
        let folder = folder.display();
        Self::new(ErrorKind::DiskFull, format_args!("{what} needs {needed}, {free} are free in {folder}"))
    }

    /// A failure to do `action` (as "write") with `path`.
    pub(crate) fn io(action: &str, path: &Path, source: io::Error) -> Self {
        Self::new(ErrorKind::Io, format_args!("cannot {action} {}: {source}", path.display())).with_source(source)
    }

    /// Attaches a cause that the message names. One that it names only in part is left off: whoever prints causes
    /// behind messages would say it again.
    pub(crate) fn with_source(self, source: io::Error) -> Self {
        let source = self.fault.contains(&source.to_string()).then_some(source);
        Self { source, ..self }
    }

    /// Says what can be done about it, in place of what was said of that before.
    pub(crate) fn with_advice(self, advice: impl fmt::Display) -> Self {
        Self { advice: advice.to_string(), ..self }.composed()
    }

    /// Says more of what went wrong.
    pub(crate) fn and(mut self, more: impl fmt::Display) -> Self {
        self.fault.push_str(&more.to_string());
        self.composed()
    }

    fn composed(mut self) -> Self {
        let separator = if self.advice.is_empty() { "" } else { "; " };
        self.message = format!("{}{separator}{}", self.fault, self.advice);
        self
    }

    /// Says what can be done about a cache that is full or not to be written to. `variable` is the one that says where
    /// the cache is; none if no variable does.
    pub(crate) fn with_cache_advice(self, variable: Option<&str>) -> Self {
        use io::ErrorKind::{NotADirectory, PermissionDenied, ReadOnlyFilesystem};
        let (first, folder) = match (self.kind, self.source.as_ref().map(io::Error::kind)) {
            (ErrorKind::DiskFull, _) => ("make room, or ", "on a larger disk"),
            (ErrorKind::Io, Some(NotADirectory | PermissionDenied | ReadOnlyFilesystem)) => {
                ("", "that can be written to")
            }
            _ => return self,
        };
        match variable {
            Some(variable) => self.with_advice(format_args!("{first}set {variable} to a folder {folder}")),
            None => self.with_advice(format_args!("{first}keep models in a folder {folder}")),
        }
    }

    /// Marks a failure that may not happen again.
    pub(crate) fn transient(self) -> Self {
        Self { retry: Retry::Patiently, ..self }
    }

    /// Marks a failure that may have been an accident the first time.
    pub(crate) fn worth_one_retry(self) -> Self {
        Self { retry: Retry::Once, ..self }
    }

    pub(crate) fn with_retry_after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }

    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    /// How long the other side asked to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What went wrong and why, without what can be done about it.
    pub(crate) fn fault(&self) -> &str {
        &self.fault
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn a_message_is_the_fault_and_its_cause_and_then_the_advice() {
        let refused = || io::Error::other("no");
        let error = Error::io("write", Path::new("/x"), refused()).with_advice("do this").and(" (twice)");
        assert_eq!(error.message(), "cannot write /x: no (twice); do this");
        assert_eq!(error.fault(), "cannot write /x: no (twice)");
        assert_eq!(error.source().unwrap().to_string(), "no");
        let error = Error::new(ErrorKind::Io, "something").with_source(refused());
        assert!(error.source().is_none(), "what the message does not name is not said behind it");
    }

    #[test]
    fn a_cache_that_is_of_no_use_is_to_be_elsewhere() {
        let io_error = |kind: io::ErrorKind| Error::io("write", Path::new("/x"), kind.into());
        let full = || Error::disk_full("file", Some(2_048), 1_024, Path::new("/x"));
        let advised = full().with_cache_advice(Some("HF_HUB_CACHE"));
        assert_eq!(
            advised.message(),
            "file needs 2.00 KiB, 1.00 KiB are free in /x; make room, or set HF_HUB_CACHE to a folder on a larger disk"
        );
        assert!(
            full()
                .with_cache_advice(None)
                .message()
                .ends_with("; make room, or keep models in a folder on a larger disk")
        );
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::NotADirectory] {
            let error = io_error(kind).with_cache_advice(Some("LLAMA_CACHE"));
            assert!(error.message().ends_with("; set LLAMA_CACHE to a folder that can be written to"), "{error}");
        }
        assert!(!io_error(io::ErrorKind::Other).with_cache_advice(Some("LLAMA_CACHE")).message().contains("LLAMA"));
    }
}
