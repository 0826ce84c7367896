//! Addresses: read from people and from redirects, shown without their secrets.
//!
//! What a person pastes may have spaces, letters beyond ASCII and a fragment; what a server redirects to may be
//! relative. What goes into a message has no user name, no password and no query: a query may be a signature that opens
//! the file to whoever reads the log.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use ureq::http::Uri;

use crate::error::{Error, ErrorKind, Result};

/// What is encoded in an address that a person wrote: what cannot stand in one, and nothing that may be meant.
const STRAY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}').add(b'|');

/// What is encoded in one segment of a path: all but the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An absolute address, `http:` or `https:`, without a fragment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url(Uri);

/// Scheme, host and port: who sees what is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    is_secure: bool,
    host: String,
    port: u16,
}

impl Url {
    /// Reads an address as people write them.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let shown = shown(text);
        let invalid = |why: &str| Err(Error::new(ErrorKind::InvalidRequest, format_args!("\"{shown}\" {why}")));
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let Ok(uri) = utf8_percent_encode(text, STRAY).to_string().parse::<Uri>() else {
            return invalid("is not a URL");
        };
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return invalid("is not a URL that begins with https:// or http://");
        }
        if uri.host().is_none_or(str::is_empty) {
            return invalid("is a URL without a host");
        }
        Ok(Self(uri))
    }

    /// The address that a `Location` beside this one means. Dots in it are left to the server.
    pub(crate) fn join(&self, location: &str) -> Result<Self> {
        let location = location.trim();
        let (scheme, authority) = (self.scheme(), self.0.authority().map_or("", |authority| authority.as_str()));
        // A name and a password are for the page that they were written for.
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let has_scheme = location.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':'));
        if has_scheme {
            Self::parse(location)
        } else if location.starts_with("//") {
            Self::parse(&format!("{scheme}:{location}"))
        } else if location.starts_with('/') {
            Self::parse(&format!("{scheme}://{host}{location}"))
        } else if location.is_empty() || location.starts_with(['?', '#']) {
            Self::parse(&format!("{scheme}://{host}{}{location}", self.0.path()))
        } else {
            let folder = self.0.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            Self::parse(&format!("{scheme}://{host}{folder}/{location}"))
        }
    }

    /// The address with segments behind its path, each encoded as one.
    pub(crate) fn with_segments<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut text = self.0.to_string();
        text.truncate(text.trim_end_matches('/').len());
        for segment in segments {
            text.push('/');
            text.extend(utf8_percent_encode(segment, SEGMENT));
        }
        Self::parse(&text)
    }

    /// The address with a query, which it had none of.
    pub(crate) fn with_query(&self, query: &str) -> Result<Self> {
        Self::parse(&format!("{}?{query}", self.0))
    }

    /// The address with another last segment of its path, its query as before.
    pub(crate) fn with_file_name(&self, encoded_name: &str) -> Result<Self> {
        let text = self.0.to_string();
        let (path, query) = text.split_once('?').map_or((text.as_str(), None), |(path, query)| (path, Some(query)));
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        Self::parse(&format!("{folder}/{encoded_name}{query}"))
    }

    /// The last segment of the path, as it stands there.
    pub(crate) fn encoded_file_name(&self) -> &str {
        self.0.path().rsplit('/').next().unwrap_or("")
    }

    /// The last segment of the path, decoded.
    pub(crate) fn file_name(&self) -> String {
        percent_decode_str(self.encoded_file_name()).decode_utf8_lossy().into_owned()
    }

    pub(crate) fn host(&self) -> &str {
        self.0.host().unwrap_or("")
    }

    /// The port, if it is not the usual one.
    pub(crate) fn port(&self) -> Option<u16> {
        let usual = if self.is_secure() { 443 } else { 80 };
        self.0.port_u16().filter(|port| *port != usual)
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.scheme() == "https"
    }

    fn scheme(&self) -> &str {
        self.0.scheme_str().unwrap_or("http")
    }

    pub(crate) fn origin(&self) -> Origin {
        let is_secure = self.is_secure();
        let port = self.port().unwrap_or(if is_secure { 443 } else { 80 });
        Origin { is_secure, host: self.host().to_ascii_lowercase(), port }
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// The whole address, secrets and all: to tell one from another, not to show.
    pub(crate) fn identity(&self) -> String {
        self.0.to_string()
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0.to_string()))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

