//! What is asked for: a repository, a revision of it, and which of its files.
//!
//! Names become parts of addresses and of paths on disk, those that people write and those that a server lists. Here
//! is the one place where they are held against what such a name may be.

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::error::{Error, ErrorKind, Result};
use crate::options::DEFAULT_ENDPOINT;
use crate::text::Foreign;
use crate::url::{Url, shown};

/// How a person writes what is wanted.
const WRITTEN: &str = "it is written user/repo or user/repo:quant";

/// The branch that is meant unless something else is said.
const DEFAULT_REVISION: &str = "main";

/// The longest name of a user or a repository, in bytes.
const MAX_NAME_BYTES: usize = 96;

/// The longest path of a file in a repository, and the longest of its segments, in bytes; file systems allow no more.
const MAX_PATH_BYTES: usize = 1_024;
const MAX_SEGMENT_BYTES: usize = 255;

/// A repository: `user/repo`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepoId {
    owner: String,
    name: String,
}

impl RepoId {
    /// Reads `user/repo`.
    ///
    /// # Errors
    /// If it is not of this form, or a name is not one that the hub gives out.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || {
            let message = format!("\"{}\" is not a repository", Foreign(text));
            Error::new(ErrorKind::InvalidRequest, message).with_advice(WRITTEN)
        };
        let (owner, name) = text.split_once('/').ok_or_else(invalid)?;
        if !is_repo_name(owner) || !is_repo_name(name) {
            return Err(invalid());
        }
        Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
    }

    /// The user or organization.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The repository's own name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// Which file of a repository is the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Q4_K_M or the nearest to it: other 4-bit quantizations, then 5, 6 and 8 bits, then fewer, then full precision.
    Default,
    /// The file of this quantization, in capital or small letters, as `Q4_K_M`.
    Quant(String),
    /// The file of this path in the repository.
    File(String),
}

/// A model in a repository, with its projector unless told otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    repo: RepoId,
    revision: String,
    choice: Choice,
    wants_projector: bool,
}

impl ModelRequest {
    /// The default choice of a repository, at `main`, with its projector.
    pub fn new(repo: RepoId) -> Self {
        Self { repo, revision: DEFAULT_REVISION.to_owned(), choice: Choice::Default, wants_projector: true }
    }

    /// Reads `user/repo` or `user/repo:quant`, or the address of the repository's page on `huggingface.co` in its
    /// place. [`Hub::model_request`](crate::Hub::model_request) knows the addresses of another hub, too.
    ///
    /// # Errors
    /// If it is not of this form.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_for(text, &[DEFAULT_ENDPOINT])
    }

    /// The same for pages of some hubs.
    pub(crate) fn parse_for(text: &str, endpoints: &[&str]) -> Result<Self> {
        let text = text.trim();
        if !text.contains("://") {
            return Self::parse_name(text);
        }
        let invalid = |why: &str| {
            let fault = format!("\"{}\" is not a repository: {why}", Foreign(&shown(text)));
            Error::new(ErrorKind::InvalidRequest, fault).with_advice(WRITTEN)
        };
        let bare = text.split(['?', '#']).next().unwrap_or("");
        let path = endpoints
            .iter()
            .find_map(|endpoint| path_below(bare, endpoint))
            .ok_or_else(|| invalid("it is not an address of the hub"))?;
        let (page, quant) = path.split_once(':').map_or((path, None), |(page, quant)| (page, Some(quant)));
        let segments: Vec<&str> = page.trim_matches('/').split('/').collect();
        let (owner, name, revision) = match segments[..] {
            [owner, name] => (owner, name, None),
            [owner, name, "tree", revision] => (owner, name, Some(revision)),
            _ => return Err(invalid("it is not the address of a repository's page")),
        };
        let quant = quant.map_or(String::new(), |quant| format!(":{quant}"));
        let request = Self::parse_name(&format!("{owner}/{name}{quant}"))
            .map_err(|_| invalid("its names are not those of a repository"))?;
        match revision {
            Some(revision) => request.with_revision(&percent_decode_str(revision).decode_utf8_lossy()),
            None => Ok(request),
        }
    }

    fn parse_name(text: &str) -> Result<Self> {
        let (repo, quant) = text.split_once(':').map_or((text, None), |(repo, quant)| (repo, Some(quant)));
        let request = Self::new(RepoId::parse(repo)?);
        let Some(quant) = quant else {
            return Ok(request);
        };
        let is_quant = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if quant.is_empty() || quant.len() > MAX_NAME_BYTES || !quant.bytes().all(is_quant) {
            let fault = match quant {
                "" => format!("\"{repo}:\" names no quantization behind its colon"),
                quant => format!("\"{}\" is not a quantization", Foreign(quant)),
            };
            let advice = format!("one is written as in {repo}:Q4_K_M");
            return Err(Error::new(ErrorKind::InvalidRequest, fault).with_advice(advice));
        }
        Ok(Self { choice: Choice::Quant(quant.to_owned()), ..request })
    }

    /// The same with one file of the repository. Any part of a split file stands for all.
    ///
    /// # Errors
    /// If it is not a path of a file inside a repository.
    pub fn with_file(self, file: &str) -> Result<Self> {
        if !is_safe_path(file) {
            let message = format!("\"{}\" is not a path of a file in a repository", Foreign(file));
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        Ok(Self { choice: Choice::File(file.to_owned()), ..self })
    }

    /// The same at a branch, a tag or a commit; the address of a page can name one, too.
    ///
    /// # Errors
    /// If it is not a name of such.
    pub fn with_revision(self, revision: &str) -> Result<Self> {
        let is_name = |byte: u8| byte.is_ascii_graphic() && !br#"~^:?*[\"'<>|"#.contains(&byte);
        if !is_safe_path(revision) || !revision.bytes().all(is_name) {
            let message = format!("\"{}\" is not a name of a branch, tag or commit", Foreign(revision));
            return Err(Error::new(ErrorKind::InvalidRequest, message));
        }
        Ok(Self { revision: revision.to_owned(), ..self })
    }

    /// The same without a projector.
    pub fn without_projector(self) -> Self {
        Self { wants_projector: false, ..self }
    }

    /// The repository.
    pub fn repo(&self) -> &RepoId {
        &self.repo
    }

    /// The branch, tag or commit.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Which file is the model.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Whether a projector is looked for.
    pub fn wants_projector(&self) -> bool {
        self.wants_projector
    }
}

