//! The first pass over a body: is it JSON, all of it, within the bounds?
//!
//! Everything after this pass may take the text's form for granted, which is what keeps the other passes short. The
//! scanner is a loop over a stack of at most 64 entries, so that a million brackets cost a million steps and no stack. It
//! also counts the two things that bound the memory of later passes.

use super::{MAX_BODY_BYTES, MAX_DEPTH, MAX_GROWTH_BYTES, MAX_INTEGER_DIGITS};
use crate::error::RecordError;
use crate::text::Grouped;

/// A text known to be JSON, and bounds on what rendering it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scanned<'a> {
    /// The text, without a change.
    pub(crate) text: &'a str,
    /// The most object members that are open at once, summed over the objects around a place.
    pub(crate) open_members: usize,
    /// How many bytes longer than the input its numbers can print, at most.
    pub(crate) growth: usize,
}

/// What the grammar allows at the current place.
#[derive(Debug, Clone, Copy)]
enum Expect {
    Value,
    ElementOrEnd,
    KeyOrEnd,
    Key,
    CommaOrEnd,
}

/// Checks that a body is JSON within the bounds of this module.
pub(crate) fn scan(body: &[u8]) -> Result<Scanned<'_>, RecordError> {
    if body.len() > MAX_BODY_BYTES {
        return Err(RecordError::too_large("body has", body.len(), MAX_BODY_BYTES));
    }
    if body.starts_with(b"\xef\xbb\xbf") {
        return Err(RecordError::json(body, 0, "a byte order mark"));
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| RecordError::json(body, error.valid_up_to(), "a byte that is not UTF-8"))?;
    let mut scanner = Scanner {
        body,
        at: 0,
        open: Vec::new(),
        members: 0,
        scanned: Scanned { text, open_members: 0, growth: 0 },
        long_integer: None,
    };
    scanner.document()?;
    if let Some(error) = scanner.long_integer {
        return Err(error);
    }
    if scanner.scanned.growth > MAX_GROWTH_BYTES {
        return Err(RecordError::too_large(
            "numbers with exponents would print at least",
            scanner.scanned.growth,
            MAX_GROWTH_BYTES,
        ));
    }
    Ok(scanner.scanned)
}

