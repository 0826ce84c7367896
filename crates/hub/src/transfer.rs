//! One file over connections that break: from an address into an incomplete file, whole and checked at the end.
//!
//! What has arrived is kept under a name that nothing else reads, and gone on from as long as it can be known that the
//! rest belongs to it: by the checksum of the whole, or by the server's word that nothing has changed (`If-Range`). The
//! checksum is computed of what is written as it is written; what an earlier run has left is read once more for it.
//! Whoever called renames the file into place, and only then does it exist for anybody.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use ureq::http::Method;
use ureq::http::header::{IF_RANGE, RANGE};

use crate::client::{Client, HttpRequest, HttpResponse, bare_etag};
use crate::disk;
use crate::error::{Error, ErrorKind, Result};
use crate::listing::Etag;
use crate::options::Patience;
use crate::patience::Tries;
use crate::progress::{Phase, Reporter};
use crate::refusal::{Subject, refusal};
use crate::text::{Bytes, Foreign};
use crate::url::Url;

/// Bytes that are read, hashed and written at once.
const BUFFER_BYTES: usize = 128 << 10;

/// What must arrive in two stall times, or the transfer counts as stalled.
const TRICKLE_BYTES: u64 = 4_096;

/// One file to fetch.
pub(crate) struct Transfer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) patience: &'a Patience,
    pub(crate) url: &'a Url,
    pub(crate) subject: Subject<'a>,
    /// The file as messages name it.
    pub(crate) what: &'a str,
    pub(crate) wanted: Wanted,
    /// The incomplete file; nobody else writes it.
    pub(crate) part: &'a Path,
    /// Told of the validator of what the incomplete file begins with, before its first byte is written.
    pub(crate) keep_validator: &'a mut dyn FnMut(Option<&Validator>) -> Result<()>,
}

/// What is known of a file before it is fetched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// In bytes.
    pub(crate) size: Option<u64>,
    /// In small hexadecimal letters.
    pub(crate) sha256: Option<String>,
    /// What the hub must call it.
    pub(crate) etag: Option<Etag>,
    /// Whether size and checksum are a promise of the hub, that a response may not go back on.
    pub(crate) is_promised: bool,
    /// What the incomplete file began with, if it is there.
    pub(crate) validator: Option<Validator>,
}

/// By what a server knows that a file has not changed: a strong entity tag, or else the time of the last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validator(String);

/// A file that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Validator {
    /// What a response says of the file that it brings.
    pub(crate) fn of(response: &HttpResponse) -> Option<Self> {
        let strong = response.header("etag").filter(|etag| etag.starts_with('"') && etag.len() > 2);
        strong.or_else(|| response.header("last-modified")).map(|text| Self(text.to_owned()))
    }

    /// One that was kept.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let is_sound =
            !text.is_empty() && text.len() <= 1_024 && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        is_sound.then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_etag(&self) -> bool {
        self.0.starts_with('"')
    }

    /// Whether a response contradicts it. One that says nothing does not.
    fn is_contradicted_by(&self, response: &HttpResponse) -> bool {
        let said = response.header(if self.is_etag() { "etag" } else { "last-modified" });
        said.is_some_and(|said| bare_etag(said) != bare_etag(&self.0))
    }
}

