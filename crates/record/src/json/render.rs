//! Printing a scanned value as CPython does, in one pass and in place.
//!
//! Python sorts an object's keys before it prints them; we print first and sort after, because that needs no tree:
//!
//! ```text
//! printed:   {"b":[1,2] NUL "a":{...} NUL "b":3      starts of members: 1, 12, 20 (four bytes each)
//! sorted:    {"a":{...} , "b":3}                      the last of equal keys stays
//! ```
//!
//! Members are separated by NUL while their object is open. A printed value never holds one (control characters are
//! escaped), so a member's end is found without storing it, and in an object whose keys are in order already the
//! separators just become commas. Work is linear in the text times the depth, which is bounded.
//!
//! Two things may differ from what the body says, and both are done on the way: array elements that are pictures are
//! passed over, and placeholders in strings are replaced. Keys are never touched.

use std::cmp::Ordering;
use std::ops::Range;

use super::scan::Scanned;
use super::string::{self, PrintedBytes};
use super::value::{Value, end_of_scalar, end_of_string, skip_whitespace};
use super::{MAX_GROWTH_BYTES, number, string::Piece};
use crate::error::RecordError;
use crate::placeholder::{Placeholders, Replaced};

const SEPARATOR: u8 = 0;

/// Renders values of one scanned text, reusing its buffers.
#[derive(Debug)]
pub(crate) struct Renderer<'p> {
    /// Where the members of all open objects start, relative to their object.
    starts: Vec<u32>,
    /// One object's members in order.
    ordered: Vec<u8>,
    /// How much longer than the text its numbers may print.
    growth: usize,
    placeholders: Option<&'p Placeholders>,
    /// How much longer than the text its placeholders have printed.
    replaced_growth: usize,
}

impl<'p> Renderer<'p> {
    pub(crate) fn new(scanned: &Scanned<'_>, placeholders: Option<&'p Placeholders>) -> Self {
        Self {
            starts: Vec::with_capacity(scanned.open_members),
            ordered: Vec::new(),
            growth: scanned.growth,
            placeholders,
            replaced_growth: 0,
        }
    }

    /// A string's value as it is, any other value as `json.dumps` prints it.
    pub(crate) fn render(&mut self, value: Value<'_>) -> String {
        self.render_without(value, &[])
    }

    /// The same, without some elements of its arrays: those at these places in the document, which are in order.
    pub(crate) fn render_without(&mut self, value: Value<'_>, omitted: &[Range<usize>]) -> String {
        let bytes = value.text().len() - omitted.iter().map(Range::len).sum::<usize>();
        let mut out = self.buffer(bytes);
        match value.raw_string() {
            Some(raw) => self.write_text(raw, &mut out),
            None => self.write(value, omitted, &mut out),
        }
        into_text(out)
    }

    /// The value as `json.dumps` prints it.
    pub(crate) fn dump(&mut self, value: Value<'_>) -> String {
        let mut out = self.buffer(value.text().len());
        self.write(value, &[], &mut out);
        into_text(out)
    }

    /// The same, with placeholders as they are.
    pub(crate) fn dump_as_sent(&mut self, value: Value<'_>) -> String {
        let placeholders = self.placeholders.take();
        let text = self.dump(value);
        self.placeholders = placeholders;
        text
    }

    /// Whether placeholders became longer than texts may; if so, what was rendered is not complete.
    pub(crate) fn check_growth(&self) -> Result<(), RecordError> {
        if self.replaced_growth <= MAX_GROWTH_BYTES {
            return Ok(());
        }
        let what = "placeholders shorter than what replaces them would lengthen the texts by at least";
        Err(RecordError::too_large(what, self.replaced_growth, MAX_GROWTH_BYTES))
    }

