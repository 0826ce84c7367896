//! Strings: what an escape means, and how Python prints a character.
//!
//! Reading and printing meet here because rendering never holds a decoded string: an escaped character of the body goes
//! straight to its printed form, and everything between escapes is copied.

use std::borrow::Cow;

/// Where the first byte is that is looked for.
///
/// A picture is one string of millions of bytes, and every pass over a body has to find its end. So beyond its first bytes
/// a text is looked at in blocks, of which a compiler makes a few comparisons each.
#[inline]
pub(super) fn position(bytes: &[u8], is_sought: impl Fn(u8) -> bool) -> Option<usize> {
    const BLOCK_BYTES: usize = 32;
    let (start, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES));
    if let Some(found) = start.iter().position(|&byte| is_sought(byte)) {
        return Some(found);
    }
    let is_free_of_it = |block: &&[u8; BLOCK_BYTES]| !block.iter().fold(false, |found, &byte| found | is_sought(byte));
    let free = BLOCK_BYTES * rest.as_chunks().0.iter().take_while(is_free_of_it).count();
    let found = rest[free..].iter().position(|&byte| is_sought(byte))?;
    Some(start.len() + free + found)
}

/// A part of a raw JSON string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Characters that stand for themselves, in JSON and in the value.
    Plain(&'a str),
    /// The character an escape stands for.
    Escaped(char),
}

/// The parts of what stands between the quotes of a scanned string.
pub(crate) fn pieces(raw: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let backslash = rest.find('\\').unwrap_or(rest.len());
        if backslash > 0 {
            let (plain, tail) = rest.split_at(backslash);
            rest = tail;
            return Some(Piece::Plain(plain));
        }
        let (character, length) = escape(rest)?;
        rest = &rest[length..];
        Some(Piece::Escaped(character))
    })
}

/// The character that the escape at the start of `rest` stands for, and the escape's length.
fn escape(rest: &str) -> Option<(char, usize)> {
    let bytes = rest.as_bytes();
    let character = match bytes.get(1)? {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(bytes),
        other => char::from(*other),
    };
    Some((character, 2))
}

fn unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let unit = code_unit(bytes, 0)?;
    if let Some(character) = char::from_u32(unit) {
        return Some((character, 6));
    }
    let low = code_unit(bytes, 6)?;
    let combined = 0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff);
    Some((char::from_u32(combined)?, 12))
}

/// The code unit of the escape `\uXXXX` at `at`, if four hexadecimal digits follow.
pub(crate) fn code_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at + 2..at + 6)?;
    digits.iter().try_fold(0, |unit, &digit| char::from(digit).to_digit(16).map(|value| unit * 16 + value))
}

/// The value of a raw string; borrowed when it has no escape, else in just as much memory as it takes.
pub(crate) fn unescape(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let lengths = pieces(raw).map(|piece| match piece {
        Piece::Plain(plain) => plain.len(),
        Piece::Escaped(character) => character.len_utf8(),
    });
    let mut value = String::with_capacity(lengths.sum());
    for piece in pieces(raw) {
        match piece {
            Piece::Plain(plain) => value.push_str(plain),
            Piece::Escaped(character) => value.push(character),
        }
    }
    Cow::Owned(value)
}

/// Appends the value of a raw string.
pub(crate) fn write_value(raw: &str, out: &mut Vec<u8>) {
    for piece in pieces(raw) {
        match piece {
            Piece::Plain(plain) => out.extend_from_slice(plain.as_bytes()),
            Piece::Escaped(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Prints a raw string, quotes included, as `json.dumps(..., ensure_ascii=False)` prints its value.
pub(crate) fn write_raw_quoted(raw: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for piece in pieces(raw) {
        match piece {
            Piece::Plain(plain) => out.extend_from_slice(plain.as_bytes()),
            Piece::Escaped(character) => write_character(character, out),
        }
    }
    out.push(b'"');
}

/// Prints a text, quotes included, as `json.dumps(..., ensure_ascii=False)` does.
pub(crate) fn write_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(text.as_bytes(), out);
    out.push(b'"');
}

/// Prints a part of a text as it stands between quotes; only ASCII is ever escaped, so characters may be divided.
pub(crate) fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    let must_escape = |byte| byte < 0x20 || byte == b'"' || byte == b'\\';
    let mut rest = text;
    while let Some(plain) = position(rest, must_escape) {
        out.extend_from_slice(&rest[..plain]);
        write_character(char::from(rest[plain]), out);
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
}

fn write_character(character: char, out: &mut Vec<u8>) {
    let escape = match character {
        '"' => b'"',
        '\\' => b'\\',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\0'..='\u{1f}' => {
            out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
            return;
        }
        _ => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', escape]);
}

/// Reads one printed string byte by byte as its value's bytes; for comparing keys.
///
/// Printed strings escape ASCII only, so that bytes of the value are in UTF-8, whose byte order is code-point order.
#[derive(Debug, Clone)]
pub(crate) struct PrintedBytes<'a> {
    bytes: &'a [u8],
}

impl<'a> PrintedBytes<'a> {
    /// `bytes` start after the opening quote and go on past the closing one.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl Iterator for PrintedBytes<'_> {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        if first == b'"' {
            return None;
        }
        self.bytes = rest;
        if first != b'\\' {
            return Some(first);
        }
        let (&escape, rest) = rest.split_first()?;
        self.bytes = rest;
        Some(match escape {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let digits = std::str::from_utf8(rest.get(2..4)?).ok()?;
                self.bytes = &rest[4..];
                u8::from_str_radix(digits, 16).ok()?
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters() {
        assert_eq!(unescape(r"\u0041\/\n\ud83d\ude00\\u"), "A/\n😀\\u");
        assert!(matches!(unescape("plain é"), Cow::Borrowed("plain é")));
    }

    #[test]
    fn raw_and_decoded_text_print_alike() {
        let raw = r#"\u0022\u005c\/\u001F\u007f\u2028\b\f\n\r\t\u00e9é"#;
        let mut from_raw = Vec::new();
        write_raw_quoted(raw, &mut from_raw);
        let mut from_value = Vec::new();
        write_quoted(&unescape(raw), &mut from_value);
        assert_eq!(from_raw, from_value);
        assert_eq!(from_raw, "\"\\\"\\\\/\\u001f\u{7f}\u{2028}\\b\\f\\n\\r\\téé\"".as_bytes());
    }

    #[test]
    fn printed_bytes_are_the_value() {
        let value = "a\"\\\u{1}\n\u{7f}é";
        let mut printed = Vec::new();
        write_quoted(value, &mut printed);
        printed.extend_from_slice(b":1");
        assert!(PrintedBytes::new(&printed[1..]).eq(value.bytes()));
    }
}
