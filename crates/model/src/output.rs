//! A file that appears whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// A file being written beside the place where it will stand; removed again unless it gets there.
#[derive(Debug)]
pub(crate) struct Output {
    target: PathBuf,
    draft: PathBuf,
    file: File,
    overwrite: bool,
    length: u64,
    placed: bool,
}

impl Output {
    /// Begins a file. One that is there already is left alone unless `overwrite` says otherwise.
    pub(crate) fn create(target: &Path, overwrite: bool) -> Result<Self> {
        // A link stays one: what it leads to is written.
        let target = &std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        refuse_existing(target, overwrite)?;
        let nameless = target.as_os_str().as_encoded_bytes().ends_with(b"/") || target.as_os_str() == "-";
        let name = target.file_name().filter(|_| !nameless).map(ToOwned::to_owned);
        let mut name = name.ok_or_else(|| {
            let what = format_args!("{:?} is not the name of a file", target.display().to_string());
            Error::new(ErrorKind::InvalidOption, what)
        })?;
        name.push(format!(".{}.part", std::process::id()));
        let draft = target.with_file_name(name);
        // One that is there was left by a program that had this number and is no more.
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&draft);
        let file = file.map_err(|e| failed("create", target, &e))?;
        Ok(Self { target: target.to_owned(), draft, file, overwrite, length: 0, placed: false })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.length += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|e| failed("write", &self.target, &e))
    }

    /// Fills up to the next multiple of `alignment` with zeros.
    pub(crate) fn pad(&mut self, alignment: u64) -> Result<()> {
        let missing = self.length.next_multiple_of(alignment) - self.length;
        self.write(&vec![0; missing as usize])
    }

    /// Puts the file in its place; returns its length.
    pub(crate) fn place(mut self) -> Result<u64> {
        self.file.sync_all().map_err(|e| failed("write", &self.target, &e))?;
        refuse_existing(&self.target, self.overwrite)?;
        std::fs::rename(&self.draft, &self.target).map_err(|e| failed("write", &self.target, &e))?;
        self.placed = true;
        Ok(self.length)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.placed {
            // There is an error to tell already; what else goes wrong is not the news.
            let _ = std::fs::remove_file(&self.draft);
        }
    }
}

fn refuse_existing(target: &Path, overwrite: bool) -> Result<()> {
    let shown = target.display();
    match std::fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() => Err(Error::new(ErrorKind::Io, format_args!("{shown} is a folder"))),
        Ok(found) if !found.is_file() => {
            Err(Error::new(ErrorKind::Io, format_args!("{shown} is there and is not a file")))
        }
        Ok(_) if !overwrite => {
            let what = format_args!("{shown} exists already; --force replaces it");
            Err(Error::new(ErrorKind::Io, what))
        }
        _ => Ok(()),
    }
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format_args!("cannot {verb} {}: {error}", path.display()))
}
