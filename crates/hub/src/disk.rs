//! Folders, free room, and files that appear whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Makes the folder that a file is to stand in.
pub(crate) fn create_parent(path: &Path) -> Result<()> {
    create_folder(path.parent().unwrap_or(path))
}

/// Makes a folder and those above it.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))
}

/// Bytes that are free in a folder, or will be when it is made; none if the file system does not say.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let folder = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    fs4::available_space(folder)
        .inspect_err(|error| tracing::debug!("free space in {} is not known: {error}", folder.display()))
        .ok()
}

/// Holds what a file still needs against the room that is left in a folder. A file system that does not say how much
/// room it has is tried.
pub(crate) fn check_room(what: &str, needed: u64, folder: &Path) -> Result<()> {
    match free_bytes(folder) {
        Some(free) if free < needed => Err(Error::disk_full(what, Some(needed), free, folder)),
        _ => Ok(()),
    }
}

/// Room for a body that does not say how long it is. It may be endless, so it is held against what is free as it
/// arrives, and other programs keep some.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes that may arrive until the file system is asked again.
    left: u64,
}

impl Room {
    /// What is left to other programs, in bytes.
    pub(crate) const RESERVE_BYTES: u64 = 64 << 20;

    /// How much may arrive before the file system is asked again, in bytes.
    const STEP_BYTES: u64 = 256 << 20;

    /// Takes room for what has arrived. `free` asks the file system.
    ///
    /// # Errors
    /// With what is free, if that is too little.
    pub(crate) fn take(&mut self, bytes: u64, free: impl FnOnce() -> Option<u64>) -> Result<(), u64> {
        if self.left < bytes {
            self.left = match free() {
                Some(free) if free < Self::RESERVE_BYTES.saturating_add(bytes) => return Err(free),
                Some(free) => (free - Self::RESERVE_BYTES).min(Self::STEP_BYTES.max(bytes)),
                None => Self::STEP_BYTES.max(bytes),
            };
        }
        self.left -= bytes;
        Ok(())
    }
}

/// Opens a file that only this crate writes, for reading and writing. A link that somebody put there, to have another
/// file written over, is not followed but replaced.
pub(crate) fn open_own(path: &Path) -> io::Result<fs::File> {
    if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        fs::remove_file(path)?;
        tracing::warn!("{} was not a file and is replaced", path.display());
    }
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    // It may have become a link just now.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
    options.open(path)
}

/// The error of a failed write, which may be for want of room. `needed` is what was still to be written, if that is
/// known.
pub(crate) fn write_error(what: &str, needed: Option<u64>, path: &Path, error: io::Error) -> Error {
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if !is_full {
        return Error::io("write", path, error);
    }
    let folder = path.parent().unwrap_or(path);
    Error::disk_full(what, needed, free_bytes(folder).unwrap_or(0), folder)
}

/// Writes a small file whole: whoever reads it sees what was there before or all of `contents`.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    create_parent(path)?;
    let temporary = temporary_beside(path);
    let written = open_own(&temporary).and_then(|mut file| {
        // One of this name may be left of a process that was killed.
        file.set_len(0)?;
        file.write_all(contents)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&temporary, path)).map_err(|error| {
        // It is an error already; what else goes wrong is not the news.
        let _ = fs::remove_file(&temporary);
        write_error("a note of a download", Some(contents.len() as u64), path, error)
    })
}

/// A name beside `path` that nobody else uses now.
pub(crate) fn temporary_beside(path: &Path) -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}.incomplete", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

/// How long a file is; none if it is not there.
pub(crate) fn file_size(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len())
}

/// Removes a file that has nothing in it.
pub(crate) fn remove_empty(path: &Path) {
    let is_empty = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
    if is_empty && let Err(error) = remove(path) {
        tracing::warn!("{error}");
    }
}

/// Removes a file that may not be there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_write_that_fails_for_want_of_room_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let error = |kind: io::ErrorKind, needed| write_error("file", needed, &path, kind.into());
        let full = error(io::ErrorKind::StorageFull, Some(2_048));
        assert_eq!(full.kind(), ErrorKind::DiskFull);
        assert!(full.message().starts_with("file needs 2.00 KiB, "), "{full}");
        assert!(error(io::ErrorKind::QuotaExceeded, None).message().starts_with("file needs more room, "));
        assert_eq!(error(io::ErrorKind::PermissionDenied, None).kind(), ErrorKind::Io);
    }

    #[test]
    fn a_body_without_an_end_leaves_room_to_others() {
        const MIB: u64 = 1 << 20;
        let mut room = Room::default();
        let asked = std::cell::Cell::new(0);
        let mut take = |mib: u64, free: Option<u64>| {
            room.take(mib * MIB, || {
                asked.set(asked.get() + 1);
                free.map(|free| free * MIB)
            })
        };
        for _ in 0..256 {
            take(1, Some(10_000)).unwrap();
        }
        assert_eq!(asked.get(), 1);
        take(1, Some(66)).unwrap();
        take(1, None).unwrap();
        assert_eq!(asked.get(), 2, "room for two was left");
        assert_eq!(take(1, Some(64)).unwrap_err(), 64 * MIB, "what is kept for others is not taken");
        assert_eq!(asked.get(), 3);
        take(1, None).unwrap();
        take(255, Some(0)).unwrap();
        assert_eq!(take(1, Some(0)).unwrap_err(), 0);
    }

    #[test]
    fn room_is_looked_for_where_a_folder_will_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a").join("b");
        assert!(free_bytes(&path).is_some_and(|free| free > 0));
        let error = check_room("file", u64::MAX, &path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert!(!folder.path().join("a").exists());
    }

    #[test]
    fn a_small_file_is_replaced_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a").join("note");
        for contents in ["one", "another"] {
            write_whole(&path, contents.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(write_whole(&folder.path().join("folder"), b"x").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