impl Transfer<'_> {
    /// Fetches what is missing of the file, trying again as often as that is worth it. At the end the incomplete file is
    /// whole, checked and on the disk.
    ///
    /// # Errors
    /// The incomplete file is kept if a later run can go on from it, and gone otherwise.
    pub(crate) fn run(mut self, reporter: &mut Reporter<'_>) -> Result<Arrived> {
        let mut part = Part::open(self.part)?;
        if self.can_go_on() {
            part.take_up(self.wanted.size, reporter)?;
        }
        if part.bytes == 0 {
            part.start_anew()?;
        }
        let mut tries = Tries::new(self.patience);
        let mut furthest = part.bytes;
        // Pieces of several connections may be good each and not belong together; then all of it is fetched once more.
        let mut may_start_anew = true;
        let mut is_pieced = part.bytes > 0;
        loop {
            let is_whole = part.bytes > 0 && self.wanted.size == Some(part.bytes);
            if !is_whole && let Err(failure) = self.attempt(&mut part, reporter) {
                let new_bytes = part.bytes.saturating_sub(furthest);
                furthest = furthest.max(part.bytes);
                tries.after(failure, new_bytes, part.bytes, reporter).map_err(|failure| self.given_up(failure))?;
                is_pieced |= part.bytes > 0;
                continue;
            }
            let sha256 = part.sha256();
            let Some(wanted) = self.wanted.sha256.as_ref().filter(|wanted| **wanted != sha256) else {
                part.file.sync_all().map_err(|error| disk::write_error(self.what, Some(0), self.part, error))?;
                return Ok(Arrived { bytes: part.bytes, sha256 });
            };
            if !(is_pieced && may_start_anew) {
                let message = format!(
                    "{} arrived damaged: its SHA-256 is {sha256}, the hub lists {wanted}; nothing of it was kept, try again",
                    self.what
                );
                return Err(self.given_up(Error::new(ErrorKind::Corrupt, message)));
            }
            tracing::warn!("the pieces of {} do not belong together; it is fetched anew", self.what);
            part.start_anew()?;
            (may_start_anew, is_pieced) = (false, false);
        }
    }

    /// A failure that is final. What nothing can go on from is not left behind.
    fn given_up(&self, failure: Error) -> Error {
        let is_of_use = failure.kind() != ErrorKind::Corrupt && self.can_go_on();
        if !is_of_use && let Err(error) = disk::remove(self.part) {
            tracing::warn!("{error}");
        }
        failure
    }

    /// Whether what is there can be told to belong to what will come.
    fn can_go_on(&self) -> bool {
        self.wanted.sha256.is_some() || self.wanted.validator.is_some()
    }

    /// Fetches the rest over one connection.
    fn attempt(&mut self, part: &mut Part<'_>, reporter: &mut Reporter<'_>) -> Result<()> {
        if !self.can_go_on() && part.bytes > 0 {
            part.start_anew()?;
        }
        let mut headers = Vec::new();
        if part.bytes > 0 {
            headers.push((RANGE, format!("bytes={}-", part.bytes)));
            if let (None, Some(validator)) = (&self.wanted.sha256, &self.wanted.validator) {
                headers.push((IF_RANGE, validator.as_str().to_owned()));
            }
        }
        let mut response = self.client.send(&HttpRequest { method: Method::GET, url: self.url, headers })?;
        self.check_identity(&response)?;
        match response.status {
            200 => self.begin(part, &response)?,
            206 => self.go_on(part, &response)?,
            416 => {
                part.start_anew()?;
                let message = format!("{} is shorter than what was fetched of it before", self.what);
                return Err(Error::new(ErrorKind::Protocol, message).transient());
            }
            _ => return Err(refusal(&response, self.subject)),
        }
        if let Some(coding) = response.content_encoding() {
            let message = format!("{} is sent as \"{}\", which was not asked for", self.what, Foreign(coding));
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        if self.wanted.size.is_none() && self.wanted.sha256.is_none() && !response.has_an_end() {
            let why = "a broken connection could not be told from its end";
            let message = format!("{} is sent without its length, and {why}", self.what);
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        if let Some(size) = self.wanted.size {
            let folder = self.part.parent().unwrap_or(self.part);
            disk::check_room(self.what, size.saturating_sub(part.bytes), folder)?;
        }
        reporter.set_file_total(self.wanted.size);
        reporter.report(Phase::Downloading, part.bytes)?;
        self.receive(part, &mut response, reporter)
    }

    /// Holds what the hub calls the file against what it listed.
    fn check_identity(&self, response: &HttpResponse) -> Result<()> {
        match (&self.wanted.etag, &response.linked.etag) {
            (Some(wanted), Some(said)) if wanted.as_str() != said => {
                let message = format!(
                    "the hub lists {} as {} and sends {}; it may have been replaced just now, try again",
                    self.what,
                    wanted.as_str(),
                    Foreign(said)
                );
                Err(Error::new(ErrorKind::Protocol, message))
            }
            _ => Ok(()),
        }
    }

    /// The file from its beginning, whether that was asked for or not.
    fn begin(&mut self, part: &mut Part<'_>, response: &HttpResponse) -> Result<()> {
        if part.bytes > 0 {
            tracing::info!("{} cannot be gone on with; it is fetched from its beginning", self.what);
        }
        check_is_no_page(response, self.subject)?;
        part.start_anew()?;
        let announced = response.content_length();
        if !self.wanted.is_promised {
            self.wanted.size = None;
        }
        self.take_size(announced.or(response.linked.size))?;
        self.wanted.validator = Validator::of(response);
        (self.keep_validator)(self.wanted.validator.as_ref())
    }

    /// The rest of the file. If it is not the rest of this one, all is fetched anew.
    fn go_on(&mut self, part: &mut Part<'_>, response: &HttpResponse) -> Result<()> {
        let range = response.header("content-range").and_then(ContentRange::parse);
        let is_changed = self.wanted.validator.as_ref().is_some_and(|validator| validator.is_contradicted_by(response));
        let is_rest = range.as_ref().is_some_and(|range| {
            range.first == part.bytes
                && self.wanted.size.is_none_or(|size| range.total.is_none_or(|total| total == size))
        });
        if is_rest && (!is_changed || self.wanted.sha256.is_some()) {
            return self.take_size(range.and_then(|range| range.total).or(response.linked.size));
        }
        part.start_anew()?;
        let message = format!("the rest of {} was asked for, and something else was sent", self.what);
        Err(Error::new(ErrorKind::Protocol, message).transient())
    }

    /// Holds a size that is announced now against the one that is known.
    fn take_size(&mut self, announced: Option<u64>) -> Result<()> {
        if let (Some(size), Some(announced)) = (self.wanted.size, announced)
            && size != announced
            && self.wanted.is_promised
        {
            let message = format!("{} is sent with {announced} bytes, the hub lists {size}", self.what);
            return Err(Error::new(ErrorKind::Protocol, message).transient());
        }
        self.wanted.size = self.wanted.size.or(announced);
        Ok(())
    }

    fn receive(&mut self, part: &mut Part<'_>, response: &mut HttpResponse, reporter: &mut Reporter<'_>) -> Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut pace = Pace::new(self.client.timeouts().stall);
        loop {
            let count = response.read(&mut buffer).map_err(|error| self.broken(part, &error.to_string()))?;
            if count == 0 {
                break;
            }
            let left = self.wanted.size.map(|size| size.saturating_sub(part.bytes));
            if left.is_some_and(|left| left < count as u64) {
                let size = Bytes(self.wanted.size.unwrap_or(0));
                let message =
                    format!("{} does not end after the {size} it was announced with; nothing was kept", self.what);
                return Err(Error::new(ErrorKind::Corrupt, message));
            }
            part.write(&buffer[..count]).map_err(|error| disk::write_error(self.what, left, self.part, error))?;
            reporter.report(Phase::Downloading, part.bytes)?;
            if pace.is_trickle(count as u64) {
                return Err(self.broken(part, "it trickles"));
            }
        }
        if self.wanted.size.is_some_and(|size| part.bytes < size) {
            return Err(self.broken(part, "the connection was closed"));
        }
        self.wanted.size = Some(part.bytes);
        Ok(())
    }

    fn broken(&self, part: &Part<'_>, why: &str) -> Error {
        let of = self.wanted.size.map_or(String::new(), |size| format!(" of {}", Bytes(size)));
        let message = format!("{} broke off after {}{of}: {}", self.what, Bytes(part.bytes), Foreign(why));
        Error::new(ErrorKind::Interrupted, message).transient()
    }
}