/// An address, or what was meant as one, as messages show it.
pub(crate) fn shown(text: &str) -> String {
    const MAX_CHARACTERS: usize = 400;
    let bare = text.split(['?', '#']).next().unwrap_or("");
    let (scheme, rest) = bare.split_once("://").map_or(("", bare), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, _)| {
        let path = &rest[authority.len()..];
        (authority, path)
    });
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let separator = if scheme.is_empty() { "" } else { "://" };
    let whole = format!("{scheme}{separator}{host}{path}");
    let mut cut: String = whole
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(MAX_CHARACTERS)
        .collect();
    if whole.chars().nth(MAX_CHARACTERS).is_some() {
        cut.push_str("...");
    }
    if text.contains('?') {
        cut.push_str("?...");
    }
    cut
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn what_people_paste_is_read() {
        assert_eq!(url(" https://host/a b/é.gguf#top ").identity(), "https://host/a%20b/%C3%A9.gguf");
        assert_eq!(url("https://host/a%20b").identity(), "https://host/a%20b");
        for text in ["", "host/file", "ftp://host/file", "https://", "https:///file", "file:///etc/passwd", "hf://a/b"]
        {
            assert_eq!(Url::parse(text).unwrap_err().kind(), ErrorKind::InvalidRequest, "{text:?}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let text = "https://user:password@host:8443/folder/file.gguf?X-Signature=abc#fragment";
        assert_eq!(url(text).to_string(), "https://host:8443/folder/file.gguf?...");
        assert_eq!(format!("{:?}", url("https://host/?key=1")), "Url(https://host/?...)");
        let message = Url::parse("ftp://user:password@host/file?key=1").unwrap_err().to_string();
        assert!(message.contains("ftp://host/file") && !message.contains("password") && !message.contains("key"));
    }

    #[test]
    fn redirects_may_be_relative() {
        let base = url("https://user:password@host:8443/a/b?x=1");
        for (location, expected) in [
            ("https://cdn.example/f?s=1", "https://cdn.example/f?s=1"),
            ("HTTP://cdn.example/f", "http://cdn.example/f"),
            ("//cdn.example/f", "https://cdn.example/f"),
            ("/c/d?y=2", "https://host:8443/c/d?y=2"),
            ("c", "https://host:8443/a/c"),
            ("c?at=12:30", "https://host:8443/a/c?at=12:30"),
            ("?y=2", "https://host:8443/a/b?y=2"),
            ("", "https://host:8443/a/b"),
        ] {
            assert_eq!(base.join(location).unwrap().identity(), expected, "{location}");
        }
        for location in ["ftp://host/f", "javascript:alert(1)", "https://"] {
            assert!(base.join(location).is_err(), "{location}");
        }
    }

    #[test]
    fn segments_cannot_leave_their_place() {
        let base = url("https://host/mirror/");
        let whole = base.with_segments(["user", "re po", "a/b?c#d", ".."]).unwrap();
        assert_eq!(whole.identity(), "https://host/mirror/user/re%20po/a%2Fb%3Fc%23d/..");
        assert_eq!(whole.with_query("blobs=true").unwrap().uri().query(), Some("blobs=true"));
    }

    #[test]
    fn a_file_name_can_be_replaced() {
        let whole = url("https://host/f/m%20x-00001-of-00002.gguf?sig=a/b");
        assert_eq!(whole.file_name(), "m x-00001-of-00002.gguf");
        assert_eq!(whole.with_file_name("y.gguf").unwrap().identity(), "https://host/f/y.gguf?sig=a/b");
        assert_eq!(url("https://host").file_name(), "");
    }

    #[test]
    fn the_same_origin_is_the_same_scheme_host_and_port() {
        let origin = url("https://Host/a").origin();
        assert!(origin == url("https://host:443/b?c").origin());
        for other in ["http://host", "https://host:444", "https://host.example", "http://host:443"] {
            assert!(origin != url(other).origin(), "{other}");
        }
    }
}
