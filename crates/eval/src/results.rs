//! Results on disk, so that a run that was stopped goes on where it was.
//!
//! A file of JSON lines: a header that says whose answers they are, then one line per record as its answer comes. A line
//! is written whole, with its end; what is cut off at the end of the file was being written when somebody pulled the plug,
//! and is dropped. Anything else that is not a result is somebody else's file, and is left alone; however large it is, no
//! more than a line of it is in memory.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clef_record::Grouped;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::answer;
use crate::case::{Question, RequestDigest};
use crate::error::{Error, ErrorKind, Result};
use crate::fields::said;
use crate::outcome::{Failure, Outcome, Reply};
use crate::table::one_line;

/// The version of the file's form.
const VERSION: u32 = 1;

/// The longest header, in bytes, with its end.
const MAX_HEADER_BYTES: usize = 4 << 10;

/// The widest subject in a message, in terminal cells.
const SUBJECT_CELLS: usize = 400;

/// The longest other line, in bytes, with its end: twice the longest response that a server is believed.
const MAX_LINE_BYTES: usize = 128 << 20;

/// A file of results, open for reading and appending. Only one process has it open at a time.
///
/// ```json
/// {"clef_eval_results":1,"subject":"clef-nano-Q8_0.gguf"}
/// {"line":3,"id":"m3","request":"8c...","latency_ms":18.2,"answers":{"angry":{"type":"noul","noul":0.91}}}
/// {"line":4,"id":"m4","request":"1f...","error":{"kind":"refused","message":"..."}}
/// ```
///
/// `request` is the [`RequestDigest`] by which an answer is found again, wherever the record stands by then; `answers` has
/// the shape of a response's. Gold answers and groups are not in the file: changing them asks nothing again. Records that
/// failed are asked again, and so are those whose answers would take a line of more than 128 MiB.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    writer: Mutex<Writer>,
    /// By digest: latency and answers, in the order of the file.
    held: Mutex<HashMap<RequestDigest, VecDeque<Held>>>,
    dropped_bytes: u64,
    is_locked: bool,
}

#[derive(Debug)]
struct Writer {
    file: File,
    /// Nothing is written behind half a line.
    is_broken: bool,
}

#[derive(Debug)]
struct Held {
    latency_ms: f64,
    answers: Box<str>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    clef_eval_results: u32,
    subject: String,
}

#[derive(Deserialize)]
struct Stored<'a> {
    request: String,
    latency_ms: Option<f64>,
    #[serde(borrow)]
    answers: Option<&'a RawValue>,
    error: Option<Value>,
}

impl Results {
    /// Opens a file of results, or begins one.
    ///
    /// `subject` names whose answers they are: a model file, a server's address. Results of another one are refused, so
    /// that no figure is a mixture.
    ///
    /// # Errors
    /// If the file cannot be read or written, is no regular file, is in use, is not a file of results, or holds results of
    /// another subject, or if the subject is longer than a header of 4 KiB has room for. In all these cases it is as it was.
    pub fn open(path: &Path, subject: &str) -> Result<Self> {
        let fault = |error| io_fault(path, error);
        let refuse = |what: &str| Error::new(ErrorKind::Results, format_args!("{} {what}", path.display()));
        let header = serde_json::to_string(&Header { clef_eval_results: VERSION, subject: subject.to_owned() });
        let header = header.expect("a header is two plain fields") + "\n";
        if header.len() > MAX_HEADER_BYTES {
            let (found, limit) = (Grouped(header.len()), Grouped(MAX_HEADER_BYTES));
            return Err(refuse(&format!("would begin with a line of {found} bytes, the limit is {limit}")));
        }
        // Asked before it is opened: opening a pipe or a device may wait, or do something.
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(refuse("is no regular file"));
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(fault)?;
        let is_locked = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => return Err(refuse("is in use by another run")),
            Err(TryLockError::Error(error)) if is_without_locks(&error) => false,
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        };
        let (held, whole_bytes) = read(path, &file, subject, &header)?;
        let (file, dropped_bytes) = prepare(file, whole_bytes, &header).map_err(fault)?;
        let writer = Mutex::new(Writer { file, is_broken: false });
        Ok(Self { path: path.to_owned(), writer, held: Mutex::new(held), dropped_bytes, is_locked })
    }

    /// How many answers the file held that no record has taken yet.
    pub fn held(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).values().map(VecDeque::len).sum()
    }

    /// How many bytes of a cut-off last line were dropped when the file was opened. Worth telling: the record that they
    /// were of is asked again.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// Whether no other run can open the file. Not so on a file system without locks, where people have to see to it, so
    /// they should be told.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// An answer that the file held for a request, each once; `None` if there is none, or not to these questions.
    pub(crate) fn take(&self, digest: RequestDigest, questions: &[Question]) -> Option<Reply> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&digest)?.pop_front()?;
        let answers: Map<String, Value> = serde_json::from_str(&held.answers).ok()?;
        let answers = answer::from_object(&answers, questions).ok()?;
        Some(Reply { answers, latency_ms: held.latency_ms })
    }

    /// Writes what became of a record.
    pub(crate) fn append(&self, outcome: &Outcome) -> Result<()> {
        let Some(digest) = outcome.digest else { return Ok(()) };
        let mut line = json!({"line": outcome.line});
        if let Some(id) = &outcome.id {
            line["id"] = json!(id);
        }
        line["request"] = json!(digest.to_string());
        match &outcome.reply {
            Ok(reply) => {
                line["latency_ms"] = json!(reply.latency_ms);
                line["answers"] = Value::Object(answer::to_object(&reply.answers));
            }
            Err(Failure::Line(message)) => line["error"] = json!({"kind": "line", "message": message}),
            Err(Failure::Answer { kind, message }) => {
                line["error"] = json!({"kind": kind.as_str(), "message": message});
            }
        }
        let line = format!("{line}\n");
        if line.len() > MAX_LINE_BYTES {
            return Ok(());
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_broken {
            return Err(Error::new(ErrorKind::Results, format_args!("{} could not be written", self.path.display())));
        }
        writer.file.write_all(line.as_bytes()).map_err(|error| {
            writer.is_broken = true;
            io_fault(&self.path, error)
        })
    }

    /// Waits until everything is on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.file.sync_data().map_err(|error| io_fault(&self.path, error))
    }
}