    /// The canonical text of an option: its key, and its description unless that is null.
    pub(crate) fn option_text(&mut self, key: &str, description: Value<'_>) -> String {
        const FRAME_BYTES: usize = r#"{"description":,"option_id":""}"#.len();
        let mut out = self.buffer(description.text().len());
        out.reserve_exact(key.len() + FRAME_BYTES);
        out.push(b'{');
        if !description.is_null() {
            out.extend_from_slice(b"\"description\":");
            self.write(description, &[], &mut out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"option_id\":");
        string::write_quoted(key, &mut out);
        out.push(b'}');
        into_text(out)
    }

    /// Appends the value as `json.dumps` prints it.
    fn write(&mut self, value: Value<'_>, omitted: &[Range<usize>], out: &mut Vec<u8>) {
        let mut pass = Pass { text: value.text(), start: value.range().start, at: 0, omitted, renderer: self, out };
        pass.value();
    }

    /// Appends a raw string's value.
    fn write_text(&mut self, raw: &str, out: &mut Vec<u8>) {
        match self.placeholders {
            None => string::write_value(raw, out),
            Some(placeholders) => self.replace(placeholders, raw, out, |text, out| out.extend_from_slice(text)),
        }
    }

    /// Appends a raw string as `json.dumps` prints it.
    fn write_string(&mut self, raw: &str, out: &mut Vec<u8>) {
        let Some(placeholders) = self.placeholders else {
            return string::write_raw_quoted(raw, out);
        };
        out.push(b'"');
        self.replace(placeholders, raw, out, string::write_escaped);
        out.push(b'"');
    }

    /// Appends a raw string's value with its placeholders replaced.
    fn replace(
        &mut self,
        placeholders: &Placeholders,
        raw: &str,
        out: &mut Vec<u8>,
        append: impl Fn(&[u8], &mut Vec<u8>),
    ) {
        let growth_so_far = &mut self.replaced_growth;
        let mut write = |replaced: Replaced<'_>| match replaced {
            Replaced::Text(text) => append(text, out),
            Replaced::Placeholder { replacement, growth } => {
                *growth_so_far += growth;
                // What is over the limit is refused in the end, and takes no memory until then.
                if *growth_so_far <= MAX_GROWTH_BYTES {
                    append(replacement.as_bytes(), out);
                }
            }
        };
        let mut replacing = placeholders.replacing();
        for piece in string::pieces(raw) {
            match piece {
                Piece::Plain(plain) => replacing.read(plain.as_bytes(), &mut write),
                Piece::Escaped(character) => replacing.read(character.encode_utf8(&mut [0; 4]).as_bytes(), &mut write),
            }
        }
        replacing.finish(&mut write);
    }

    /// Room for the printed form of so many bytes; exact, because a buffer that doubles would cost twice the body.
    fn buffer(&self, bytes: usize) -> Vec<u8> {
        let numbers = self.growth.min(bytes.saturating_mul(number::MAX_FLOAT_BYTES));
        let placeholders = self.placeholders.map_or(0, |known| known.most_growth(bytes).min(MAX_GROWTH_BYTES));
        Vec::with_capacity(bytes + numbers + placeholders)
    }

    /// Puts the members of the object printed from `base` on, those of `starts[first..]`, into Python's order.
    fn order_members(&mut self, first: usize, base: usize, out: &mut Vec<u8>) {
        let starts = &mut self.starts[first..];
        let printed = &mut out[base..];
        let in_order = starts.windows(2).all(|pair| compare_keys(printed, pair[0], pair[1]) == Ordering::Less);
        if in_order {
            for &start in starts.iter().skip(1) {
                printed[start as usize - 1] = b',';
            }
        } else {
            starts.sort_unstable_by(|&left, &right| compare_keys(printed, left, right).then(left.cmp(&right)));
            if self.ordered.capacity() < printed.len() {
                // Dropped before the larger one is made: growing would hold both.
                self.ordered = Vec::new();
                self.ordered.reserve_exact(printed.len());
            }
            self.ordered.clear();
            self.ordered.push(b'{');
            for (index, &start) in starts.iter().enumerate() {
                let next = starts.get(index + 1);
                if next.is_some_and(|&next| compare_keys(printed, start, next) == Ordering::Equal) {
                    continue;
                }
                if self.ordered.len() > 1 {
                    self.ordered.push(b',');
                }
                let member = &printed[start as usize..];
                let end = member.iter().position(|&byte| byte == SEPARATOR).unwrap_or(member.len());
                self.ordered.extend_from_slice(&member[..end]);
            }
            out.truncate(base);
            out.extend_from_slice(&self.ordered);
        }
        self.starts.truncate(first);
    }
}

/// Compares the keys of two printed members by code point.
fn compare_keys(printed: &[u8], left: u32, right: u32) -> Ordering {
    let key = |start: u32| PrintedBytes::new(&printed[start as usize + 1..]);
    key(left).cmp(key(right))
}

fn into_text(mut printed: Vec<u8>) -> String {
    printed.shrink_to_fit();
    String::from_utf8(printed).expect("whole characters are copied in and moved only between quotes")
}

