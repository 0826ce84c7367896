//! By what it is known that the rest of a file belongs to its beginning.

use crate::client::{HttpResponse, bare_etag};

/// By what a server knows that a file has not changed: a strong entity tag, or else the time of the last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Validator(String);

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
    pub(crate) fn is_contradicted_by(&self, response: &HttpResponse) -> bool {
        let said = response.header(if self.is_etag() { "etag" } else { "last-modified" });
        said.is_some_and(|said| bare_etag(said) != bare_etag(&self.0))
    }
}

/// `Content-Range: bytes 100-199/200`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContentRange {
    pub(crate) first: u64,
    pub(crate) total: Option<u64>,
}

impl ContentRange {
    pub(crate) fn parse(text: &str) -> Option<Self> {
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
}
