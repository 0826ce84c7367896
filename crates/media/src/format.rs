//! What a file is, by its first bytes.
//!
//! Names and declared media types are wrong often enough that nobody may rely on them; every decoder of the reference
//! looks at the content as well. Formats that are not read are known by name all the same, because "this is a HEIC"
//! tells a person what to do and "unknown format" does not.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// The formats that are read, as messages name them.
const READ: &str = "PNG, JPEG, WebP, GIF and BMP are read";

/// A format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Portable Network Graphics. The still picture of an animated one.
    Png,
    /// JPEG, baseline or progressive, 8 bits; gray, YCbCr, RGB, CMYK or YCCK.
    Jpeg,
    /// WebP, lossy or lossless, still or animated.
    WebP,
    /// Graphics Interchange Format, still or animated.
    Gif,
    /// Windows bitmap.
    Bmp,
}

impl Format {
    /// Tells the format by content.
    ///
    /// # Errors
    /// If it is none that is read; the message names what it is, if that can be told, and what is read.
    pub fn sniff(bytes: &[u8]) -> Result<Self> {
        let at = |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic));
        if at(0, b"\x89PNG\r\n\x1a\n") {
            Ok(Self::Png)
        } else if at(0, b"\xff\xd8\xff") {
            Ok(Self::Jpeg)
        } else if at(0, b"RIFF") && at(8, b"WEBP") {
            Ok(Self::WebP)
        } else if at(0, b"GIF87a") || at(0, b"GIF89a") {
            Ok(Self::Gif)
        } else if at(0, b"BM") && is_bitmap_header(bytes) {
            Ok(Self::Bmp)
        } else {
            Err(Error::new(ErrorKind::UnsupportedFormat, format_args!("picture {}; {READ}", Stranger(bytes))))
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::WebP => "WebP",
            Self::Gif => "GIF",
            Self::Bmp => "BMP",
        })
    }
}

/// "BM" alone opens many a text; a bitmap has one of a few header lengths behind it.
fn is_bitmap_header(bytes: &[u8]) -> bool {
    const HEADER_BYTES: [u32; 8] = [12, 16, 40, 52, 56, 64, 108, 124];
    let length = bytes.get(14..18).and_then(|field| field.try_into().ok()).map(u32::from_le_bytes);
    length.is_some_and(|length| HEADER_BYTES.contains(&length))
}

/// Describes bytes that are no picture of a format that is read.
struct Stranger<'a>(&'a [u8]);

impl fmt::Display for Stranger<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = name_of(self.0) {
            return write!(f, "is {name}");
        }
        if self.0.is_empty() {
            return f.write_str("has no bytes");
        }
        f.write_str("is in no known format, it starts with the bytes")?;
        self.0.iter().take(8).try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// The name of a format that is not read.
fn name_of(bytes: &[u8]) -> Option<&'static str> {
    const MAGIC: [(usize, &[u8], &str); 24] = [
        (0, b"%PDF-", "a PDF document"),
        (0, b"II*\0", "a TIFF"),
        (0, b"MM\0*", "a TIFF"),
        (0, b"II+\0", "a BigTIFF"),
        (0, b"MM\0+", "a BigTIFF"),
        (0, b"\0\0\x01\0", "an icon (ICO)"),
        (0, b"\0\0\x02\0", "a cursor (CUR)"),
        (0, b"\xff\x0a", "a JPEG XL"),
        (0, b"\0\0\0\x0cJXL ", "a JPEG XL"),
        (0, b"\0\0\0\x0cjP  ", "a JPEG 2000"),
        (0, b"\xff\x4f\xff\x51", "a JPEG 2000"),
        (0, b"8BPS", "a Photoshop document"),
        (0, b"qoif", "a QOI"),
        (0, b"DDS ", "a DirectDraw surface"),
        (0, b"\x76\x2f\x31\x01", "an OpenEXR"),
        (0, b"#?RADIANCE", "a Radiance HDR"),
        (0, b"FORM", "an IFF file"),
        (8, b"AVI ", "an AVI video"),
        (8, b"WAVE", "a WAV sound"),
        (0, b"\x1a\x45\xdf\xa3", "a Matroska or WebM video"),
        (0, b"OggS", "an Ogg stream"),
        (0, b"PK\x03\x04", "a ZIP archive or an office document"),
        (0, b"\x1f\x8b", "gzip data"),
        (0, b"\xd0\xcf\x11\xe0", "an office document"),
    ];
    let found =
        MAGIC.iter().find(|(offset, magic, _)| bytes.get(*offset..).is_some_and(|rest| rest.starts_with(magic)));
    if let Some((_, _, name)) = found {
        return Some(name);
    }
    if bytes.get(4..8) == Some(b"ftyp") {
        return Some(match bytes.get(8..12)? {
            b"avif" | b"avis" => "an AVIF",
            b"heic" | b"heix" | b"hevc" | b"hevx" | b"heim" | b"heis" | b"mif1" | b"msf1" => "a HEIC",
            _ => "an MP4 or QuickTime video",
        });
    }
    if let [b'P', b'1'..=b'7', space, ..] = bytes
        && space.is_ascii_whitespace()
    {
        return Some("a Netpbm picture");
    }
    markup(bytes)
}

/// The name of a text that people take for a picture.
fn markup(bytes: &[u8]) -> Option<&'static str> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let head = text[..text.len().min(1024)].to_ascii_lowercase();
    let holds = |needle: &[u8]| head.windows(needle.len()).any(|window| window == needle);
    match head.as_slice() {
        [b'<', ..] if holds(b"<svg") => Some("an SVG drawing"),
        [b'<', ..] if holds(b"<html") || holds(b"<!doctype html") => Some("an HTML page"),
        [b'<', b'?', b'x', b'm', b'l', ..] => Some("an XML document"),
        _ => None,
    }
}