/// One walk over a value's text. Recurses to the depth that the scan admitted.
struct Pass<'t, 'r, 'p> {
    text: &'t str,
    /// Where the text starts in its document.
    start: usize,
    at: usize,
    /// What is still to be passed over.
    omitted: &'t [Range<usize>],
    renderer: &'r mut Renderer<'p>,
    out: &'r mut Vec<u8>,
}

impl<'t> Pass<'t, '_, '_> {
    fn value(&mut self) {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => {
                let raw = self.string();
                self.renderer.write_string(raw, self.out);
            }
            Some(b't' | b'f' | b'n') => {
                let literal = self.scalar();
                self.out.extend_from_slice(literal.as_bytes());
            }
            _ => {
                let number = self.scalar();
                number::write_number(number, self.out);
            }
        }
    }

    fn array(&mut self) {
        self.out.push(b'[');
        self.at += 1;
        let mut is_first = true;
        while self.next_item(b']') {
            if self.pass_over() {
                continue;
            }
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            self.value();
        }
        self.out.push(b']');
    }

    fn object(&mut self) {
        let base = self.out.len();
        let first = self.renderer.starts.len();
        self.out.push(b'{');
        self.at += 1;
        while self.next_item(b'}') {
            if self.renderer.starts.len() > first {
                self.out.push(SEPARATOR);
            }
            let start = u32::try_from(self.out.len() - base).expect("the body's limit keeps positions in four bytes");
            self.renderer.starts.push(start);
            let key = self.string();
            string::write_raw_quoted(key, self.out);
            self.skip_whitespace();
            self.at += 1;
            self.skip_whitespace();
            self.out.push(b':');
            self.value();
        }
        self.renderer.order_members(first, base, self.out);
        self.out.push(b'}');
    }

    /// Moves to the next element or key; false past the container's end.
    fn next_item(&mut self, closing: u8) -> bool {
        self.skip_whitespace();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip_whitespace();
        }
        if self.peek().is_none_or(|byte| byte == closing) {
            self.at += 1;
            return false;
        }
        true
    }

    /// Moves behind the element at the cursor if it is to be left out.
    fn pass_over(&mut self) -> bool {
        match self.omitted.split_first() {
            Some((next, others)) if next.start == self.start + self.at => {
                self.at += next.len();
                self.omitted = others;
                true
            }
            _ => false,
        }
    }

    /// Moves behind the string at the cursor; what stands between its quotes.
    fn string(&mut self) -> &'t str {
        let start = self.at + 1;
        self.at = end_of_string(self.text.as_bytes(), self.at);
        &self.text[start..self.at - 1]
    }

    fn scalar(&mut self) -> &'t str {
        let start = self.at;
        self.at = end_of_scalar(self.text.as_bytes(), start);
        &self.text[start..self.at]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        self.at = skip_whitespace(self.text.as_bytes(), self.at);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::{dump_canonical, render_canonical};

    fn dump(text: &str) -> String {
        dump_canonical(text).expect("JSON")
    }

    #[test]
    fn members_are_sorted_and_the_last_of_equal_keys_stays() {
        assert_eq!(dump(r#"{"b":[1,2],"a":{"y":0,"x":{}},"b":3}"#), r#"{"a":{"x":{},"y":0},"b":3}"#);
        assert_eq!(dump(r#"{"a":1,"\u0061":2,"a":3}"#), r#"{"a":3}"#);
        assert_eq!(dump(r#"{"a":1,"b":2,"ab":3,"":4}"#), r#"{"":4,"a":1,"ab":3,"b":2}"#);
    }

    #[test]
    fn keys_sort_by_the_characters_their_escapes_mean() {
        // Printed, a newline starts with a backslash, which sorts after letters' upper case; its value does not.
        assert_eq!(dump(r#"{"Z":1,"\n":2,"\"":3,"\u0001":4}"#), r#"{"\u0001":4,"\n":2,"\"":3,"Z":1}"#);
        assert_eq!(
            dump("{\"\u{10000}\":1,\"\\uffff\":2,\"\\ud83d\\ude00\":3}"),
            "{\"\u{ffff}\":2,\"\u{10000}\":1,\"😀\":3}"
        );
    }

    #[test]
    fn strings_render_as_themselves_and_other_values_as_json() {
        assert_eq!(render_canonical(r#" "a\u0000\"b" "#).expect("JSON"), "a\0\"b");
        assert_eq!(render_canonical(" [ \"a\" , { } ] ").expect("JSON"), r#"["a",{}]"#);
        assert_eq!(render_canonical("-0").expect("JSON"), "0");
    }
}