/// Makes the file end with its last whole line, at which it is left, and begin with a header.
fn prepare(mut file: File, whole_bytes: u64, header: &str) -> io::Result<(File, u64)> {
    let dropped_bytes = file.metadata()?.len() - whole_bytes;
    if dropped_bytes > 0 {
        file.set_len(whole_bytes)?;
    }
    file.seek(SeekFrom::Start(whole_bytes))?;
    if whole_bytes == 0 {
        file.write_all(header.as_bytes())?;
    }
    Ok((file, dropped_bytes))
}

type HeldByDigest = HashMap<RequestDigest, VecDeque<Held>>;

/// What the file holds, and where its last whole line ends.
fn read(path: &Path, file: &File, subject: &str, header: &str) -> Result<(HeldByDigest, u64)> {
    let refuse = |what: String| Error::new(ErrorKind::Results, format_args!("{} {what}", path.display()));
    let mut reader = BufReader::new(file);
    let mut held = HeldByDigest::new();
    let (mut number, mut whole_bytes) = (0_usize, 0_u64);
    let mut line = Vec::new();
    loop {
        line.clear();
        number += 1;
        let most = if number == 1 { MAX_HEADER_BYTES } else { MAX_LINE_BYTES };
        // One more than that tells a line that goes on from one that was cut off.
        let read = reader.by_ref().take(most as u64 + 1).read_until(b'\n', &mut line);
        let length = read.map_err(|error| io_fault(path, error))?;
        let Some(text) = line.strip_suffix(b"\n").filter(|_| length <= most) else {
            if number == 1 && !header.as_bytes().starts_with(&line) {
                return Err(refuse("is not a file of results".to_owned()));
            }
            if length > most {
                let (number, limit) = (Grouped(number), Grouped(most));
                return Err(refuse(format!("has no result on line {number}: it has more than {limit} bytes")));
            }
            return Ok((held, whole_bytes));
        };
        if number == 1 {
            let found: Header =
                serde_json::from_slice(text).map_err(|_| refuse("is not a file of results".to_owned()))?;
            if found.clef_eval_results != VERSION {
                let version = found.clef_eval_results;
                return Err(refuse(format!("has results in form {version}, this program knows form {VERSION}")));
            }
            if found.subject != subject {
                // In full: names of models differ at their ends.
                let (found, asked) = (one_line(&found.subject, SUBJECT_CELLS), one_line(subject, SUBJECT_CELLS));
                return Err(refuse(format!(
                    "has answers of \"{found}\", this run asks \"{asked}\"; answers of other weights, heads or settings are not mixed"
                )));
            }
        } else {
            let (digest, stored) =
                stored(text).map_err(|what| refuse(format!("has no result on line {}: {what}", Grouped(number))))?;
            if let Some(stored) = stored {
                held.entry(digest).or_default().push_back(stored);
            }
        }
        whole_bytes += length as u64;
    }
}

/// A line of the file; without an answer if the record failed.
fn stored(text: &[u8]) -> std::result::Result<(RequestDigest, Option<Held>), String> {
    let stored: Stored<'_> = serde_json::from_slice(text).map_err(|error| said(&error))?;
    let digest = RequestDigest::from_hex(&stored.request).ok_or("request is not 32 hexadecimal digits")?;
    match (stored.answers, stored.latency_ms, stored.error) {
        (Some(answers), Some(latency_ms), None) => {
            Ok((digest, Some(Held { latency_ms, answers: answers.get().into() })))
        }
        (None, None, Some(_)) => Ok((digest, None)),
        _ => Err("it has neither answers nor an error".to_owned()),
    }
}

/// Whether a file could not be locked because locks are not there: some file systems have no locks, and some servers of
/// network file systems do not serve them.
fn is_without_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported || is_no_lock_available(error)
}

#[cfg(unix)]
fn is_no_lock_available(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOLCK)
}

#[cfg(not(unix))]
fn is_no_lock_available(_: &io::Error) -> bool {
    false
}

fn io_fault(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Results, format_args!("{}: {error}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_system_without_locks_is_told_from_other_faults() {
        for (code, expected) in [
            (libc::ENOLCK, true),
            (libc::EOPNOTSUPP, true),
            (libc::ENOSYS, true),
            (libc::EIO, false),
            (libc::EBADF, false),
        ] {
            assert_eq!(is_without_locks(&io::Error::from_raw_os_error(code)), expected, "{code}");
        }
    }
}