struct Scanner<'a> {
    body: &'a [u8],
    at: usize,
    /// One entry per open container: the members so far of an object, `None` for an array.
    open: Vec<Option<usize>>,
    /// The sum of `open`.
    members: usize,
    scanned: Scanned<'a>,
    /// Kept until the end, because a syntax error anywhere in the body is reported first.
    long_integer: Option<RecordError>,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), RecordError> {
        self.skip_whitespace();
        if self.at == self.body.len() {
            return Err(self.error("the body is empty"));
        }
        let mut expect = Expect::Value;
        loop {
            self.skip_whitespace();
            expect = match (expect, self.peek()) {
                (Expect::ElementOrEnd, Some(b']')) | (Expect::KeyOrEnd, Some(b'}')) => self.close(),
                (Expect::Value | Expect::ElementOrEnd, _) => self.value()?,
                (Expect::KeyOrEnd | Expect::Key, Some(b'"')) => self.key()?,
                (Expect::KeyOrEnd, _) => return Err(self.error("expected a key in quotes or '}'")),
                (Expect::Key, _) => return Err(self.error("expected a key in quotes")),
                (Expect::CommaOrEnd, found) => match (self.open.last(), found) {
                    (None, None) => return Ok(()),
                    (None, Some(_)) => return Err(self.error("more text after the value")),
                    (Some(Some(_)), Some(b'}')) | (Some(None), Some(b']')) => self.close(),
                    (Some(Some(_)), Some(b',')) => self.step(Expect::Key),
                    (Some(None), Some(b',')) => self.step(Expect::Value),
                    (Some(Some(_)), _) => return Err(self.error("expected ',' or '}'")),
                    (Some(None), _) => return Err(self.error("expected ',' or ']'")),
                },
            };
        }
    }

    fn value(&mut self) -> Result<Expect, RecordError> {
        match self.peek() {
            Some(b'{') => {
                self.open_container(Some(0))?;
                Ok(Expect::KeyOrEnd)
            }
            Some(b'[') => {
                self.open_container(None)?;
                Ok(Expect::ElementOrEnd)
            }
            Some(b'"') => {
                self.string()?;
                Ok(Expect::CommaOrEnd)
            }
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Ok(Expect::CommaOrEnd)
            }
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'N' | b'I') => Err(self.error("NaN and Infinity are not JSON")),
            _ => Err(self.error("expected a value")),
        }
    }

    fn literal(&mut self, word: &str) -> Result<Expect, RecordError> {
        if self.body[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(Expect::CommaOrEnd)
        } else {
            Err(self.error("expected a value"))
        }
    }

    fn key(&mut self) -> Result<Expect, RecordError> {
        self.string()?;
        self.skip_whitespace();
        if self.peek() != Some(b':') {
            return Err(self.error("expected ':' after a key"));
        }
        if let Some(Some(members)) = self.open.last_mut() {
            *members += 1;
            self.members += 1;
            self.scanned.open_members = self.scanned.open_members.max(self.members);
        }
        Ok(self.step(Expect::Value))
    }

    /// The cursor is on the opening quote.
    fn string(&mut self) -> Result<(), RecordError> {
        self.at += 1;
        loop {
            let rest = &self.body[self.at..];
            let Some(length) = super::string::position(rest, |byte| byte == b'"' || byte == b'\\' || byte < 0x20)
            else {
                self.at = self.body.len();
                return Err(self.error("a string without its closing quote"));
            };
            self.at += length;
            match self.body[self.at] {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape()?,
                _ => {
                    return Err(self.error("a control character in a string, which must be escaped,"));
                }
            }
        }
    }

    /// The cursor is on the backslash.
    fn escape(&mut self) -> Result<(), RecordError> {
        match self.body.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let unit = self.code_unit(self.at)?;
                let length = match unit {
                    0xd800..=0xdbff if self.low_surrogate_at(self.at + 6) => 12,
                    0xd800..=0xdfff => return Err(self.error("half of a surrogate pair")),
                    _ => 6,
                };
                self.at += length;
                Ok(())
            }
            _ => Err(self.error("an unknown escape in a string")),
        }
    }

    fn low_surrogate_at(&self, at: usize) -> bool {
        self.body[at..].starts_with(b"\\u") && matches!(self.code_unit(at), Ok(0xdc00..=0xdfff))
    }

    fn code_unit(&self, escape: usize) -> Result<u32, RecordError> {
        super::string::code_unit(self.body, escape)
            .ok_or_else(|| self.error("an escape \\u without four hexadecimal digits"))
    }

    fn number(&mut self) -> Result<(), RecordError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let integer_digits = match self.peek() {
            Some(b'0') => {
                self.at += 1;
                1
            }
            Some(b'1'..=b'9') => self.digits(),
            Some(b'I') => return Err(self.error("NaN and Infinity are not JSON")),
            _ => return Err(self.error("expected a digit")),
        };
        let mut is_integer = true;
        let mut has_exponent = false;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.error("expected a digit after the decimal point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            has_exponent = true;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.error("expected a digit in the exponent"));
            }
        }
        let length = self.at - start;
        if is_integer {
            self.check_digits(start, integer_digits);
        } else if has_exponent || length > super::number::NEVER_LONGER_BYTES {
            self.scanned.growth += super::number::MAX_FLOAT_BYTES.saturating_sub(length);
        }
        Ok(())
    }

    fn check_digits(&mut self, start: usize, digits: usize) {
        if digits > MAX_INTEGER_DIGITS && self.long_integer.is_none() {
            let position = crate::error::Position::of(self.body, start);
            let message = format!(
                "body holds an integer of {} digits at {position}, the limit is {}",
                Grouped(digits),
                Grouped(MAX_INTEGER_DIGITS),
            );
            self.long_integer = Some(RecordError::invalid(vec!["body".into()], "integer_too_long", message));
        }
    }

    fn digits(&mut self) -> usize {
        let rest = &self.body[self.at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        digits
    }

    fn open_container(&mut self, container: Option<usize>) -> Result<(), RecordError> {
        if self.open.len() == MAX_DEPTH {
            return Err(RecordError::nesting(self.body, self.at, MAX_DEPTH));
        }
        self.open.push(container);
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) -> Expect {
        if let Some(Some(members)) = self.open.pop() {
            self.members -= members;
        }
        self.step(Expect::CommaOrEnd)
    }

    fn step(&mut self, expect: Expect) -> Expect {
        self.at += 1;
        expect
    }

    fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        self.at = super::value::skip_whitespace(self.body, self.at);
    }

    fn error(&self, what: &str) -> RecordError {
        RecordError::json(self.body, self.at, what)
    }
}
