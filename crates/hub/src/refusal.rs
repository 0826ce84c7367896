//! Responses that say no, in words that say what to do.
//!
//! A host that the hub passes a request on to has no opinion of who may read what: if it refuses, the address that the
//! hub has signed is too old, and the hub is asked for another. The hub itself says what is meant in `X-Error-Code` and
//! blurs the status on purpose: a repository that does not exist and one that is private look alike to somebody without
//! a token.

use crate::client::HttpResponse;
use crate::error::{Error, ErrorKind};
use crate::request::RepoId;
use crate::text::Foreign;
use crate::url::Url;

/// How a token is given.
const GIVE_A_TOKEN: &str = "give a token (HF_TOKEN)";

/// Why nobody is asked, as the end of a sentence.
pub(crate) const OFFLINE: &str = "no network may be used (offline, as by HF_HUB_OFFLINE)";

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// A repository at a revision, or a file of it.
    Repo {
        /// The repository.
        repo: &'a RepoId,
        /// A branch, tag or commit.
        revision: &'a str,
        /// A file by its path; none: the list of files.
        file: Option<&'a str>,
        /// The repository's page, for people.
        page: &'a Url,
    },
    /// A plain address.
    Address(&'a Url),
}

/// The error that a response with a status other than the wanted ones is.
pub(crate) fn refusal(response: &HttpResponse, subject: Subject<'_>) -> Error {
    let status = response.status;
    let why = match (status, subject) {
        (429, _) => Some("refuses because of too many requests"),
        (408 | 425 | 500..=599, _) => Some("cannot answer now"),
        (_, Subject::Repo { .. }) if response.is_passed_on => Some("refuses what the hub has signed"),
        _ => None,
    };
    if let Some(why) = why {
        let asked = match subject {
            Subject::Repo { repo, .. } => format!(" (asked for {repo})"),
            Subject::Address(_) => String::new(),
        };
        let fault = format!("{}{asked} {why}, status {status}{}", response.host, reason(response));
        return Error::new(ErrorKind::Server, fault).transient().with_retry_after(response.retry_after());
    }
    let (kind, fault, advice) = match subject {
        Subject::Repo { repo, revision, file, page } => repo_refusal(response, repo, revision, file, page),
        Subject::Address(url) => address_refusal(status, url),
    };
    Error::new(kind, format_args!("{fault}{}", reason(response))).with_advice(advice)
}

/// What is refused and why, and what can be done about it.
fn repo_refusal(
    response: &HttpResponse,
    repo: &RepoId,
    revision: &str,
    file: Option<&str>,
    page: &Url,
) -> (ErrorKind, String, String) {
    let code = response.header("x-error-code").unwrap_or("");
    match (code, response.status, file) {
        ("GatedRepo", _, _) if response.had_token => (
            ErrorKind::Gated,
            format!("{repo} is gated, and the token's account is not let in"),
            format!(
                "accept the terms at {page} with that account (a fine-grained token must also allow gated repositories)"
            ),
        ),
        ("GatedRepo", _, _) => (
            ErrorKind::Gated,
            format!("{repo} is gated"),
            format!("accept its terms at {page}, then {GIVE_A_TOKEN} of the same account"),
        ),
        ("RevisionNotFound", _, _) => (
            ErrorKind::RevisionNotFound,
            format!("{repo} has no branch, tag or commit \"{}\"", Foreign(revision)),
            format!("see {page}"),
        ),
        ("EntryNotFound", _, Some(file)) | ("", 404, Some(file)) => (
            ErrorKind::FileNotFound,
            format!("{repo} has no file \"{}\"", Foreign(file)),
            format!("see {}", files_page(page, revision)),
        ),
        ("RepoNotFound", _, _) | (_, 404, _) | (_, 401, None) if !(response.status == 401 && response.had_token) => (
            ErrorKind::RepoNotFound,
            format!("{page} is not there, or is private"),
            format!("check the name; if it is private, {GIVE_A_TOKEN}"),
        ),
        (_, 401, _) if response.had_token => (
            ErrorKind::Unauthorized,
            format!("the token is refused by {} (mistyped, expired or withdrawn)", page.host()),
            "check HF_TOKEN, or wherever it is from".to_owned(),
        ),
        (_, 401 | 403, _) => (
            ErrorKind::Unauthorized,
            format!("{repo} may not be read"),
            format!("see {page}, and {GIVE_A_TOKEN} that may"),
        ),
        (_, status, _) => {
            (ErrorKind::Protocol, format!("{repo} is answered with status {status}"), format!("see {page}"))
        }
    }
}

/// The page of a repository's files, for people.
pub(crate) fn files_page(page: &Url, revision: &str) -> Url {
    page.with_segments(["tree", revision]).unwrap_or_else(|_| page.clone())
}

fn address_refusal(status: u16, url: &Url) -> (ErrorKind, String, String) {
    let (kind, fault) = match status {
        404 | 410 => (ErrorKind::FileNotFound, format!("there is nothing at {url} (status {status})")),
        401 | 403 | 407 => (ErrorKind::Unauthorized, format!("{url} may not be read (status {status})")),
        _ => (ErrorKind::Protocol, format!("{url} is answered with status {status}")),
    };
    (kind, fault, String::new())
}

/// What the other side says of it, as an addition to a message.
fn reason(response: &HttpResponse) -> String {
    response.header("x-error-message").map_or(String::new(), |text| format!(" (\"{}\")", Foreign(text)))
}
