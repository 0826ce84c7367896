//! Pictures as they travel in JSON: `data:image/png;base64,iVBOR...`.

use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::error::{Error, ErrorKind, Result};

/// What a picture has to look like, as messages put it.
const WANTED: &str = "a picture is sent as a data URL, \"data:image/png;base64,...\"";

/// The bytes behind a data URL.
///
/// The media type is not looked at: it may be missing or wrong, since [`Format::sniff`](crate::Format::sniff) goes by
/// content. Base64 may be of either alphabet, with or without padding, and broken into lines.
///
/// # Errors
/// With a kind of its own for a URL that would have to be fetched, for base64 without `data:` in front of it, for any
/// other text, and for base64 that does not decode. The text is never repeated in the message.
pub fn decode_data_url(text: &str) -> Result<Vec<u8>> {
    let text = text.trim_ascii();
    let Some(rest) = strip_scheme(text, "data") else {
        return Err(not_a_data_url(text));
    };
    let Some((header, data)) = rest.split_once(',') else {
        return Err(Error::new(ErrorKind::NotADataUrl, format_args!("data URL has no comma; {WANTED}")));
    };
    // The last parameter says how the data is written: RFC 2397.
    let encoding = header.rsplit(';').next().unwrap_or(header).trim_ascii();
    if !encoding.eq_ignore_ascii_case("base64") {
        return Err(Error::new(ErrorKind::NotADataUrl, format_args!("data URL is not marked as base64; {WANTED}")));
    }
    decode_base64(data)
}

/// What stands behind `scheme:`.
fn strip_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = text.split_once(':')?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// The bytes of base64 without anything around it, of either alphabet, with or without padding, and broken into lines.
///
/// # Errors
/// If it is empty or does not decode. The text is never repeated in the message.
pub fn decode_base64(text: &str) -> Result<Vec<u8>> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Err(Error::new(ErrorKind::InvalidBase64, "picture's base64 holds no data"));
    }
    let alphabet = if text.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
    let is_broken_into_lines = text.bytes().any(|byte| byte.is_ascii_whitespace());
    let decoded = if is_broken_into_lines {
        let joined: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        engine(alphabet).decode(joined)
    } else {
        engine(alphabet).decode(text)
    };
    decoded.map_err(|error| Error::new(ErrorKind::InvalidBase64, "picture's base64 does not decode").with_source(error))
}

fn engine(alphabet: &Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(alphabet, config)
}

/// Says what a text that is no data URL is.
fn not_a_data_url(text: &str) -> Error {
    if text.is_empty() {
        return Error::new(ErrorKind::NotADataUrl, format_args!("picture is an empty text; {WANTED}"));
    }
    const FETCHED: [&str; 6] = ["https", "http", "file", "ftp", "s3", "gs"];
    if let Some(scheme) = FETCHED.iter().find(|scheme| strip_scheme(text, scheme).is_some()) {
        return Error::new(
            ErrorKind::RemoteUrl,
            format_args!("picture is a \"{scheme}:\" URL and nothing is fetched; {WANTED}"),
        );
    }
    if looks_like_base64(text) {
        return Error::new(
            ErrorKind::BareBase64,
            format_args!("picture is base64 without \"data:image/png;base64,\" in front of it; {WANTED}"),
        );
    }
    Error::new(ErrorKind::NotADataUrl, format_args!("picture is some other text; {WANTED}"))
}

/// Whether a text is long enough to be a file, and its start is base64 all through.
fn looks_like_base64(text: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=\r\n".contains(&byte);
    let start = &text.as_bytes()[..text.len().min(4_096)];
    start.len() >= 32 && start.iter().all(|&byte| is_base64(byte))
}
