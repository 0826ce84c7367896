//! What a person gives to read, bounded.

use std::io::{IsTerminal as _, Read};
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Context as _;
use clef_api::{LocItem, MediaData};

use crate::failure::Failure;

/// The server's default limit on a body, too.
pub(crate) const MAX_REQUEST_BYTES: u64 = 100 << 20;

/// How many things are done at a time.
pub(crate) fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a whole number from 1 on is expected".to_owned())
}

/// A file, or standard input where it is `-`. `what` is missing where none is named and a person would have to type it.
pub(crate) fn read_input(path: Option<&Path>, what: &str) -> Result<Vec<u8>, Failure> {
    match path {
        Some(path) if path.as_os_str() != "-" => read_file(path, MAX_REQUEST_BYTES),
        None if std::io::stdin().is_terminal() => {
            Err(Failure::usage(format_args!("no {what}, and standard input is a terminal; - reads it all the same")))
        }
        _ => read_up_to(std::io::stdin().lock(), MAX_REQUEST_BYTES, "standard input"),
    }
}

/// A picture's file or a video's.
pub(crate) fn read_media(path: &Path) -> Result<MediaData, Failure> {
    Ok(MediaData::File(read_file(path, MAX_REQUEST_BYTES)?.into()))
}

/// How messages call a file: errors leave the first step out, as it is the body of a request.
pub(crate) fn place(path: &Path) -> Vec<LocItem> {
    vec!["body".into(), LocItem::field(&path.display().to_string())]
}

pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {name}"))?;
    read_up_to(file, limit, &name)
}

fn read_up_to(from: impl Read, limit: u64, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > limit {
        return Err(Failure::request(format_args!("{name} is larger than {} MiB", limit >> 20)));
    }
    Ok(bytes)
}