/// Refuses a page where a file was meant: what a browser is shown at the address of a file, or by a network that wants
/// to be paid first.
pub(crate) fn check_is_no_page(response: &HttpResponse, subject: Subject<'_>) -> Result<()> {
    match subject {
        Subject::Address(url) if response.header("content-type").is_some_and(|kind| kind.starts_with("text/html")) => {
            let message = format!("at {url} is a web page, not a file; what is wanted is the address of the download");
            Err(Error::new(ErrorKind::FileNotFound, message))
        }
        _ => Ok(()),
    }
}

/// Whether bytes arrive fast enough to be worth waiting for.
struct Pace {
    window: Duration,
    start: Instant,
    bytes: u64,
}

impl Pace {
    fn new(stall: Duration) -> Self {
        Self { window: stall.saturating_mul(2), start: Instant::now(), bytes: 0 }
    }

    fn is_trickle(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.start.elapsed() < self.window {
            return false;
        }
        let is_trickle = self.bytes < TRICKLE_BYTES;
        (self.start, self.bytes) = (Instant::now(), 0);
        is_trickle
    }
}

/// An incomplete file and the checksum of what is in it.
struct Part<'a> {
    path: &'a Path,
    file: File,
    hasher: Sha256,
    bytes: u64,
}

impl<'a> Part<'a> {
    /// Opens the file, none of its bytes taken up.
    fn open(path: &'a Path) -> Result<Self> {
        disk::create_parent(path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| Error::io("open", path, error))?;
        Ok(Self { path, file, hasher: Sha256::new(), bytes: 0 })
    }