impl fmt::Display for ModelRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.choice {
            Choice::Default => write!(f, "{}", self.repo),
            Choice::Quant(quant) => write!(f, "{}:{quant}", self.repo),
            Choice::File(file) => write!(f, "{} of {}", Foreign(file), self.repo),
        }
    }
}

/// What stands behind the address of a hub in the address of one of its pages.
fn path_below<'a>(address: &'a str, endpoint: &str) -> Option<&'a str> {
    let endpoint = endpoint.trim_end_matches('/');
    let (one, other) = (Url::parse(address).ok()?, Url::parse(endpoint).ok()?);
    let (path, prefix) = (path_of(address)?, path_of(endpoint)?);
    let below = path.strip_prefix(prefix)?;
    // Browsers and people do not tell one scheme from the other.
    (one.host().eq_ignore_ascii_case(other.host()) && one.port() == other.port() && below.starts_with('/'))
        .then_some(below)
}

/// The path of an address, as it stands there.
fn path_of(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    Some(rest.find('/').map_or("", |start| &rest[start..]))
}

/// Whether a name of a user or repository is one that the hub gives out. `--` separates names in the cache.
fn is_repo_name(name: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_edge = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= MAX_NAME_BYTES
        && name.bytes().all(is_inside)
        && name.bytes().next().is_some_and(is_edge)
        && name.bytes().last().is_some_and(is_edge)
        && !name.contains("--")
        && !name.contains("..")
}

/// Whether a path, written with slashes, stays below the folder that it is put into, on every system.
pub(crate) fn is_safe_path(path: &str) -> bool {
    let is_safe_segment = |segment: &str| {
        !segment.is_empty()
            && segment.len() <= MAX_SEGMENT_BYTES
            && segment != "."
            && segment != ".."
            && !segment.contains(|character: char| character.is_control() || character == '\\')
            && !(cfg!(windows) && segment.contains(':'))
    };
    !path.is_empty() && path.len() <= MAX_PATH_BYTES && path.split('/').all(is_safe_segment)
}

