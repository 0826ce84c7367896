//! Files of plain URLs, in a cache of our own.
//!
//! ```text
//! host-<hash of the URL>/
//!   model.gguf                     the file, or the parts of one beside each other
//!   model.gguf.json                where it is from, and what the server said of it
//!   model.gguf.incomplete          what has arrived
//!   model.gguf.incomplete.from     what the server said of that
//!   model.gguf.lock
//! ```
//!
//! A URL has no checksum, so "the same file" is the server's word: its entity tag or time of change, kept beside the
//! file. Addresses that a hub passes on are better off: the hub names the SHA-256.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use ureq::http::Method;
use ureq::http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};

use crate::choose::SplitName;
use crate::client::{HttpRequest, HttpResponse};
use crate::disk;
use crate::error::{Error, ErrorKind, Result};
use crate::hub::{FetchedFile, FetchedModel, Hub};
use crate::listing::{Checksum, Etag};
use crate::lock::Lock;
use crate::patience::Tries;
use crate::progress::{ProgressCallback, Reporter};
use crate::refusal::{OFFLINE, Subject, refusal};
use crate::resume::Validator;
use crate::transfer::{Transfer, Wanted, check_is_no_page};
use crate::url::Url;

/// The longest name of a file that is made of a URL; what stands beside it has longer ones.
const MAX_NAME_BYTES: usize = 160;

/// The longest note that is read.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// What stands beside a file.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// Where it is from, without secrets; for people.
    url: String,
    /// What the server knows it by.
    validator: Option<String>,
    bytes: u64,
    sha256: String,
}

/// What the server says of the file that it has now.
#[derive(Debug, Default)]
struct Said {
    is_unchanged: bool,
    validator: Option<Validator>,
    size: Option<u64>,
    checksum: Option<Checksum>,
}

/// One file on its way.
struct UrlFetch<'a> {
    hub: &'a Hub,
    url: &'a Url,
    name: String,
    path: PathBuf,
}

pub(crate) fn fetch_url(hub: &Hub, url: &str, on_progress: ProgressCallback<'_>) -> Result<FetchedModel> {
    let url = Url::parse(url)?;
    let urls = all_parts(&url)?;
    let folder = hub.options.url_cache_dir.join(folder_name(&urls[0]));
    let mut reporter = Reporter::new(on_progress, urls.len(), None);
    let mut model = FetchedModel { parts: Vec::new(), projector: None, commit: None, unchecked: None };
    let mut bytes_before = 0;
    for (index, url) in urls.iter().enumerate() {
        let name = file_name(url);
        reporter.begin(index, &name, None, bytes_before);
        let fetch = UrlFetch { hub, url, path: folder.join(&name), name };
        let (file, unchecked) = fetch.run(&mut reporter)?;
        bytes_before += file.bytes;
        model.parts.push(file);
        model.unchecked = model.unchecked.or(unchecked);
    }
    Ok(model)
}

/// The addresses of all parts of a split model, or the one that was given.
fn all_parts(url: &Url) -> Result<Vec<Url>> {
    match SplitName::parse(url.encoded_file_name()) {
        Some(split) => (1..=split.count).map(|part| url.with_file_name(&split.part(part))).collect(),
        None => Ok(vec![url.clone()]),
    }
}

/// A folder for one URL: readable, and no other URL's.
fn folder_name(url: &Url) -> String {
    let digest = Sha256::digest(url.identity().as_bytes());
    let hash = digest.iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    format!("{}-{hash}", plain(url.host()))
}

/// The name of a URL's file, made of characters that every system allows. The end of a long one is kept: it says which
/// part it is.
fn file_name(url: &Url) -> String {
    let name = plain(&url.file_name());
    let name = name[name.len().saturating_sub(MAX_NAME_BYTES)..].trim_start_matches('.');
    if name.is_empty() { "model.gguf".to_owned() } else { name.to_owned() }
}

fn plain(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_' | '+');
    text.chars().map(|character| if is_plain(character) { character } else { '_' }).collect()
}

