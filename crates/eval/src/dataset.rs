//! Reading a data file a line at a time.
//!
//! A line may hold megabytes of pictures and a file a million lines, so nothing but the lines that are being worked on is
//! ever in memory, and a line beyond the limit is passed over without being kept. A pipe can be read only once, so nothing
//! is read before its turn but in a regular file, whose lines are counted first.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Stdin};
use std::path::Path;

use clef_record::Grouped;

use crate::case::{Case, LineFault};
use crate::error::{Error, ErrorKind, Result};

/// What is read from a file at a time.
const BUFFER_BYTES: usize = 1 << 16;

/// Stands for standard input where a path is asked for.
const STANDARD_INPUT: &str = "-";

/// A line is passed over up to so many times the limit. What goes on after that (`/dev/zero`) has no lines.
const PASSED_OVER_LIMITS: usize = 8;

/// At least so much is passed over, in bytes, however small the limit.
const PASSED_OVER_BYTES: usize = 1 << 20;

/// What some editors write at the beginning of a file of UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// How a data file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetOptions {
    /// A line without any gold answer is at fault. True by default; comparisons need none.
    pub require_gold: bool,
    /// The longest line, in bytes. 128 MiB by default: a server takes bodies of 100 MiB.
    pub max_line_bytes: usize,
    /// The file is going to be opened again, so that only a regular file will do. False by default; comparisons read the
    /// requests once for each side.
    pub is_opened_again: bool,
}

impl Default for DatasetOptions {
    fn default() -> Self {
        Self { require_gold: true, max_line_bytes: 128 << 20, is_opened_again: false }
    }
}

/// Where a dataset that was [opened](Dataset::open) is read from: a file or standard input.
#[derive(Debug)]
pub struct Input(Kind);

#[derive(Debug)]
enum Kind {
    File(File),
    Standard(Stdin),
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::File(file) => file.read(buffer),
            Kind::Standard(input) => input.read(buffer),
        }
    }
}

/// A data file: JSON lines, each a [`Case`]. Empty lines are passed over, and so is a byte order mark before the first.
#[derive(Debug)]
pub struct Dataset<R> {
    reader: R,
    name: String,
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

impl Dataset<BufReader<Input>> {
    /// Opens a file, or standard input for `-`. The lines of a regular file are counted, which reads it once; what comes
    /// through a pipe or from a device is read as it comes, and its [`total`](Self::total) is not known.
    ///
    /// # Errors
    /// If the file cannot be read, if it is a regular file without any record, or if it is none and is to be opened again.
    pub fn open(path: &Path, options: DatasetOptions) -> Result<Self> {
        let is_standard = path.as_os_str() == STANDARD_INPUT;
        let name = if is_standard { "standard input".to_owned() } else { path.display().to_string() };
        let fault = |error: io::Error| {
            Error::new(ErrorKind::Data, format_args!("cannot read {name}: {error}")).with_source(error)
        };
        // Asked before it is opened: opening a pipe waits for whoever writes into it.
        if options.is_opened_again && (is_standard || !std::fs::metadata(path).map_err(fault)?.is_file()) {
            let message = format!("{name} can be read only once, and is needed twice; write the records to a file");
            return Err(Error::new(ErrorKind::Data, message));
        }
        let (input, total) = if is_standard {
            (Kind::Standard(io::stdin()), None)
        } else {
            let mut file = File::open(path).map_err(fault)?;
            let total = total(&mut file).map_err(fault)?;
            (Kind::File(file), total)
        };
        if total == Some(0) {
            return Err(no_records(&name));
        }
        let reader = BufReader::with_capacity(BUFFER_BYTES, Input(input));
        Ok(Self { name, total, ..Self::new(reader, options) })
    }
}

impl<R: BufRead> Dataset<R> {
    /// Reads from anywhere; how many lines there are is not known.
    pub fn new(reader: R, options: DatasetOptions) -> Self {
        Self { reader, name: "the data".to_owned(), options, line: 0, total: None }
    }

    /// How many lines are not empty, if that is known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// What is said of a file that turned out to hold no record.
    pub(crate) fn no_records(&self) -> Error {
        no_records(&self.name)
    }

    /// The next line that is not empty.
    ///
    /// # Errors
    /// If the file cannot be read, or has a line so far beyond the limit that it is no file of lines.
    pub fn next_line(&mut self) -> Result<Option<Line>> {
        loop {
            let limit = self.options.max_line_bytes;
            let text = read_line(&mut self.reader, limit).map_err(|error| {
                let message = format!("cannot read {} after line {}: {error}", self.name, self.line);
                Error::new(ErrorKind::Data, message).with_source(error)
            })?;
            let Some(mut text) = text else { return Ok(None) };
            self.line += 1;
            if let Err(length) = text
                && length > most_passed_over(limit)
            {
                let (number, length, limit) = (self.line, Grouped(length), Grouped(limit));
                let message = format!(
                    "line {number} of {} goes on after {length} bytes, the limit is {limit}; it is no file of lines",
                    self.name
                );
                return Err(Error::new(ErrorKind::Data, message));
            }
            if self.line == 1
                && let Ok(text) = &mut text
                && text.starts_with(BYTE_ORDER_MARK)
            {
                text.drain(..BYTE_ORDER_MARK.len());
            }
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

/// How long a line may be for what is after it to be looked at, in bytes.
fn most_passed_over(limit: usize) -> usize {
    limit.saturating_mul(PASSED_OVER_LIMITS).max(PASSED_OVER_BYTES)
}

/// The next line without its end, or its length if that is beyond the limit; `None` at the end of the file.
///
/// A line that is longer than what is passed over is not read to its end.
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
        if end.is_some() || length > most_passed_over(limit) {
            break;
        }
    }
    Ok((!is_at_end).then_some(if length <= limit { Ok(text) } else { Err(length) }))
}

/// How many lines of a file are not empty, if it is one that can be read twice; it is left at its beginning.
fn total(file: &mut File) -> io::Result<Option<u64>> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    let lines = count_lines(BufReader::with_capacity(BUFFER_BYTES, &mut *file))?;
    file.rewind()?;
    Ok(Some(lines))
}

fn no_records(name: &str) -> Error {
    Error::new(ErrorKind::Data, format_args!("{name} holds no records"))
}

fn count_lines(mut reader: impl BufRead) -> io::Result<u64> {
    let mut lines = 0;
    let mut is_filled = false;
    if reader.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        reader.consume(BYTE_ORDER_MARK.len());
    }
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
