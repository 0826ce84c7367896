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

/// Holds what a file still needs against the room that is left in a folder that exists. A file system that does not
/// say how much room it has is tried.
pub(crate) fn check_room(what: &str, needed: u64, folder: &Path) -> Result<()> {
    match fs4::available_space(folder) {
        Ok(free) if free < needed => Err(Error::disk_full(what, Some(needed), free, folder)),
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::debug!("free space in {} is not known: {error}", folder.display());
            Ok(())
        }
    }
}

/// The error of a failed write, which may be for want of room. `needed` is what was still to be written, if that is known.
pub(crate) fn write_error(what: &str, needed: Option<u64>, path: &Path, error: io::Error) -> Error {
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if !is_full {
        return Error::io("write", path, error);
    }
    let folder = path.parent().unwrap_or(path);
    let free = fs4::available_space(folder).unwrap_or(0);
    Error::disk_full(what, needed, free, folder).with_source(error)
}

/// Writes a small file whole: whoever reads it sees what was there before or all of `contents`.
pub(crate) fn write_whole(path: &Path, contents: &[u8]) -> Result<()> {
    create_parent(path)?;
    let temporary = temporary_beside(path);
    let written = fs::File::create(&temporary).and_then(|mut file| {
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
