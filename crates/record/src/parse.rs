//! A body's top level: which fields there are, and what each may hold.
//!
//! The body is scanned once to its end before any rule is looked at, so that a syntax error anywhere is reported as one.
//! After that every field is looked at where it stands: fields may come in any order, and the first problem in document
//! order is the one a client hears about. (Pictures are read ahead, but what is wrong with them waits for its turn.)

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::{LocItem, RecordError};
use crate::json::{self, Renderer, Shape, Value};
use crate::media::{self, Files, Pictures};
use crate::question;
use crate::record::{Record, Rules, Truncate};
use crate::text::{Grouped, Shortened};

/// The most fields of an object whose unknown fields are ignored; bounds what telling duplicates apart costs.
const MAX_FIELDS: usize = 1_024;

/// Fields that nobody means to be ignored, and what they stand for.
const MISSPELLINGS: [(&str, &str); 5] =
    [("question", "questions"), ("image", "images"), ("video", "videos"), ("asset", "assets"), ("states", "state")];

pub(crate) fn parse(body: &[u8], rules: &Rules, files: Option<Files<'_>>) -> Result<Record, RecordError> {
    let scanned = json::scan(body)?;
    let root = Value::document(scanned.text);
    let loc = || vec![LocItem::from("body")];
    if root.shape() != Shape::Object {
        let message = format!("body is {}, it must be an object", root.shape().described());
        return Err(RecordError::invalid(loc(), "dict_type", message));
    }
    // One more than there may be, which is then refused.
    let members: Vec<_> = root.members().take(MAX_FIELDS + 1).collect();
    let pictures = Pictures::read(&members, rules, files);
    let mut renderer = Renderer::new(&scanned, pictures.placeholders.as_ref());
    let mut fields = Fields::new(loc(), "body".to_owned());
    let mut state = None;
    let mut questions = None;
    let mut record = Record {
        model: None,
        state: String::new(),
        images: Vec::new(),
        videos: Vec::new(),
        questions: Vec::new(),
        max_length: None,
        max_state_tokens: None,
        truncate: Truncate::None,
    };
    for (name, value) in members {
        fields.admit(name.clone(), &MISSPELLINGS)?;
        pictures.check(&name)?;
        match &*name {
            "model" => record.model = optional_string("model", value)?,
            "state" => {
                check_state(value, rules)?;
                state = Some(renderer.render_without(value, &pictures.state_parts));
            }
            "questions" => questions = Some(question::read_all(value, rules, &mut renderer)?),
            "max_length" => record.max_length = optional_count("max_length", value, 1)?,
            "max_state_tokens" => record.max_state_tokens = optional_count("max_state_tokens", value, 0)?,
            "truncate" => record.truncate = read_truncate(value)?,
            "videos" => record.videos = media::read_videos(value, rules)?,
            _ => {}
        }
    }
    renderer.check_growth()?;
    record.images = pictures.images;
    record.state = state.ok_or_else(|| missing("state", "any JSON value but null"))?;
    record.questions = questions.ok_or_else(|| missing("questions", "an object of one or more questions"))?;
    Ok(record)
}

/// Keeps the rules that hold for the names in one object: no duplicates, no misspellings, not too many.
pub(crate) struct Fields<'a> {
    loc: Vec<LocItem>,
    place: String,
    seen: HashSet<Cow<'a, str>>,
}

impl<'a> Fields<'a> {
    /// `place` is how messages call the object.
    pub(crate) fn new(loc: Vec<LocItem>, place: String) -> Self {
        Self { loc, place, seen: HashSet::new() }
    }

    pub(crate) fn admit(&mut self, name: Cow<'a, str>, misspellings: &[(&str, &str)]) -> Result<(), RecordError> {
        let refuse = |slug, message| {
            let mut loc = self.loc.clone();
            loc.push(LocItem::field(&name));
            Err(RecordError::invalid(loc, slug, message))
        };
        if let Some((_, meant)) = misspellings.iter().find(|(wrong, _)| *wrong == name) {
            let message = format!("{} has an unknown field \"{name}\", did you mean \"{meant}\"?", self.place);
            return refuse("extra_forbidden", message);
        }
        if self.seen.len() == MAX_FIELDS {
            let message = format!("{} has more than {} fields", self.place, Grouped(MAX_FIELDS));
            return refuse("too_long", message);
        }
        if self.seen.contains(&name) {
            let message = format!("{} has \"{}\" twice", self.place, Shortened(&name));
            return refuse("duplicate_key", message);
        }
        self.seen.insert(name);
        Ok(())
    }
}

fn check_state(value: Value<'_>, rules: &Rules) -> Result<(), RecordError> {
    if value.is_null() && !rules.reference_limits {
        return Err(at("state", "missing", "state is null, it may be any JSON value but null".to_owned()));
    }
    Ok(())
}

fn optional_string(name: &str, value: Value<'_>) -> Result<Option<String>, RecordError> {
    match value.shape() {
        Shape::Null => Ok(None),
        Shape::String => Ok(value.string().map(Cow::into_owned)),
        other => {
            let message = format!("{name} is {}, it must be a string", other.described());
            Err(at(name, "string_type", message))
        }
    }
}

/// A whole number of at least `least`. One too large for this machine's words means "no limit" just as well.
fn optional_count(name: &str, value: Value<'_>, least: usize) -> Result<Option<usize>, RecordError> {
    let allowed = if least == 0 { "0 or more" } else { "1 or more" };
    let text = value.text();
    match value.shape() {
        Shape::Null => Ok(None),
        Shape::Number if text == "-0" && least == 0 => Ok(Some(0)),
        Shape::Number if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let count = text.parse().unwrap_or(usize::MAX);
            if count < least {
                let message = format!("{name} is {count}, it must be an integer of {allowed}");
                return Err(at(name, "greater_than_equal", message));
            }
            Ok(Some(count))
        }
        other => {
            let found = match other {
                Shape::Number => Shortened(text).to_string(),
                other => other.described().to_owned(),
            };
            let message = format!("{name} is {found}, it must be an integer of {allowed}");
            Err(at(name, "int_type", message))
        }
    }
}

fn read_truncate(value: Value<'_>) -> Result<Truncate, RecordError> {
    let name = value.string();
    match name.as_deref() {
        Some("none") => Ok(Truncate::None),
        Some("end") => Ok(Truncate::End),
        None if value.is_null() => Ok(Truncate::None),
        other => {
            let found = match other {
                Some(name) => format!("\"{}\"", Shortened(name)),
                None => value.shape().described().to_owned(),
            };
            let message = format!("truncate is {found}, it must be \"none\" or \"end\"");
            Err(at("truncate", "literal_error", message))
        }
    }
}

fn missing(name: &str, allowed: &str) -> RecordError {
    at(name, "missing", format!("body has no {name}, it must be {allowed}"))
}

fn at(name: &str, slug: &'static str, message: String) -> RecordError {
    RecordError::invalid(vec!["body".into(), name.into()], slug, message)
}
