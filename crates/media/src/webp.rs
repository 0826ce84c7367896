//! The skeleton of a WebP: which pictures it holds, how large, and how long each is shown.
//!
//! The file says its size up to three times: for the canvas, for a frame, and inside the compressed picture. The
//! decoder compares them after it has decoded; here they are compared first, so that a small canvas cannot hide a
//! picture of 16,383 x 16,383. Every chunk is checked to be inside the file, so that no length is believed.

use std::time::Duration;

use crate::error::{Error, Grouped, Result};
use crate::frame::Size;

/// What a WebP holds.
#[derive(Debug)]
pub(crate) struct WebpLayout {
    pub(crate) canvas: Size,
    /// How long each frame of an animation is shown; empty for a still picture.
    pub(crate) durations: Vec<Duration>,
    /// The bytes that belong to the file; anything may follow.
    pub(crate) file_bytes: usize,
}

impl WebpLayout {
    /// Reads the chunks of a WebP.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let declared = bytes.get(4..8).map_or(0, |field| little_endian(field) as usize);
        let file_bytes = 8 + declared;
        if file_bytes > bytes.len() || file_bytes < 12 {
            return Err(Error::damaged(format_args!(
                "WebP says it has {} bytes, it has {}; it is cut off",
                Grouped(file_bytes as u64),
                Grouped(bytes.len() as u64)
            )));
        }
        let mut layout = Self { canvas: Size::new(0, 0), durations: Vec::new(), file_bytes };
        let mut is_first = true;
        let mut is_animated = false;
        for chunk in Chunks(&bytes[12..file_bytes]) {
            let (name, data) = chunk?;
            match name {
                b"VP8X" if is_first => {
                    layout.canvas = Size::new(1 + triple(data, 4)?, 1 + triple(data, 7)?);
                    is_animated = data[0] & 0x02 != 0;
                }
                b"VP8 " | b"VP8L" if is_first => layout.canvas = picture_size(name, data)?,
                // Old decoders are given a still picture next to an animation; ours does not look at it.
                b"VP8 " | b"VP8L" if !is_animated => check_same("picture", picture_size(name, data)?, layout.canvas)?,
                b"ANMF" if is_animated => layout.durations.push(read_frame(data)?),
                _ if is_first => return Err(Error::damaged("WebP does not start with a picture")),
                _ => {}
            }
            is_first = false;
        }
        if is_animated && layout.durations.is_empty() {
            return Err(Error::damaged("WebP is an animation without frames"));
        }
        Ok(layout)
    }
}

/// Checks a frame of an animation; how long it is shown.
fn read_frame(data: &[u8]) -> Result<Duration> {
    let size = Size::new(1 + triple(data, 6)?, 1 + triple(data, 9)?);
    let milliseconds = triple(data, 12)?;
    for chunk in Chunks(data.get(16..).unwrap_or_default()) {
        let (name, data) = chunk?;
        if matches!(name, b"VP8 " | b"VP8L") {
            check_same("frame", picture_size(name, data)?, size)?;
        }
    }
    // As browsers do: a frame that asks for less is shown for a tenth of a second.
    let milliseconds = if milliseconds <= 10 { 100 } else { milliseconds };
    Ok(Duration::from_millis(milliseconds.into()))
}

/// The size inside the compressed picture.
fn picture_size(name: &[u8], data: &[u8]) -> Result<Size> {
    let field = |range| data.get(range).ok_or_else(|| Error::damaged("WebP has a picture without a header"));
    if name == b"VP8L" {
        let packed = little_endian(field(1..5)?);
        return Ok(Size::new(1 + (packed & 0x3fff), 1 + ((packed >> 14) & 0x3fff)));
    }
    let packed = little_endian(field(6..10)?);
    Ok(Size::new(packed & 0x3fff, (packed >> 16) & 0x3fff))
}

fn check_same(what: &str, found: Size, expected: Size) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::damaged(format_args!("WebP has a {what} of {found} where {expected} is declared")))
}

/// Goes through chunks: their names and what is in them.
struct Chunks<'a>(&'a [u8]);

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.len() < 8 {
            return None;
        }
        let (head, rest) = self.0.split_at(8);
        let length = little_endian(&head[4..]) as usize;
        let Some(data) = rest.get(..length) else {
            self.0 = &[];
            return Some(Err(Error::damaged(format_args!(
                "WebP has a chunk of {} bytes where {} are left; it is cut off",
                Grouped(length as u64),
                Grouped(rest.len() as u64)
            ))));
        };
        self.0 = rest.get(length + length % 2..).unwrap_or_default();
        Some(Ok((&head[..4], data)))
    }
}

/// Up to four bytes, the lowest first.
fn little_endian(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

fn triple(data: &[u8], at: usize) -> Result<u32> {
    data.get(at..at + 3).map(little_endian).ok_or_else(|| Error::damaged("WebP has a chunk that is too short"))
}
