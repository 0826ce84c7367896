//! How far a download is, and how it is stopped.

use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// Hears of progress, in the thread that downloads, several times a second and more; [`ControlFlow::Break`] ends the
/// download with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
pub type ProgressCallback<'a> = &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>;

/// How far a download is. Counts may go down: a server that cannot go on from the middle starts a file anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// What is being done.
    pub phase: Phase,
    /// The file, by its name in the repository or the address.
    pub file: &'a str,
    /// Which of the files it is, from 0.
    pub file_index: usize,
    /// How many files there are. One that the cache holds counts, and may never be reported.
    pub file_count: usize,
    /// Bytes of this file that are there.
    pub file_bytes: u64,
    /// Bytes that this file has, if that is known yet.
    pub file_total: Option<u64>,
    /// Bytes of all files that are there.
    pub bytes: u64,
    /// Bytes that all files have, if that is known.
    pub total: Option<u64>,
}

/// What is being done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Another process or thread fetches the same file.
    Waiting,
    /// What an earlier run has left is read again, for the checksum.
    Checking,
    /// Bytes arrive.
    Downloading,
    /// The transfer broke and is tried again after a pause.
    Pausing,
}

/// The files of one download and the one who hears of them.
pub(crate) struct Reporter<'a> {
    callback: ProgressCallback<'a>,
    file: String,
    file_index: usize,
    file_count: usize,
    file_total: Option<u64>,
    bytes_before: u64,
    total: Option<u64>,
}

impl<'a> Reporter<'a> {
    /// A download of some files, of a size together that may be known.
    pub(crate) fn new(callback: ProgressCallback<'a>, file_count: usize, total: Option<u64>) -> Self {
        Self { callback, file: String::new(), file_index: 0, file_count, file_total: None, bytes_before: 0, total }
    }

    /// The same listener, for the files that have been found out.
    pub(crate) fn for_files(self, file_count: usize, total: Option<u64>) -> Self {
        Self { file_count, total, ..self }
    }

    /// Goes to a file; `bytes_before` is what the files before it have.
    pub(crate) fn begin(&mut self, file_index: usize, file: &str, file_total: Option<u64>, bytes_before: u64) {
        file.clone_into(&mut self.file);
        self.file_index = file_index;
        self.file_total = file_total;
        self.bytes_before = bytes_before;
    }

    /// Says how many bytes the file has, once that is known.
    pub(crate) fn set_file_total(&mut self, file_total: Option<u64>) {
        self.file_total = file_total;
        if self.file_count == 1 {
            self.total = file_total;
        }
    }

    /// Tells of progress.
    ///
    /// # Errors
    /// If the one who hears of it says to stop.
    pub(crate) fn report(&mut self, phase: Phase, file_bytes: u64) -> Result<()> {
        let progress = Progress {
            phase,
            file: &self.file,
            file_index: self.file_index,
            file_count: self.file_count,
            file_bytes,
            file_total: self.file_total,
            bytes: self.bytes_before.saturating_add(file_bytes),
            total: self.total,
        };
        match (self.callback)(&progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::cancelled()),
        }
    }
}
