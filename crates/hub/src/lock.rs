//! One writer for each file, across threads and processes.
//!
//! The lock is the operating system's on an empty file (`flock`, as Python's `filelock` takes it), so it is gone with
//! the process that held it, however that ended. The file stays: to remove it would let two processes lock two files of
//! one name.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::disk;
use crate::error::{Error, Result};
use crate::progress::{Phase, Reporter};

/// How often a lock that another holds is asked for again.
const PAUSE: Duration = Duration::from_millis(50);

/// The right to write a file, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Closing it unlocks it.
    file: Option<File>,
}

impl Lock {
    /// Waits for the right to write what `path` stands for.
    ///
    /// # Errors
    /// If the file cannot be made, or the one who waits is told to stop.
    pub(crate) fn take(path: &Path, reporter: &mut Reporter<'_>) -> Result<Self> {
        disk::create_parent(path)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(|error| Error::io("open the lock", path, error))?;
        let mut is_told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file: Some(file) }),
                Err(TryLockError::WouldBlock) => {
                    if !is_told {
                        tracing::info!("waiting for another process that holds {}", path.display());
                        is_told = true;
                    }
                    reporter.report(Phase::Waiting, 0)?;
                    thread::sleep(PAUSE);
                }
                Err(TryLockError::Error(error)) if is_without_locks(&error) => {
                    tracing::warn!("{} cannot be locked; files may be fetched twice", path.display());
                    return Ok(Self { file: None });
                }
                Err(TryLockError::Error(error)) => return Err(Error::io("take the lock", path, error)),
            }
        }
    }

    /// Whether nobody else writes. Not so on a file system without locks: then a name that nobody else uses must do.
    pub(crate) fn is_held(&self) -> bool {
        self.file.is_some()
    }

    /// Removes what was left unfinished under such a name: nobody would find it to go on from.
    pub(crate) fn let_go_of(&self, incomplete: &Path) {
        if !self.is_held()
            && let Err(error) = disk::remove(incomplete)
        {
            tracing::warn!("{error}");
        }
    }
}

/// Whether a file system has no locks. One that is mounted over NFS, and whose server runs no lock daemon, has none
/// available rather than none at all.
fn is_without_locks(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::ENOLCK) {
        return true;
    }
    error.kind() == std::io::ErrorKind::Unsupported
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_file_system_without_locks_is_told_from_a_failure() {
        assert!(is_without_locks(&io::ErrorKind::Unsupported.into()));
        #[cfg(unix)]
        assert!(is_without_locks(&io::Error::from_raw_os_error(libc::ENOLCK)));
        assert!(!is_without_locks(&io::ErrorKind::PermissionDenied.into()));
    }
}
