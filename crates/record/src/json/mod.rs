//! JSON as CPython reads and prints it, without a tree of values.
//!
//! The model was trained on text that `json.dumps(json.loads(body), ensure_ascii=False, separators=(",", ":"),
//! sort_keys=True)` printed, and answers move when a byte of it changes. A scanner of our own exists because the
//! established parsers give up something that this needs:
//!
//! - **Number text.** `1250` stays `1250`, `1250.0` stays `1250.0`, integers have any size, floats print as Python's
//!   `repr` (`1e16` is `1e+16`, `1E400` is `Infinity`).
//! - **Duplicate keys.** The last one wins inside free-form values, and is refused where a key names a question or an
//!   option; a map type sees neither.
//! - **Lone surrogates** are refused at their position, instead of replaced.
//! - **Depth** is limited before anything is built, and the scanner does not recurse.
//! - **Memory.** A tree costs 16 times the text for `[0,0,...]`. Here a value is rendered straight from the body's bytes;
//!   beside the text itself there are four bytes per object member on the path, and one copy of the largest object whose
//!   keys are not already in order.
//!
//! Where CPython is laxer than RFC 8259 we are not: `NaN`, `Infinity` and `-Infinity` as input and a byte order mark
//! are refused as not JSON. Like CPython since 3.11 we refuse integers of more than 4,300 digits.

mod number;
mod render;
mod scan;
mod string;
mod value;

pub(crate) use render::Renderer;
pub(crate) use scan::scan;
pub(crate) use string::write_quoted;
pub(crate) use value::{Shape, Value};

use crate::error::RecordError;

/// The deepest nesting of arrays and objects that is read, the body's own object included.
pub const MAX_DEPTH: usize = 64;

/// The longest integer that is read, in digits; CPython's limit.
pub const MAX_INTEGER_DIGITS: usize = 4_300;

/// The longest body that is read, in bytes; positions inside fit four bytes.
pub const MAX_BODY_BYTES: usize = 1 << 30;

/// How much longer than the body its numbers may print: `1e15` is four bytes and prints eighteen. Placeholders may print
/// as much longer again.
///
/// A record that a context of a million tokens could hold stays below it: every such number or name costs several tokens.
pub(crate) const MAX_GROWTH_BYTES: usize = 4 << 20;

/// A JSON text as the reference renders it: a string as it is, anything else as [`dump_canonical`] prints it.
///
/// # Errors
/// If the text is not JSON, or nested deeper than [`MAX_DEPTH`].
pub fn render_canonical(text: &str) -> Result<String, RecordError> {
    let scanned = scan(text.as_bytes())?;
    Ok(Renderer::new(&scanned, None).render(Value::document(scanned.text)))
}

/// A JSON text as CPython's `json.dumps` prints it: compact, keys sorted by code point, strings quoted.
///
/// # Errors
/// As [`render_canonical`].
pub fn dump_canonical(text: &str) -> Result<String, RecordError> {
    let scanned = scan(text.as_bytes())?;
    Ok(Renderer::new(&scanned, None).dump(Value::document(scanned.text)))
}
