//! An incomplete file on the disk, and the checksum of what is in it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::disk;
use crate::error::{Error, Result};
use crate::progress::{Phase, Reporter};

/// Bytes that are read, hashed and written at once.
pub(crate) const BUFFER_BYTES: usize = 128 << 10;

/// An incomplete file and the checksum of what is in it.
pub(crate) struct Part<'a> {
    path: &'a Path,
    file: File,
    hasher: Sha256,
    /// How many are there.
    pub(crate) bytes: u64,
}

impl<'a> Part<'a> {
    /// Opens the file, none of its bytes taken up.
    pub(crate) fn open(path: &'a Path) -> Result<Self> {
        // Whoever fails beside us removes a folder that is empty, also the one that was just made.
        let mut tries = 3;
        let file = loop {
            disk::create_parent(path)?;
            match disk::open_own(path) {
                Ok(file) => break file,
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries > 1 => tries -= 1,
                Err(error) => return Err(Error::io("open", path, error)),
            }
        };
        Ok(Self { path, file, hasher: Sha256::new(), bytes: 0 })
    }

    /// Takes up what an earlier run has left. More than the file has cannot be of it.
    pub(crate) fn take_up(&mut self, size: Option<u64>, reporter: &mut Reporter<'_>) -> Result<()> {
        let left = self.file.metadata().map_err(|error| Error::io("look at", self.path, error))?.len();
        if size.is_some_and(|size| left > size) {
            return Ok(());
        }
        let mut buffer = vec![0; BUFFER_BYTES];
        while self.bytes < left {
            let count = match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io("read", self.path, error)),
            };
            self.hasher.update(&buffer[..count]);
            self.bytes += count as u64;
            reporter.report(Phase::Checking, self.bytes)?;
        }
        Ok(())
    }

    /// Throws away what is there.
    pub(crate) fn start_anew(&mut self) -> Result<()> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map_err(|error| Error::io("empty", self.path, error))?;
        self.hasher = Sha256::new();
        self.bytes = 0;
        Ok(())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Sees that all is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// The SHA-256 of all that is there, in small hexadecimal letters.
    pub(crate) fn sha256(&self) -> String {
        hexadecimal(&self.hasher.clone().finalize())
    }

    /// What git calls a file with these contents, in small hexadecimal letters. Its length stands before the contents,
    /// so they are read once more; only files that are not large are called so.
    pub(crate) fn git_blob(&mut self) -> Result<String> {
        let mut hasher = Sha1::new();
        hasher.update(format!("blob {}\0", self.bytes));
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut read = |file: &mut File| -> io::Result<()> {
            file.seek(SeekFrom::Start(0))?;
            loop {
                match file.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(count) => hasher.update(&buffer[..count]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        };
        read(&mut self.file).map_err(|error| Error::io("read", self.path, error))?;
        Ok(hexadecimal(&hasher.finalize()))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;

    #[test]
    fn contents_have_the_names_that_git_gives_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        // As `git hash-object` says.
        for (contents, name) in [
            (&b""[..], "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (b"{}", "9e26dfeeb6e641a33dae4961196235bdb965b21b"),
        ] {
            let mut part = Part::open(&path).unwrap();
            part.start_anew().unwrap();
            part.write(contents).unwrap();
            assert_eq!(part.git_blob().unwrap(), name);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_its_place_is_replaced_and_what_it_leads_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("part"), folder.path().join("other"));
        for contents in [Some("precious"), None] {
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_file(&other);
            if let Some(contents) = contents {
                std::fs::write(&other, contents).unwrap();
            }
            std::os::unix::fs::symlink(&other, &path).unwrap();
            let mut part = Part::open(&path).unwrap();
            part.start_anew().unwrap();
            part.write(b"new").unwrap();
            assert_eq!(std::fs::read_to_string(&other).ok().as_deref(), contents);
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            assert!(!std::fs::symlink_metadata(&path).unwrap().is_symlink());
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(Part::open(&path).is_err());
    }
}
