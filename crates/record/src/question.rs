//! One question: its type, its instruction, its options.
//!
//! `type` may stand after `criteria`, and means nothing without it, so a question's fields are first found (as slices of
//! the body) and then read. Counts are checked before anything is built for them.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::{LocItem, RecordError};
use crate::json::{Renderer, Shape, Value, write_quoted};
use crate::parse::Fields;
use crate::record::{Question, QuestionKind, QuestionOption, Rules};
use crate::text::{Grouped, Shortened};

/// The longest question id, in bytes.
const MAX_ID_BYTES: usize = 8_192;

/// The most options of a `choice`.
const MAX_CHOICE_OPTIONS: usize = 255;

/// The fewest and the most levels of a `score`.
const SCORE_LEVELS: std::ops::RangeInclusive<usize> = 2..=10;

/// The options of every `noul`, and their texts unless `criteria` says otherwise.
const NOUL_OPTIONS: [(&str, &str); 2] = [
    ("true", r#"{"description":"The proposition is true or the answer is yes.","option_id":"true"}"#),
    ("false", r#"{"description":"The proposition is false or the answer is no.","option_id":"false"}"#),
];

/// Fields that nobody means to be ignored, and what they stand for.
const MISSPELLINGS: [(&str, &str); 4] =
    [("instruction", "instructions"), ("criterias", "criteria"), ("criterion", "criteria"), ("options", "criteria")];

/// Reads the body's `questions`.
pub(crate) fn read_all(
    value: Value<'_>,
    rules: &Rules,
    renderer: &mut Renderer<'_>,
) -> Result<Vec<Question>, RecordError> {
    let refuse = |slug, message| Err(RecordError::invalid(vec!["body".into(), "questions".into()], slug, message));
    if value.shape() != Shape::Object {
        let found = value.shape().described();
        return refuse("dict_type", format!("questions is {found}, it must be an object of one or more questions"));
    }
    let mut options_left = rules.max_options;
    let mut seen = HashSet::new();
    let mut questions = Vec::new();
    for (id, value) in value.members() {
        if questions.len() == rules.max_questions {
            return refuse(
                "too_long",
                format!("questions has more than {} questions, the limit", Grouped(rules.max_questions)),
            );
        }
        let reader = Reader { id: &id, rules };
        if !seen.insert(id.clone()) {
            return Err(reader.refuse(&[], "duplicate_key", "stands twice in questions"));
        }
        let question = reader.read(value, &mut options_left, renderer)?;
        questions.push(question);
    }
    if questions.is_empty() {
        return refuse("too_short", "questions is empty, at least one question is required".to_owned());
    }
    Ok(questions)
}

/// Reads one question and says in every refusal which one it is.
struct Reader<'a> {
    id: &'a str,
    rules: &'a Rules,
}

impl Reader<'_> {
    fn read(
        &self,
        value: Value<'_>,
        options_left: &mut usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<Question, RecordError> {
        if self.id.len() > MAX_ID_BYTES {
            let message =
                format!("has an id of {} bytes, the limit is {}", Grouped(self.id.len()), Grouped(MAX_ID_BYTES));
            return Err(self.refuse(&[], "string_too_long", &message));
        }
        if value.shape() != Shape::Object {
            let message = format!("is {}, it must be an object with a type", value.shape().described());
            return Err(self.refuse(&[], "dict_type", &message));
        }
        let mut fields = Fields::new(self.loc(&[]), self.name());
        let mut kind = None;
        let mut instructions = None;
        let mut criteria = None;
        for (name, value) in value.members() {
            fields.admit(name.clone(), &MISSPELLINGS)?;
            match &*name {
                "type" => kind = Some(value),
                "instructions" => instructions = Some(value),
                "criteria" => criteria = Some(value),
                _ => {}
            }
        }
        let kind = self.kind(kind)?;
        let instruction = self.instruction(instructions, renderer)?;
        let options = match kind {
            QuestionKind::Noul => self.noul(criteria, options_left, renderer)?,
            QuestionKind::Choice => self.choice(criteria, options_left, renderer)?,
            QuestionKind::Score => self.score(criteria, options_left, renderer)?,
        };
        Ok(Question { id: self.id.to_owned(), kind, instruction, options })
    }

    fn kind(&self, value: Option<Value<'_>>) -> Result<QuestionKind, RecordError> {
        const ALLOWED: &str = "it must be \"noul\", \"choice\" or \"score\"";
        let Some(value) = value else {
            return Err(self.refuse(&["type"], "missing", &format!("has no type, {ALLOWED}")));
        };
        let Some(name) = value.string() else {
            let message = format!("type is {}, {ALLOWED}", value.shape().described());
            return Err(self.refuse(&["type"], "literal_error", &message));
        };
        QuestionKind::from_name(&name).ok_or_else(|| {
            let message = format!("type is \"{}\", {ALLOWED}", Shortened(&name));
            self.refuse(&["type"], "literal_error", &message)
        })
    }

    /// The instruction, or the id where there is none. `0`, `false`, `{}` and `[]` are instructions.
    fn instruction(&self, value: Option<Value<'_>>, renderer: &mut Renderer<'_>) -> Result<String, RecordError> {
        let given = value.filter(|value| !value.is_null() && value.raw_string() != Some(""));
        let instruction = match given {
            Some(value) => renderer.render(value),
            None => self.id.to_owned(),
        };
        if instruction.is_empty() {
            let message = "has neither an id nor instructions, one of them must not be empty";
            return Err(self.refuse(&["instructions"], "missing", message));
        }
        Ok(instruction)
    }

    fn noul(
        &self,
        criteria: Option<Value<'_>>,
        options_left: &mut usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<Vec<QuestionOption>, RecordError> {
        let mut descriptions = [None; NOUL_OPTIONS.len()];
        let criteria = criteria.filter(|criteria| !criteria.is_null());
        if let Some(criteria) = criteria {
            if criteria.shape() != Shape::Object {
                let message = format!(
                    "criteria is {}, a noul question takes an object with \"true\" and \"false\", or none",
                    criteria.shape().described()
                );
                return Err(self.refuse(&["criteria"], "dict_type", &message));
            }
            let place = format!("{}: criteria", self.name());
            let mut fields = Fields::new(self.loc(&["criteria"]), place);
            for (key, value) in criteria.members() {
                fields.admit(key.clone(), &[])?;
                if let Some(index) = NOUL_OPTIONS.iter().position(|(name, _)| *name == key) {
                    descriptions[index] = Some(value);
                }
            }
        }
        self.take_options(NOUL_OPTIONS.len(), options_left)?;
        let options = NOUL_OPTIONS.iter().zip(descriptions);
        Ok(options
            .map(|((key, default), description)| QuestionOption {
                key: (*key).to_owned(),
                text: match description {
                    Some(description) => renderer.option_text(key, description),
                    None => (*default).to_owned(),
                },
                legend: None,
            })
            .collect())
    }

    fn choice(
        &self,
        criteria: Option<Value<'_>>,
        options_left: &mut usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<Vec<QuestionOption>, RecordError> {
        const ALLOWED: &str = "a choice question takes an object of 1 to 255 options";
        let criteria = self.criteria(criteria, Shape::Object, "dict_type", ALLOWED)?;
        let count = criteria.members().count();
        let is_allowed = count >= 1 && (count <= MAX_CHOICE_OPTIONS || self.rules.reference_limits);
        if !is_allowed {
            return Err(self.wrong_count(count, "option", ALLOWED, count == 0));
        }
        self.take_options(count, options_left)?;
        let mut seen: HashSet<Cow<'_, str>> = HashSet::with_capacity(count);
        let mut options = Vec::with_capacity(count);
        for (key, description) in criteria.members() {
            let option = QuestionOption {
                text: renderer.option_text(&key, description),
                key: key.clone().into_owned(),
                legend: None,
            };
            if seen.contains(&key) {
                let message = format!("criteria has the option \"{}\" twice", Shortened(&key));
                return Err(self.refuse(&["criteria", &key], "duplicate_key", &message));
            }
            seen.insert(key);
            options.push(option);
        }
        Ok(options)
    }

    fn score(
        &self,
        criteria: Option<Value<'_>>,
        options_left: &mut usize,
        renderer: &mut Renderer<'_>,
    ) -> Result<Vec<QuestionOption>, RecordError> {
        const ALLOWED: &str = "a score question takes an array of 2 to 10 levels";
        let criteria = self.criteria(criteria, Shape::Array, "list_type", ALLOWED)?;
        let count = criteria.elements().count();
        let is_allowed = SCORE_LEVELS.contains(&count) || (count >= 1 && self.rules.reference_limits);
        if !is_allowed {
            return Err(self.wrong_count(count, "level", ALLOWED, count < *SCORE_LEVELS.start()));
        }
        self.take_options(count, options_left)?;
        let levels = criteria.elements().enumerate();
        Ok(levels
            .map(|(index, level)| {
                let key = index.to_string();
                QuestionOption { text: renderer.option_text(&key, level), key, legend: Some(legend(level, renderer)) }
            })
            .collect())
    }

    fn criteria<'v>(
        &self,
        criteria: Option<Value<'v>>,
        expected: Shape,
        slug: &'static str,
        allowed: &str,
    ) -> Result<Value<'v>, RecordError> {
        match criteria {
            Some(criteria) if criteria.shape() == expected => Ok(criteria),
            Some(criteria) => {
                let message = format!("criteria is {}, {allowed}", criteria.shape().described());
                Err(self.refuse(&["criteria"], slug, &message))
            }
            None => Err(self.refuse(&["criteria"], "missing", &format!("has no criteria, {allowed}"))),
        }
    }

    fn wrong_count(&self, count: usize, noun: &str, allowed: &str, is_short: bool) -> RecordError {
        let slug = if is_short { "too_short" } else { "too_long" };
        let plural = if count == 1 { "" } else { "s" };
        let message = format!("criteria has {} {noun}{plural}, {allowed}", Grouped(count));
        self.refuse(&["criteria"], slug, &message)
    }

    fn take_options(&self, count: usize, options_left: &mut usize) -> Result<(), RecordError> {
        match options_left.checked_sub(count) {
            Some(left) => {
                *options_left = left;
                Ok(())
            }
            None => {
                let message = format!(
                    "criteria goes over the limit of {} options in all questions together",
                    Grouped(self.rules.max_options)
                );
                Err(self.refuse(&["criteria"], "too_long", &message))
            }
        }
    }

    fn name(&self) -> String {
        format!("question \"{}\"", Shortened(self.id))
    }

    fn loc(&self, path: &[&str]) -> Vec<LocItem> {
        let root = ["body", "questions", self.id];
        root.iter().chain(path).map(|step| LocItem::field(step)).collect()
    }

    /// `what` goes on after the question's name.
    fn refuse(&self, path: &[&str], slug: &'static str, what: &str) -> RecordError {
        RecordError::invalid(self.loc(path), slug, format!("{} {what}", self.name()))
    }
}

/// What the response's legend repeats: text and containers as sent, placeholders included, null as `""`, other scalars as the text they render
/// to (the Python SDK refuses nulls and numbers there).
fn legend(level: Value<'_>, renderer: &mut Renderer<'_>) -> String {
    match level.shape() {
        Shape::Null => "\"\"".to_owned(),
        Shape::Number | Shape::Boolean => {
            let mut quoted = Vec::new();
            write_quoted(&renderer.render(level), &mut quoted);
            String::from_utf8_lossy(&quoted).into_owned()
        }
        Shape::String => renderer.dump_as_sent(level),
        Shape::Object | Shape::Array => level.compact(),
    }
}
