//! `multipart/form-data` bodies: the part `request` holds the JSON, the others the assets that it names.
//!
//! This is how the Python SDK sends pictures: as they are, without the third that base64 adds.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use clef_record::{Grouped, LocItem, Record, Rules};
use futures_util::FutureExt as _;
use hyper::HeaderMap;
use hyper::header::CONTENT_TYPE;
use multer::{Field, Multipart};

use crate::error::Failure;

/// The part that holds the JSON.
const REQUEST: &str = "request";

/// The boundary between the parts; none if the body is of another type.
pub(crate) fn boundary(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    multer::parse_boundary(content_type).ok()
}

/// Reads the record in a body of parts.
pub(crate) fn parse(body: Bytes, boundary: String, rules: &Rules) -> Result<Record, Failure> {
    let parts = read(body, boundary, rules.max_images)
        .now_or_never()
        .ok_or_else(|| Failure::fault("a whole body was not read at once"))?;
    let Parts { request, files } = parts?;
    let request = request.ok_or_else(|| {
        let message = "the multipart body has no part named \"request\", which holds the JSON";
        Failure::invalid(vec!["body".into(), REQUEST.into()], "missing", message)
    })?;
    let file = |name: &str| {
        let file = files.iter().find(|file| file.name == name)?;
        file.is_named.set(true);
        Some(Arc::clone(&file.content))
    };
    let record = Record::parse_with_files(&request, rules, &file).map_err(|error| Failure::of_record(&error))?;
    match files.iter().find(|file| !file.is_named.get()) {
        Some(file) => {
            let name = LocItem::field(&file.name);
            let message = format!("no asset of the request names the part \"{name}\"");
            Err(Failure::invalid(vec!["body".into(), name], "extra_forbidden", message))
        }
        None => Ok(record),
    }
}

struct Parts {
    request: Option<Bytes>,
    /// The others, no two of the same name.
    files: Vec<File>,
}

struct File {
    name: String,
    content: Arc<[u8]>,
    /// Whether an asset of the request names it.
    is_named: Cell<bool>,
}

/// Takes a body apart: the request, and at most as many others as there may be pictures.
async fn read(body: Bytes, boundary: String, max_files: usize) -> Result<Parts, Failure> {
    let refuse = |slug, message: String| Failure::invalid(vec!["body".into(), 0.into()], slug, message);
    let invalid =
        |error: multer::Error| refuse("multipart_invalid", format!("the multipart body is not valid: {error}"));
    let whole = futures_util::stream::once(std::future::ready(Ok::<_, Infallible>(body)));
    let mut multipart = Multipart::new(whole, boundary);
    let mut parts = Parts { request: None, files: Vec::new() };
    while let Some(part) = multipart.next_field().await.map_err(invalid)? {
        let name = part.name().unwrap_or_default().to_owned();
        if parts.files.iter().any(|file| file.name == name) || (name == REQUEST && parts.request.is_some()) {
            let message = format!("the multipart body has two parts named \"{}\"", LocItem::field(&name));
            return Err(refuse("duplicate_key", message));
        }
        if name == REQUEST {
            parts.request = Some(content(part).await.map_err(invalid)?);
            continue;
        }
        if parts.files.len() == max_files {
            let message = format!(
                "the multipart body has more than {} parts, the limit: the request, and one for each picture",
                Grouped(max_files.saturating_add(1))
            );
            return Err(refuse("too_long", message));
        }
        let content = Arc::from(&*content(part).await.map_err(invalid)?);
        parts.files.push(File { name, content, is_named: Cell::new(false) });
    }
    Ok(parts)
}

/// A part's content. Of a body that is there as a whole it comes in one piece, which is not copied.
async fn content(mut part: Field<'_>) -> Result<Bytes, multer::Error> {
    let first = part.chunk().await?.unwrap_or_default();
    let Some(second) = part.chunk().await? else { return Ok(first) };
    let mut joined = BytesMut::from(&*first);
    joined.extend_from_slice(&second);
    while let Some(next) = part.chunk().await? {
        joined.extend_from_slice(&next);
    }
    Ok(joined.freeze())
}
