//! One file over connections that break: from an address into an incomplete file, whole and checked at the end.
//!
//! What has arrived is kept under a name that nothing else reads, and gone on from as long as it can be known that the
//! rest belongs to it: by the checksum of the whole, or by the server's word that nothing has changed (`If-Range`). The
//! checksum is computed of what is written as it is written; what an earlier run has left is read once more for it.
//! Whoever called renames the file into place, and only then does it exist for anybody.

use std::path::Path;
use std::time::{Duration, Instant};

use ureq::http::Method;
use ureq::http::header::{IF_RANGE, RANGE};

use crate::client::{Client, HttpRequest, HttpResponse};
use crate::disk::{self, Room};
use crate::error::{Error, ErrorKind, Result};
use crate::listing::{Checksum, Etag};
use crate::options::Patience;
use crate::part::{BUFFER_BYTES, Part};
use crate::patience::Tries;
use crate::progress::{Phase, Reporter};
use crate::refusal::{Subject, refusal};
use crate::resume::{ContentRange, Validator};
use crate::text::{Bytes, Foreign, distinct};
use crate::url::Url;

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
    /// By what it will be known to be right.
    pub(crate) checksum: Option<Checksum>,
    /// What the hub must call it.
    pub(crate) etag: Option<Etag>,
    /// Whether size and checksum are a promise of the hub, that a response may not go back on.
    pub(crate) is_promised: bool,
    /// What the incomplete file began with, if it is there.
    pub(crate) validator: Option<Validator>,
}

