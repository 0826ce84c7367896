//! JSON as Python's `json.dumps` lays it out, which chat templates were trained with.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// The arguments of `json.dumps`.
#[derive(Debug, Default)]
pub(crate) struct JsonLayout {
    pub(crate) indent: Option<usize>,
    /// Between values, and between a key and its value.
    pub(crate) separators: Option<Vec<String>>,
    pub(crate) is_sorted: bool,
    pub(crate) is_ascii: bool,
}

/// Deeper than anybody indents.
const MAX_INDENT: usize = 64;

impl JsonLayout {
    /// The value as text, or what keeps it from being one.
    pub(crate) fn write(&self, value: &impl Serialize) -> std::result::Result<String, String> {
        let (comma, colon) = match self.separators.as_deref() {
            None => (if self.indent.is_some() { "," } else { ", " }, ": "),
            Some([comma, colon]) => (comma.as_str(), colon.as_str()),
            Some(_) => return Err("separators are two texts".to_owned()),
        };
        let indent = self.indent.map(|width| " ".repeat(width.min(MAX_INDENT)));
        let lines = Lines { comma, colon, indent, is_ascii: self.is_ascii, depth: 0, is_empty: true };
        let mut bytes = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, lines);
        let done = if self.is_sorted {
            let mut value = serde_json::to_value(value).map_err(|error| error.to_string())?;
            value.sort_all_objects();
            value.serialize(&mut serializer)
        } else {
            value.serialize(&mut serializer)
        };
        done.map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }
}

struct Lines<'a> {
    comma: &'a str,
    colon: &'a str,
    indent: Option<String>,
    is_ascii: bool,
    depth: usize,
    /// Whether the array or object that was begun last has nothing in it.
    is_empty: bool,
}

impl Lines<'_> {
    fn open<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &str) -> Result<()> {
        self.depth += 1;
        self.is_empty = true;
        out.write_all(bracket.as_bytes())
    }

    fn close<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &str) -> Result<()> {
        self.depth -= 1;
        if !self.is_empty {
            self.line(out)?;
        }
        self.is_empty = false;
        out.write_all(bracket.as_bytes())
    }

    fn next<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> Result<()> {
        if !is_first {
            out.write_all(self.comma.as_bytes())?;
        }
        self.is_empty = false;
        self.line(out)
    }

    fn line<W: ?Sized + Write>(&self, out: &mut W) -> Result<()> {
        let Some(indent) = &self.indent else { return Ok(()) };
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(indent.as_bytes()))
    }
}

impl Formatter for Lines<'_> {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.open(out, "[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.close(out, "]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        self.next(out, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.open(out, "{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        self.close(out, "}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> Result<()> {
        self.next(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> Result<()> {
        out.write_all(self.colon.as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> Result<()> {
        if !self.is_ascii {
            return out.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if character.is_ascii() {
                write!(out, "{character}")?;
            } else {
                character.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_laid_out_as_by_json_dumps() {
        let value = json!({"b": [1, 2.5, [], {}], "a": "<é🎉>\n", "c": {"d": null}});
        let written = |layout: JsonLayout| layout.write(&value).expect("JSON");
        assert_eq!(written(JsonLayout::default()), r#"{"b": [1, 2.5, [], {}], "a": "<é🎉>\n", "c": {"d": null}}"#);
        let tight = Some(vec![",".to_owned(), ":".to_owned()]);
        assert_eq!(
            written(JsonLayout { separators: tight, is_sorted: true, is_ascii: true, ..JsonLayout::default() }),
            r#"{"a":"<\u00e9\ud83c\udf89>\n","b":[1,2.5,[],{}],"c":{"d":null}}"#
        );
        assert_eq!(
            written(JsonLayout { indent: Some(2), ..JsonLayout::default() }),
            "{\n  \"b\": [\n    1,\n    2.5,\n    [],\n    {}\n  ],\n  \"a\": \"<é🎉>\\n\",\n  \"c\": {\n    \"d\": null\n  }\n}"
        );
        assert!(JsonLayout { separators: Some(Vec::new()), ..JsonLayout::default() }.write(&value).is_err());
    }
}
