//! Reading a data file a line at a time.
//!
//! A line may hold megabytes of pictures and a file a million lines, so nothing but the lines that are being worked on is
//! ever in memory, and a line beyond the limit is passed over without being kept.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use clef_record::Grouped;

use crate::case::{Case, LineFault};
use crate::error::{Error, ErrorKind, Result};

/// How a data file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetOptions {
    /// A line without any gold answer is at fault. True by default; comparisons need none.
    pub require_gold: bool,
    /// The longest line, in bytes. 128 MiB by default: a server takes bodies of 100 MiB.
    pub max_line_bytes: usize,
}

impl Default for DatasetOptions {
    fn default() -> Self {
        Self { require_gold: true, max_line_bytes: 128 << 20 }
    }
}

/// A data file: JSON lines, each a [`Case`]. Empty lines are passed over.
#[derive(Debug)]
pub struct Dataset<R> {
    reader: R,
    options: DatasetOptions,
    line: u64,
    total: Option<u64>,
}

/// A line of a data file, unread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    number: u64,
    /// The text, or the length of one beyond the limit.
    text: std::result::Result<Vec<u8>, usize>,
    options: DatasetOptions,
}

impl Dataset<BufReader<File>> {
    /// Opens a file and counts its lines, which reads it once.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path, options: DatasetOptions) -> Result<Self> {
        let fault = |error: io::Error| {
            Error::new(ErrorKind::Data, format_args!("cannot read {}: {error}", path.display())).with_source(error)
        };
        let open = || Ok(BufReader::with_capacity(1 << 16, File::open(path)?));
        let total = open().and_then(count_lines).map_err(fault)?;
        let reader = open().map_err(fault)?;
        Ok(Self { total: Some(total), ..Self::new(reader, options) })
    }
}

impl<R: BufRead> Dataset<R> {
    /// Reads from anywhere; how many lines there are is not known.
    pub fn new(reader: R, options: DatasetOptions) -> Self {
        Self { reader, options, line: 0, total: None }
    }

    /// How many lines are not empty, if that is known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// The next line that is not empty.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_line(&mut self) -> Result<Option<Line>> {
        loop {
            let limit = self.options.max_line_bytes;
            let text = read_line(&mut self.reader, limit).map_err(|error| {
                let message = format!("cannot read the data after line {}: {error}", self.line);
                Error::new(ErrorKind::Data, message).with_source(error)
            })?;
            let Some(text) = text else { return Ok(None) };
            self.line += 1;
            if !text.as_ref().is_ok_and(|text| text.trim_ascii().is_empty()) {
                return Ok(Some(Line { number: self.line, text, options: self.options }));
            }
        }
    }
}

impl Line {
    /// The line's number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reads it.
    ///
    /// # Errors
    /// If it is longer than the limit, and as [`Case::parse`].
    pub fn case(self) -> std::result::Result<Case, LineFault> {
        match self.text {
            Ok(text) => Case::parse(self.number, &text, self.options.require_gold),
            Err(length) => Err(LineFault {
                line: self.number,
                id: None,
                message: format!(
                    "line has {} bytes, the limit is {}",
                    Grouped(length),
                    Grouped(self.options.max_line_bytes)
                ),
            }),
        }
    }
}

/// The next line without its end, or its length if that is beyond the limit; `None` at the end of the file.
fn read_line(reader: &mut impl BufRead, limit: usize) -> io::Result<Option<std::result::Result<Vec<u8>, usize>>> {
    let mut text = Vec::new();
    let mut length = 0;
    let mut is_at_end = true;
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        if buffer.is_empty() {
            break;
        }
        is_at_end = false;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        length += part.len();
        if length <= limit {
            text.extend_from_slice(part);
        } else {
            text = Vec::new();
        }
        let taken = part.len() + usize::from(end.is_some());
        reader.consume(taken);
        if end.is_some() {
            break;
        }
    }
    Ok((!is_at_end).then_some(if length <= limit { Ok(text) } else { Err(length) }))
}

fn count_lines(mut reader: impl BufRead) -> io::Result<u64> {
    let mut lines = 0;
    let mut is_filled = false;
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        if buffer.is_empty() {
            return Ok(lines + u64::from(is_filled));
        }
        for &byte in buffer {
            if byte == b'\n' {
                lines += u64::from(is_filled);
                is_filled = false;
            } else {
                is_filled |= !byte.is_ascii_whitespace();
            }
        }
        let taken = buffer.len();
        reader.consume(taken);
    }
}