/// A file that has arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Transfer<'_> {
    /// Fetches what is missing of the file, trying again as often as that is worth it. At the end the incomplete file
    /// is whole, checked and on the disk.
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
            let Some(damage) = self.damage(&mut part)? else {
                part.sync().map_err(|error| disk::write_error(self.what, Some(0), self.part, error))?;
                return Ok(Arrived { bytes: part.bytes, sha256: part.sha256() });
            };
            if !(is_pieced && may_start_anew) {
                let fault = format!("{} arrived damaged: {damage}", self.what);
                let error = Error::new(ErrorKind::Corrupt, fault).with_advice("nothing of it was kept, try again");
                return Err(self.given_up(error));
            }
            tracing::warn!("the pieces of {} do not belong together; it is fetched anew", self.what);
            part.start_anew()?;
            (may_start_anew, is_pieced) = (false, false);
        }
    }

    /// What is wrong with a file that is there as a whole, if its checksum is known.
    fn damage(&self, part: &mut Part<'_>) -> Result<Option<String>> {
        let (kind, found, listed) = match &self.wanted.checksum {
            Some(Checksum::Sha256(listed)) => ("SHA-256", part.sha256(), listed),
            Some(Checksum::GitBlob(listed)) => ("hash of git", part.git_blob()?, listed),
            None => return Ok(None),
        };
        Ok((found != *listed).then(|| format!("its {kind} is {found}, the hub lists {listed}")))
    }

    /// A failure that is final. What nothing can go on from is not left behind.
    fn given_up(&self, failure: Error) -> Error {
        let is_endless = failure.kind() == ErrorKind::DiskFull && self.wanted.size.is_none();
        let is_of_use = failure.kind() != ErrorKind::Corrupt && !is_endless && self.can_go_on();
        if !is_of_use && let Err(error) = disk::remove(self.part) {
            tracing::warn!("{error}");
        }
        failure
    }

    /// Whether what is there can be told to belong to what will come.
    fn can_go_on(&self) -> bool {
        self.wanted.checksum.is_some() || self.wanted.validator.is_some()
    }

    /// Fetches the rest over one connection.
    fn attempt(&mut self, part: &mut Part<'_>, reporter: &mut Reporter<'_>) -> Result<()> {
        if !self.can_go_on() && part.bytes > 0 {
            part.start_anew()?;
        }
        let mut headers = Vec::new();
        if part.bytes > 0 {
            headers.push((RANGE, format!("bytes={}-", part.bytes)));
            if let (None, Some(validator)) = (&self.wanted.checksum, &self.wanted.validator) {
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
        if self.wanted.size.is_none() && self.wanted.checksum.is_none() && !response.has_an_end() {
            let why = "a broken connection could not be told from its end";
            let message = format!("{} is sent without its length, and {why}", self.what);
            return Err(Error::new(ErrorKind::Protocol, message));
        }
        if let Some(size) = self.wanted.size {
            disk::check_room(self.what, size.saturating_sub(part.bytes), self.folder())?;
        }
        reporter.set_file_total(self.wanted.size);
        reporter.report(Phase::Downloading, part.bytes)?;
        self.receive(part, &mut response, reporter)
    }

    /// Holds what the hub calls the file against what it listed.
    fn check_identity(&self, response: &HttpResponse) -> Result<()> {
        match (&self.wanted.etag, &response.linked.etag) {
            (Some(wanted), Some(said)) if wanted.as_str() != said => {
                let (wanted, said) = (wanted.as_str(), Foreign(said));
                let fault = format!("the hub lists {} as {wanted} and sends {said}", self.what);
                Err(Error::new(ErrorKind::Protocol, fault).with_advice("it may have been replaced just now, try again"))
            }
            _ => Ok(()),
        }
    }

    /// The file from its beginning, whether that was asked for or not.
    fn begin(&mut self, part: &mut Part<'_>, response: &HttpResponse) -> Result<()> {
        if part.bytes > 0 {
            tracing::info!("the rest of {} is not sent by itself; it is fetched from its beginning", self.what);
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
        if is_rest && (!is_changed || self.wanted.checksum.is_some()) {
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
            return Err(Error::new(ErrorKind::Protocol, message).worth_one_retry());
        }
        self.wanted.size = self.wanted.size.or(announced);
        Ok(())
    }

    fn receive(&mut self, part: &mut Part<'_>, response: &mut HttpResponse, reporter: &mut Reporter<'_>) -> Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut pace = Pace::new(self.client.timeouts().stall);
        let mut room = Room::default();
        loop {
            let count =
                response.read(&mut buffer).map_err(|error| self.broken(part, &error.to_string()).with_source(error))?;
            if count == 0 {
                break;
            }
            if self.wanted.size.is_none() {
                let taken = room.take(count as u64, || disk::free_bytes(self.folder()));
                taken.map_err(|free| self.endless(part, free))?;
            }
            let left = self.wanted.size.map(|size| size.saturating_sub(part.bytes));
            if left.is_some_and(|left| left < count as u64) {
                let size = self.wanted.size.unwrap_or(0);
                let fault = format!("{} does not end after the {size} bytes it was announced with", self.what);
                return Err(Error::new(ErrorKind::Corrupt, fault).with_advice("nothing of it was kept"));
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
        let arrived = match self.wanted.size.map(|size| distinct(part.bytes, size)) {
            Some((arrived, size)) => format!("{arrived} of {size}"),
            None => Bytes(part.bytes).to_string(),
        };
        let fault = format!("{} broke off after {arrived}: {}", self.what, Foreign(why));
        Error::new(ErrorKind::Interrupted, fault).transient()
    }

    /// The error of a body of unknown length that takes all the room there is.
    fn endless(&self, part: &Part<'_>, free: u64) -> Error {
        let (arrived, free, reserve) = (Bytes(part.bytes), Bytes(free), Bytes(Room::RESERVE_BYTES));
        let (what, folder) = (self.what, self.folder().display());
        let fault = format!(
            "{what} is sent without its length and has no end after {arrived}: {free} are free in {folder}, of which \
             {reserve} are left to others, and nothing of it was kept"
        );
        Error::new(ErrorKind::DiskFull, fault)
    }

    fn folder(&self) -> &Path {
        self.part.parent().unwrap_or(self.part)
    }
}

/// Refuses a page where a file was meant: what a browser is shown at the address of a file, or by a network that wants
/// to be paid first.
pub(crate) fn check_is_no_page(response: &HttpResponse, subject: Subject<'_>) -> Result<()> {
    match subject {
        Subject::Address(url) if response.is_page() => {
            Err(Error::new(ErrorKind::FileNotFound, format_args!("at {url} is a web page, not a file"))
                .with_advice("what is wanted is the address of the download"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_is_told_from_a_slow_transfer() {
        let mut pace = Pace::new(Duration::ZERO);
        assert!(pace.is_trickle(1) && !pace.is_trickle(TRICKLE_BYTES));
        assert!(!Pace::new(Duration::from_secs(60)).is_trickle(1));
    }
}