/// Whether a revision is a commit's full hash, which never comes to mean something else.
pub(crate) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;

    #[test]
    fn a_repository_and_a_quantization_are_read() {
        let request = ModelRequest::parse(" user-1/Some.Repo_GGUF:q8_0 ").unwrap();
        assert_eq!((request.repo().owner(), request.repo().name()), ("user-1", "Some.Repo_GGUF"));
        assert_eq!((request.revision(), request.choice()), ("main", &Choice::Quant("q8_0".to_owned())));
        assert!(request.wants_projector() && !request.clone().without_projector().wants_projector());
        assert_eq!(ModelRequest::parse("user/repo").unwrap().choice(), &Choice::Default);
        assert_eq!(request.to_string(), "user-1/Some.Repo_GGUF:q8_0");
    }

    #[test]
    fn what_is_not_a_repository_is_refused() {
        for text in [
            "",
            "repo",
            "a/b/c",
            "/repo",
            "user/",
            "user/..",
            "../repo",
            "user/a--b",
            "us er/repo",
            "user/repo ",
            "a/.b",
            "user/repo\n",
            "user/re\\po",
            "user/-repo",
            "https://huggingface.co/user/repo",
        ] {
            assert_eq!(RepoId::parse(text).unwrap_err().kind(), ErrorKind::InvalidRequest, "{text:?}");
        }
        assert!(RepoId::parse(&format!("user/{}", "a".repeat(97))).is_err());
        for text in ["user/repo:", "user/repo:Q4 K", "user/repo:../x", "user/repo:a:b"] {
            assert_eq!(ModelRequest::parse(text).unwrap_err().kind(), ErrorKind::InvalidRequest, "{text:?}");
        }
        let message = ModelRequest::parse("user/repo:").unwrap_err().to_string();
        assert_eq!(
            message,
            "\"user/repo:\" names no quantization behind its colon; one is written as in user/repo:Q4_K_M"
        );
    }

    #[test]
    fn the_address_of_a_page_is_the_repository() {
        let read = |text: &str| ModelRequest::parse_for(text, &["https://mirror.example:8443/hub/", DEFAULT_ENDPOINT]);
        for text in [
            "https://huggingface.co/user/repo",
            "http://HuggingFace.co/user/repo/",
            "https://huggingface.co/user/repo?library=gguf#files",
            "https://huggingface.co/user/repo/tree/main",
            "https://mirror.example:8443/hub/user/repo",
        ] {
            assert_eq!(read(text).unwrap(), ModelRequest::parse("user/repo").unwrap(), "{text}");
            let bare = text.split('?').next().unwrap();
            let with_quant = read(&format!("{bare}:Q8_0")).unwrap();
            assert_eq!(with_quant, ModelRequest::parse("user/repo:Q8_0").unwrap(), "{text}");
        }
        let at_revision = read("https://huggingface.co/user/repo/tree/refs%2Fpr%2F1").unwrap();
        assert_eq!(at_revision.revision(), "refs/pr/1");
        for text in [
            "https://huggingface.co/user",
            "https://huggingface.co/user/re po",
            "https://huggingface.co/user/repo:a:b",
            "https://huggingface.co/user/repo/blob/main/m.gguf",
            "https://huggingface.co/user/repo/tree/..",
            "https://huggingface.co.example/user/repo",
            "https://mirror.example:8443/user/repo",
            "https://mirror.example/hub/user/repo",
            "ftp://huggingface.co/user/repo",
            "https://",
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{text}");
            assert!(error.message().contains(text) || text.ends_with(".."), "{error}");
        }
        let error = ModelRequest::parse("https://user:secret@huggingface.co/x?key=secret").unwrap_err();
        assert!(!error.message().contains("secret"), "{error}");
    }

    #[test]
    fn paths_stay_inside() {
        for path in ["model.gguf", "Q4_K_M/model-00001-of-00002.gguf", ".hidden", "a b/é.gguf", "..a/b.."] {
            assert!(is_safe_path(path), "{path:?}");
        }
        let long = format!("{}/a", "a".repeat(256));
        for path in ["", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\\b", "a\0b", "a\nb", &long] {
            assert!(!is_safe_path(path), "{path:?}");
        }
        let request = ModelRequest::parse("user/repo").unwrap();
        assert!(request.clone().with_file("../../etc/passwd").is_err());
        for revision in ["../x", "a b", "a:b", "", "/refs", "refs//pr"] {
            assert!(request.clone().with_revision(revision).is_err(), "{revision:?}");
        }
        assert_eq!(request.with_revision("refs/pr/1").unwrap().revision(), "refs/pr/1");
    }
}