impl UrlFetch<'_> {
    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(FetchedFile, Option<Error>)> {
        if self.hub.options.offline {
            return self.found().map(|file| (file, None)).ok_or_else(|| self.offline());
        }
        let mut tries = Tries::for_first_request(&self.hub.options.patience);
        let said = loop {
            let failure = match self.ask(self.note().as_ref()) {
                Ok(said) => break said,
                Err(failure) => failure,
            };
            if let Some(file) = self.found() {
                tracing::warn!("{}; going on with the file that the cache holds", failure.fault());
                return Ok((file, Some(failure)));
            }
            tries.after(failure, 0, 0, reporter)?;
        };
        if let Some(file) = self.found_as(&said) {
            return Ok((file, None));
        }
        let lock = Lock::take(&self.beside("lock"), reporter)?;
        // Whoever had the lock before may have fetched it.
        let file = self.found_as(&said).map_or_else(|| self.fetch(said, &lock, reporter), Ok)?;
        Ok((file, None))
    }

    /// The file, if it is there.
    fn found(&self) -> Option<FetchedFile> {
        let bytes = disk::file_size(&self.path)?;
        Some(FetchedFile { path: self.path.clone(), name: self.name.clone(), bytes })
    }

    /// The file, if it is there and is the one that the server has now.
    fn found_as(&self, said: &Said) -> Option<FetchedFile> {
        let file = self.found()?;
        let is_size = said.size.is_none_or(|size| size == file.bytes);
        let is_same = match self.note() {
            _ if said.is_unchanged => true,
            Some(note) => match (&said.checksum, &said.validator, &note.validator) {
                (Some(checksum), _, _) => *checksum == Checksum::Sha256(note.sha256),
                (None, Some(said), Some(kept)) => said.as_str() == kept && is_size,
                _ => is_size,
            },
            // It was renamed into place, so it is whole; whether it is the same can only be told by its size.
            None => said.size.is_some() && is_size,
        };
        is_same.then_some(file)
    }

    /// What is known of the file that is there.
    fn note(&self) -> Option<Note> {
        let path = self.beside("json");
        if disk::file_size(&path)? > MAX_NOTE_BYTES {
            return None;
        }
        let note: Note = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (disk::file_size(&self.path)? == note.bytes).then_some(note)
    }

    fn offline(&self) -> Error {
        let fault = format!("{} is not in the cache ({}), and {OFFLINE}", self.url, self.path.display());
        Error::new(ErrorKind::Offline, fault).with_advice("start once without that")
    }

    /// Asks what the server has now. Some servers answer only those who fetch, so it is a `HEAD` first, and then a
    /// `GET`, of which no more than the headers are read.
    fn ask(&self, note: Option<&Note>) -> Result<Said> {
        match self.ask_by(Method::HEAD, note) {
            Ok(response) if response.status < 400 => self.said(&response),
            Err(failure) if failure.kind() != ErrorKind::Protocol => Err(failure),
            _ => self.ask_by(Method::GET, note).and_then(|response| self.said(&response)),
        }
    }

    fn ask_by(&self, method: Method, note: Option<&Note>) -> Result<HttpResponse> {
        let mut headers = Vec::new();
        if let Some(validator) = note.and_then(|note| note.validator.as_deref()).and_then(Validator::from_text) {
            let name = if validator.is_etag() { IF_NONE_MATCH } else { IF_MODIFIED_SINCE };
            headers.push((name, validator.as_str().to_owned()));
        }
        self.hub.client.send(&HttpRequest { method, url: self.url, headers })
    }

    fn said(&self, response: &HttpResponse) -> Result<Said> {
        let subject = Subject::Address(self.url);
        let checksum = response.linked.etag.as_deref().and_then(Etag::new).and_then(|etag| etag.sha256());
        match response.status {
            304 => Ok(Said { is_unchanged: true, ..Said::default() }),
            200 => {
                check_is_no_page(response, subject)?;
                // Some servers say of every HEAD how much they send with it: nothing.
                let size = response.content_length().or(response.linked.size).filter(|size| *size > 0);
                Ok(Said { is_unchanged: false, validator: Validator::of(response), size, checksum })
            }
            // The hub has said all there is to say, and passes on to where it is kept.
            300..400 if checksum.is_some() => Ok(Said { size: response.linked.size, checksum, ..Said::default() }),
            _ => Err(refusal(response, subject)),
        }
    }

    fn fetch(&self, said: Said, lock: &Lock, reporter: &mut Reporter<'_>) -> Result<FetchedFile> {
        let part = if lock.is_held() { self.beside("incomplete") } else { disk::temporary_beside(&self.path) };
        let from = self.beside("incomplete.from");
        let kept = fs::read_to_string(&from).ok().and_then(|text| Validator::from_text(&text));
        let mut begun_with = kept.filter(|kept| said.validator.as_ref() == Some(kept));
        let transfer = Transfer {
            client: &self.hub.client,
            patience: &self.hub.options.patience,
            url: self.url,
            subject: Subject::Address(self.url),
            what: &self.url.to_string(),
            wanted: Wanted {
                size: said.size,
                is_promised: said.checksum.is_some(),
                checksum: said.checksum,
                etag: None,
                validator: begun_with.clone(),
            },
            part: &part,
            keep_validator: &mut |validator| {
                begun_with = validator.cloned();
                match validator {
                    Some(validator) => disk::write_whole(&from, validator.as_str().as_bytes()),
                    None => disk::remove(&from),
                }
            },
        };
        let arrived = transfer.run(reporter).inspect_err(|_| {
            lock.let_go_of(&part);
            disk::remove_empty(&part);
            if !part.exists() {
                let _ = disk::remove(&from).inspect_err(|error| tracing::warn!("{error}"));
            }
        })?;
        let note = Note {
            url: self.url.to_string(),
            validator: begun_with.map(|validator| validator.as_str().to_owned()),
            bytes: arrived.bytes,
            sha256: arrived.sha256,
        };
        // In this order no note ever stands beside a file that it is not about.
        let note_path = self.beside("json");
        disk::remove(&note_path)?;
        fs::rename(&part, &self.path).map_err(|error| Error::io("rename a finished download to", &self.path, error))?;
        let text = serde_json::to_vec_pretty(&note).expect("a note is plain data");
        disk::write_whole(&note_path, &text)?;
        disk::remove(&from)?;
        tracing::info!("fetched {}, {} bytes", self.url, note.bytes);
        Ok(FetchedFile { path: self.path.clone(), name: self.name.clone(), bytes: note.bytes })
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.path.with_file_name(format!("{}.{ending}", self.name))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn names_are_readable_and_stay_in_their_folder() {
        for (text, name) in [
            ("https://host/a/model%20x.gguf?download=true", "model_x.gguf"),
            ("https://host/..%2F..%2Fetc%2Fpasswd", "_.._etc_passwd"),
            ("https://host/..", "model.gguf"),
            ("https://host", "model.gguf"),
            ("https://host/%00%ff", "___"),
        ] {
            assert_eq!(file_name(&url(text)).replace('\u{fffd}', "_"), name.replace("___", "__"), "{text}");
        }
        let long = format!("https://host/{}-00001-of-00002.gguf", "a".repeat(500));
        assert!(file_name(&url(&long)).ends_with("aa-00001-of-00002.gguf"));
        assert!(file_name(&url(&long)).len() <= MAX_NAME_BYTES);
    }

    #[test]
    fn each_url_has_its_own_folder() {
        let names = ["https://host/a", "https://host/b", "https://host/a?id=1", "http://host/a", "https://host:1/a"];
        let names: std::collections::BTreeSet<String> = names.iter().map(|text| folder_name(&url(text))).collect();
        assert_eq!(names.len(), 5);
        assert!(names.iter().all(|name| name.starts_with("host-") && name.len() == 21), "{names:?}");
        assert!(folder_name(&url("http://[::1]:80/a")).starts_with("___1_-"));
    }

    #[test]
    fn one_part_stands_for_all() {
        let parts = all_parts(&url("https://host/m-00002-of-00003.gguf?key=1")).unwrap();
        let parts: Vec<String> = parts.iter().map(Url::identity).collect();
        assert_eq!(parts[0], "https://host/m-00001-of-00003.gguf?key=1");
        assert_eq!(parts[2], "https://host/m-00003-of-00003.gguf?key=1");
        assert_eq!(all_parts(&url("https://host/m.gguf")).unwrap().len(), 1);
    }
}
