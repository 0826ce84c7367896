//! JSON taken apart one level at a time.
//!
//! A line may hold hundreds of megabytes, and a tree of all its values takes many times that. So a value stays a slice of
//! the line until somebody looks into it, and what is in it is counted before it is kept.

use std::fmt;

use clef_record::{Grouped, Shortened};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Deserializer, Value};

/// Why a value could not be taken apart.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It is something else.
    Shape,
    /// It has so many members or elements, which is more than the limit.
    Count(usize),
    /// It is not JSON, or holds a text that is not one.
    Json(serde_json::Error),
}

/// The members of an object in order, unread.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) Vec<(String, &'a RawValue)>);

/// The elements of a list, unread.
#[derive(Debug)]
pub(crate) struct Elements<'a>(pub(crate) Vec<&'a RawValue>);

impl<'a> Fields<'a> {
    /// Takes an object apart that has at most so many members.
    pub(crate) fn read(text: &'a [u8], most: usize) -> Result<Self, Unfit> {
        taken_apart(text, Members(most)).map(Self)
    }

    /// The last value under a key, as most readers of JSON take it.
    pub(crate) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|&(_, value)| value)
    }

    /// The object's text again, without some members.
    pub(crate) fn without(&self, names: &[&str]) -> Vec<u8> {
        let kept = || self.0.iter().filter(|(name, _)| !names.contains(&name.as_str()));
        let mut text = Vec::with_capacity(kept().map(|(name, value)| name.len() + value.get().len() + 8).sum());
        for (name, value) in kept() {
            text.push(if text.is_empty() { b'{' } else { b',' });
            text.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
            text.push(b':');
            text.extend_from_slice(value.get().as_bytes());
        }
        text.extend_from_slice(if text.is_empty() { b"{}" } else { b"}" });
        text
    }
}

impl<'a> Elements<'a> {
    /// Takes a list apart that has at most so many elements.
    pub(crate) fn read(text: &'a [u8], most: usize) -> Result<Self, Unfit> {
        taken_apart(text, Listed(most)).map(Self)
    }
}

/// What a value is, without looking into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Null,
    Bool(bool),
    Number,
    Text,
    List,
    Object,
}

impl Shape {
    pub(crate) fn of(value: &RawValue) -> Self {
        match value.get().as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::List,
            Some(b'"') => Self::Text,
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number,
        }
    }
}

/// A text, if the value is one.
pub(crate) fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A number, if the value is one; infinite if it is too large for a double.
pub(crate) fn number(value: &RawValue) -> Option<f64> {
    value.get().parse().ok().filter(|_| Shape::of(value) == Shape::Number)
}

/// What a reader of JSON says, without the line number, which is always 1.
pub(crate) fn said(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or(&message);
    Shortened(what).to_string()
}

impl Unfit {
    /// One line for people. `what` is the value's name, `shape` what it should be, `noun` what there is too much of.
    pub(crate) fn message(&self, what: &str, shape: &str, noun: &str, most: usize) -> String {
        match self {
            Self::Shape => format!("{what} is not {shape}"),
            Self::Count(count) => format!("{what} has {} {noun}, the limit is {}", Grouped(*count), Grouped(most)),
            Self::Json(error) => format!("{what} cannot be read: {} at its column {}", said(error), error.column()),
        }
    }
}

/// What a visitor keeps of a text, if there is no more of it than it keeps.
fn taken_apart<'a, T>(
    text: &'a [u8],
    seed: impl DeserializeSeed<'a, Value = (Vec<T>, usize)>,
) -> Result<Vec<T>, Unfit> {
    let mut reader = Deserializer::from_slice(text);
    let read = seed.deserialize(&mut reader).and_then(|read| reader.end().map(|()| read));
    match read {
        Ok((kept, count)) if count > kept.len() => Err(Unfit::Count(count)),
        Ok((kept, _)) => Ok(kept),
        Err(error) if error.is_data() => Err(Unfit::Shape),
        Err(error) => Err(Unfit::Json(error)),
    }
}

/// Keeps so many members of an object and counts all.
struct Members(usize);

impl<'de> DeserializeSeed<'de> for Members {
    type Value = (Vec<(String, &'de RawValue)>, usize);

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = (Vec<(String, &'de RawValue)>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut kept, mut count) = (Vec::new(), 0);
        loop {
            if count < self.0 {
                let Some(member) = map.next_entry()? else { break };
                kept.push(member);
            } else if map.next_entry::<IgnoredAny, IgnoredAny>()?.is_none() {
                break;
            }
            count += 1;
        }
        Ok((kept, count))
    }
}

/// Keeps so many elements of a list and counts all.
struct Listed(usize);

impl<'de> DeserializeSeed<'de> for Listed {
    type Value = (Vec<&'de RawValue>, usize);

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Listed {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut kept, mut count) = (Vec::new(), 0);
        loop {
            if count < self.0 {
                let Some(element) = list.next_element()? else { break };
                kept.push(element);
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
            count += 1;
        }
        Ok((kept, count))
    }
}
