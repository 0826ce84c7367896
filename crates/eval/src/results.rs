//! Results on disk, so that a run that was stopped goes on where it was.
//!
//! A file of JSON lines: a header that says whose answers they are, then one line per record as its answer comes. A line
//! is written whole, with its end; what is cut off at the end of the file was being written when somebody pulled the plug,
//! and is dropped. Anything else that is not a result is somebody else's file, and is left alone.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clef_record::{Grouped, Shortened};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::answer;
use crate::case::{Question, RequestDigest};
use crate::error::{Error, ErrorKind, Result};
use crate::outcome::{Failure, Outcome, Reply};

/// The version of the file's form.
const VERSION: u32 = 1;

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
/// failed are asked again.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    writer: Mutex<Writer>,
    /// By digest: latency and answers, in the order of the file.
    held: Mutex<HashMap<RequestDigest, VecDeque<Held>>>,
    dropped_bytes: u64,
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
    /// If the file cannot be read or written, is in use, is not a file of results, or holds results of another subject.
    /// In all these cases it is as it was.
    pub fn open(path: &Path, subject: &str) -> Result<Self> {
        let fault = |error| io_fault(path, error);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(fault)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("{} is in use by another run", path.display());
                return Err(Error::new(ErrorKind::Results, message));
            }
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        }
        let header = serde_json::to_string(&Header { clef_eval_results: VERSION, subject: subject.to_owned() });
        let header = header.expect("a header is two plain fields") + "\n";
        let (held, whole_bytes) = read(path, &file, subject, &header)?;
        let (file, dropped_bytes) = prepare(file, whole_bytes, &header).map_err(fault)?;
        let writer = Mutex::new(Writer { file, is_broken: false });
        Ok(Self { path: path.to_owned(), writer, held: Mutex::new(held), dropped_bytes })
    }

    /// How many answers the file held that no record has taken yet.
    pub fn held(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).values().map(VecDeque::len).sum()
    }

    /// How many bytes of a cut-off last line were dropped when the file was opened.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
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
        let length = reader.read_until(b'\n', &mut line).map_err(|error| io_fault(path, error))?;
        number += 1;
        let Some(text) = line.strip_suffix(b"\n") else {
            if number == 1 && !header.as_bytes().starts_with(&line) {
                return Err(refuse("is not a file of results".to_owned()));
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
                let (found, asked) = (Shortened(&found.subject), Shortened(subject));
                return Err(refuse(format!("has answers of \"{found}\", this run asks \"{asked}\"")));
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
    let stored: Stored<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let digest = RequestDigest::from_hex(&stored.request).ok_or("the digest is none")?;
    match (stored.answers, stored.latency_ms, stored.error) {
        (Some(answers), Some(latency_ms), None) => {
            Ok((digest, Some(Held { latency_ms, answers: answers.get().into() })))
        }
        (None, None, Some(_)) => Ok((digest, None)),
        _ => Err("it has neither answers nor an error".to_owned()),
    }
}

fn io_fault(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Results, format_args!("{}: {error}", path.display())).with_source(error)
}