    /// Takes up what an earlier run has left. More than the file has cannot be of it.
    fn take_up(&mut self, size: Option<u64>, reporter: &mut Reporter<'_>) -> Result<()> {
        let left = self.file.metadata().map_err(|error| Error::io("look at", self.path, error))?.len();
        if size.is_some_and(|size| left > size) {
            return Ok(());
        }
        let mut buffer = vec![0; BUFFER_BYTES];
        while self.bytes < left {
            let count = match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::io("read", self.path, error)),
            };
            self.hasher.update(&buffer[..count]);
            self.bytes += count as u64;
            reporter.report(Phase::Checking, self.bytes)?;
        }
        Ok(())
    }

    /// Throws away what is there.
    fn start_anew(&mut self) -> Result<()> {
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map_err(|error| Error::io("empty", self.path, error))?;
        self.hasher = Sha256::new();
        self.bytes = 0;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// The checksum of all that is there, in small hexadecimal letters.
    fn sha256(&self) -> String {
        self.hasher.clone().finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// `Content-Range: bytes 100-199/200`.
#[derive(Debug, PartialEq, Eq)]
struct ContentRange {
    first: u64,
    total: Option<u64>,
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let (first, last) = (first.trim().parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?);
        let total = match total.trim() {
            "*" => None,
            total => Some(total.parse().ok()?),
        };
        (first <= last && total.is_none_or(|total| last < total)).then_some(Self { first, total })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_mean_nothing_are_none() {
        let parse = ContentRange::parse;
        assert_eq!(parse("bytes 100-199/200"), Some(ContentRange { first: 100, total: Some(200) }));
        assert_eq!(parse("bytes 0-0/*"), Some(ContentRange { first: 0, total: None }));
        for text in
            ["", "bytes", "bytes */200", "bytes 5-4/10", "bytes 5-10/10", "items 0-1/2", "bytes -1-2/3", "bytes 0-1"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_trickle_is_told_from_a_slow_transfer() {
        let mut pace = Pace::new(Duration::ZERO);
        assert!(pace.is_trickle(1) && !pace.is_trickle(TRICKLE_BYTES));
        assert!(!Pace::new(Duration::from_secs(60)).is_trickle(1));
    }
}
