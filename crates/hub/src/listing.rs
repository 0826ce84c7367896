//! What a repository holds at one commit, as the hub lists it and as a cache knows it.
//!
//! One request is enough: `GET /api/models/{repo}/revision/{revision}?blobs=true` names the commit and every file with
//! its size and its checksum. Nothing in it is believed before it was looked at: a listed path becomes a path on disk,
//! and a checksum the name of a file.

use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::client::HttpResponse;
use crate::error::{Error, ErrorKind, Result};
use crate::request::{is_commit, is_safe_path};
use crate::text::{Bytes, Foreign};

/// The longest list that is read. The largest repositories, of 100,000 files, take about as much.
const MAX_LISTING_BYTES: usize = 32 << 20;

/// A repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The commit's hash, 40 hexadecimal digits.
    pub(crate) commit: String,
    pub(crate) files: Vec<RepoFile>,
}

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepoFile {
    /// With slashes, below the repository; safe to join to a folder.
    pub(crate) path: String,
    /// In bytes, if it is known.
    pub(crate) size: Option<u64>,
    /// The name of its contents, if it is known.
    pub(crate) etag: Option<Etag>,
    /// What that name says of the contents. One that a server sends with a file may be of any kind; only a SHA-256 can
    /// be told by its length.
    pub(crate) checksum: Option<Checksum>,
}

/// By what the contents of a file are known to be right, in small hexadecimal letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// Of a large file.
    Sha256(String),
    /// Git's hash of any other.
    GitBlob(String),
}

/// The name of a file's contents, and of the blob in the cache: the SHA-256 of a large file, a hash of git's of a small
/// one. Safe as the name of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Etag(String);

impl Etag {
    /// Takes a name that is safe as the name of a file; none otherwise.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_safe = (1..=128).contains(&text.len()) && text.bytes().all(is_sound) && !text.starts_with('.');
        is_safe.then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The SHA-256 of the contents, if the name is one.
    pub(crate) fn sha256(&self) -> Option<Checksum> {
        self.digest(64).map(Checksum::Sha256)
    }

    /// The hash of git, if the name can be one.
    fn git_blob(&self) -> Option<Checksum> {
        self.digest(40).map(Checksum::GitBlob)
    }

    fn digest(&self, length: usize) -> Option<String> {
        let is_digest = self.0.len() == length && self.0.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest.then(|| self.0.to_ascii_lowercase())
    }
}

/// The hub's list; what else it says is not looked at.
#[derive(Deserialize)]
struct Info {
    sha: Option<String>,
    siblings: Option<Vec<Sibling>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

impl Listing {
    /// Reads the hub's list of files.
    ///
    /// # Errors
    /// If the connection breaks, or what came is not a list. Files whose names are not safe are left out.
    pub(crate) fn read(response: &mut HttpResponse, repo: &str, longest: Duration) -> Result<Self> {
        let body = read_all(response, repo, longest)?;
        let is_page = response.is_page() || body.trim_ascii_start().starts_with(b"<");
        if is_page {
            let fault = format!("{} sent a web page instead of the list of files of {repo}", response.host);
            return Err(Error::new(ErrorKind::Protocol, fault));
        }
        let host = &response.host;
        let nonsense = |why: &str| {
            let fault = format!("{host} sent something that is not the list of files of {repo}: {}", Foreign(why));
            Error::new(ErrorKind::Protocol, fault)
        };
        let info: Info = serde_json::from_slice(&body).map_err(|error| nonsense(&error.to_string()))?;
        let commit = info.sha.ok_or_else(|| nonsense("it names no commit"))?.to_ascii_lowercase();
        if !is_commit(&commit) {
            return Err(nonsense("its commit is not a hash"));
        }
        let siblings = info.siblings.ok_or_else(|| nonsense("it names no files"))?;
        let files = siblings.into_iter().filter_map(|sibling| RepoFile::from_sibling(sibling, repo)).collect();
        Ok(Self { commit, files })
    }

    pub(crate) fn paths(&self) -> Vec<&str> {
        self.files.iter().map(|file| file.path.as_str()).collect()
    }
}

impl RepoFile {
    fn from_sibling(sibling: Sibling, repo: &str) -> Option<Self> {
        let path = sibling.rfilename;
        if !is_safe_path(&path) {
            tracing::warn!("{repo} lists \"{}\", which is not a safe path; it is left out", Foreign(&path));
            return None;
        }
        let (size, etag, is_git) = match sibling.lfs {
            Some(lfs) => (lfs.size.or(sibling.size), lfs.sha256, false),
            None => (sibling.size, sibling.blob_id, true),
        };
        let etag = etag.and_then(|etag| Etag::new(&etag));
        let checksum = etag.as_ref().and_then(|etag| if is_git { etag.git_blob() } else { etag.sha256() });
        Some(Self { path, size, etag, checksum })
    }
}

/// A body of bounded size, in bounded time however slowly it drips.
fn read_all(response: &mut HttpResponse, repo: &str, longest: Duration) -> Result<Vec<u8>> {
    let start = Instant::now();
    let mut body = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = response.read(&mut buffer).map_err(|error| {
            let message = format!("the list of files of {repo} broke off: {error}");
            Error::new(ErrorKind::Interrupted, message).with_source(error).transient()
        })?;
        if count == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&buffer[..count]);
        if body.len() > MAX_LISTING_BYTES {
            let limit = Bytes(MAX_LISTING_BYTES as u64);
            return Err(Error::new(ErrorKind::Protocol, format_args!("the list of files of {repo} is over {limit}")));
        }
        if start.elapsed() > longest {
            let message = format!("the list of files of {repo} is not whole after {} s", longest.as_secs_f64());
            return Err(Error::new(ErrorKind::Interrupted, message).transient());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_is_the_name_of_a_file_or_nothing() {
        let digest = "AB".repeat(32);
        let sha256 = Checksum::Sha256(digest.to_ascii_lowercase());
        assert_eq!(Etag::new(&digest).and_then(|etag| etag.sha256()), Some(sha256));
        assert_eq!(Etag::new("d41d8cd9-3").and_then(|etag| etag.sha256()), None);
        for text in ["", ".", "..", "../x", "a/b", "a\\b", "a b", "é", "a\0", &"a".repeat(129)] {
            assert_eq!(Etag::new(text), None, "{text:?}");
        }
    }
}
