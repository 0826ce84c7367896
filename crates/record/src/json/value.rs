//! Looking into a scanned text without building anything.
//!
//! A [`Value`] is a slice of the body. Walking an object's members skips over each value once, so that looking at the few
//! levels whose keys mean something to the API costs a few passes, and free-form values below are only ever sliced.

use std::borrow::Cow;
use std::ops::Range;

use super::string;

/// One JSON value of a scanned text, without surrounding whitespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value<'a> {
    text: &'a str,
    start: usize,
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    Array,
    String,
    Number,
    Boolean,
    Null,
}

impl Shape {
    /// With its article, as messages say it.
    pub(crate) fn described(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::String => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Null => "null",
        }
    }
}

impl<'a> Value<'a> {
    /// The value that a whole scanned text is.
    pub(crate) fn document(text: &'a str) -> Self {
        const WHITESPACE: [char; 4] = [' ', '\t', '\n', '\r'];
        let start = text.len() - text.trim_start_matches(WHITESPACE).len();
        Self { text: text.trim_matches(WHITESPACE), start }
    }

    /// The text as it stands in the body.
    pub(crate) fn text(self) -> &'a str {
        self.text
    }

    /// Where the text stands in the document.
    pub(crate) fn range(self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    pub(crate) fn shape(self) -> Shape {
        match self.text.as_bytes().first() {
            Some(b'{') => Shape::Object,
            Some(b'[') => Shape::Array,
            Some(b'"') => Shape::String,
            Some(b't' | b'f') => Shape::Boolean,
            Some(b'n') => Shape::Null,
            _ => Shape::Number,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        self.shape() == Shape::Null
    }

    /// What stands between the quotes, if this is a string.
    pub(crate) fn raw_string(self) -> Option<&'a str> {
        self.text.strip_prefix('"')?.strip_suffix('"')
    }

    /// The string's value, if this is a string.
    pub(crate) fn string(self) -> Option<Cow<'a, str>> {
        self.raw_string().map(string::unescape)
    }

    /// The members of an object in document order, duplicates included; none for any other value.
    pub(crate) fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Value<'a>)> {
        let mut items = self.items(b'{');
        std::iter::from_fn(move || {
            let key = items.next_value()?;
            let value = items.next_value()?;
            Some((key.string()?, value))
        })
    }

    /// The elements of an array; none for any other value.
    pub(crate) fn elements(self) -> impl Iterator<Item = Value<'a>> {
        let mut items = self.items(b'[');
        std::iter::from_fn(move || items.next_value())
    }

    /// The value under a key, the last one if there are several, as Python reads it.
    pub(crate) fn member(self, key: &str) -> Option<Value<'a>> {
        let [value] = self.pick([key]);
        value
    }

    /// The values under some keys, found in one walk; each the last one if there are several.
    pub(crate) fn pick<const N: usize>(self, keys: [&str; N]) -> [Option<Value<'a>>; N] {
        let mut picked = [None; N];
        for (name, value) in self.members() {
            if let Some(index) = keys.iter().position(|key| *key == name) {
                picked[index] = Some(value);
            }
        }
        picked
    }

    /// The text as it stands in the body, without the whitespace between its parts.
    pub(crate) fn compact(self) -> String {
        let bytes = self.text.as_bytes();
        let mut compact = String::with_capacity(self.text.len());
        let mut at = 0;
        while at < bytes.len() {
            let end = match bytes[at] {
                b'"' => end_of_string(bytes, at),
                _ => at + bytes[at..].iter().take_while(|byte| !is_whitespace(byte) && **byte != b'"').count(),
            };
            compact.push_str(&self.text[at..end]);
            at = skip_whitespace(bytes, end);
        }
        compact.shrink_to_fit();
        compact
    }

    fn items(self, opening: u8) -> Items<'a> {
        let is_container = self.text.as_bytes().first() == Some(&opening);
        Items { value: self, at: if is_container { 1 } else { self.text.len() } }
    }
}

struct Items<'a> {
    value: Value<'a>,
    at: usize,
}

impl<'a> Items<'a> {
    /// The next key or value. In a scanned text the punctuation between them can only be the right one.
    fn next_value(&mut self) -> Option<Value<'a>> {
        let Value { text, start: base } = self.value;
        let bytes = text.as_bytes();
        let mut start = skip_whitespace(bytes, self.at);
        if matches!(bytes.get(start), Some(b',' | b':')) {
            start = skip_whitespace(bytes, start + 1);
        }
        if matches!(bytes.get(start)?, b'}' | b']') {
            return None;
        }
        self.at = end_of_value(bytes, start);
        Some(Value { text: &text[start..self.at], start: base + start })
    }
}

/// Where the whitespace that starts at `at` ends.
pub(crate) fn skip_whitespace(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|byte| is_whitespace(byte)).count()
}

fn is_whitespace(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Where the string whose opening quote is at `start` ends, its closing quote included.
pub(crate) fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(length) = string::position(&bytes[at..], |byte| byte == b'"' || byte == b'\\') {
        at += length;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at = (at + 2).min(bytes.len());
    }
    bytes.len()
}

/// Where the number or literal that starts at `start` ends.
pub(crate) fn end_of_scalar(bytes: &[u8], start: usize) -> usize {
    let is_inside = |byte: &&u8| matches!(byte, b'+' | b'-' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E');
    start + bytes[start..].iter().take_while(is_inside).count()
}

fn end_of_value(bytes: &[u8], start: usize) -> usize {
    match bytes[start] {
        b'"' => end_of_string(bytes, start),
        b'{' | b'[' => end_of_container(bytes, start),
        _ => end_of_scalar(bytes, start),
    }
}

fn end_of_container(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut depth = 0_usize;
    let is_structure = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
    while let Some(length) = bytes[at..].iter().position(is_structure) {
        at += length;
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            _ => depth -= 1,
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_elements_are_slices_of_the_text() {
        let text = " { \"a\" : [ 1 , {\"b\":\"]}\\\"\"} , [] ] ,\"\\u0061\":-1.5E+3 } ";
        let value = Value::document(text);
        let members: Vec<_> = value.members().map(|(key, value)| (key.into_owned(), value.text())).collect();
        assert_eq!(members, [("a".to_owned(), "[ 1 , {\"b\":\"]}\\\"\"} , [] ]"), ("a".to_owned(), "-1.5E+3")]);
        let first = value.members().next().expect("a member").1;
        assert!(first.elements().all(|element| &text[element.range()] == element.text()));
        let elements: Vec<_> = first.elements().map(Value::text).collect();
        assert_eq!(elements, ["1", "{\"b\":\"]}\\\"\"}", "[]"]);
        assert_eq!(value.member("a").map(Value::text), Some("-1.5E+3"));
        assert_eq!(value.pick(["b", "a"]).map(|found| found.map(Value::text)), [None, Some("-1.5E+3")]);
        assert_eq!(value.compact(), r#"{"a":[1,{"b":"]}\""},[]],"\u0061":-1.5E+3}"#);
        assert_eq!(Value::document("[]").elements().count(), 0);
        assert_eq!(Value::document("{ }").members().count(), 0);
        assert_eq!(Value::document("\"[1]\"").elements().count(), 0);
    }
}
