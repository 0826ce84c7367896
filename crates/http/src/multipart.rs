//! `multipart/form-data` bodies: the part `request` holds the JSON, the others the assets that it names.
//!
//! This is how the Python SDK sends pictures. The model that the parts would be for is not there yet, so what is read is
//! the part `request`; a record that names assets is refused where every record is read.

use std::convert::Infallible;

use bytes::Bytes;
use clef_record::{LocItem, Record};
use futures_util::FutureExt as _;
use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;

use crate::error::Failure;

/// The part that holds the JSON.
const REQUEST: &str = "request";

/// The most parts of a body: the request, and far more assets than a record may have.
const MAX_PARTS: usize = 64;

/// The boundary between the parts; none if the body is of another type.
pub(crate) fn boundary(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    multer::parse_boundary(content_type).ok()
}

/// Reads the record in a body of parts.
pub(crate) fn parse(body: Bytes, boundary: String) -> Result<Record, Failure> {
    let parts =
        read(body, boundary).now_or_never().ok_or_else(|| Failure::fault("a whole body was not read at once"))?;
    let Parts { request, other } = parts?;
    let request = request.ok_or_else(|| {
        let message = "the multipart body has no part named \"request\", which holds the JSON";
        Failure::invalid(vec!["body".into(), REQUEST.into()], "missing", message)
    })?;
    let record = Record::parse(&request).map_err(|error| Failure::of_record(&error))?;
    match other {
        // A record that names assets was refused by now.
        Some(name) => {
            let name = LocItem::field(&name);
            let message = format!("no asset of the request names the part \"{name}\"");
            Err(Failure::invalid(vec!["body".into(), name], "extra_forbidden", message))
        }
        None => Ok(record),
    }
}

struct Parts {
    request: Option<Bytes>,
    /// The name of the first part that is not the request.
    other: Option<String>,
}

async fn read(body: Bytes, boundary: String) -> Result<Parts, Failure> {
    let refuse = |slug, message: String| Failure::invalid(vec!["body".into(), 0.into()], slug, message);
    let invalid =
        |error: multer::Error| refuse("multipart_invalid", format!("the multipart body is not valid: {error}"));
    let whole = futures_util::stream::once(std::future::ready(Ok::<_, Infallible>(body)));
    let mut multipart = multer::Multipart::new(whole, boundary);
    let mut parts = Parts { request: None, other: None };
    let mut count = 0;
    while let Some(part) = multipart.next_field().await.map_err(invalid)? {
        count += 1;
        if count > MAX_PARTS {
            return Err(refuse("too_long", format!("the multipart body has more than {MAX_PARTS} parts")));
        }
        match part.name() {
            Some(REQUEST) if parts.request.is_some() => {
                return Err(refuse("duplicate_key", "the multipart body has two parts named \"request\"".to_owned()));
            }
            Some(REQUEST) => parts.request = Some(part.bytes().await.map_err(invalid)?),
            name => parts.other = parts.other.take().or_else(|| Some(name.unwrap_or_default().to_owned())),
        }
    }
    Ok(parts)
}
