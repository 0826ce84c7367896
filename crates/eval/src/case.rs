//! One line of a data file: a request, and what the right answers are.
//!
//! The body that is sent is the text of the line, byte for byte: a number that were read and printed again could be another
//! prompt. So fields are found as slices of the line, and only labels and the questions' outlines are read.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use clef_record::{Grouped, QuestionKind, Shortened};
use serde_json::value::RawValue;

use crate::fields::{Elements, Fields, Shape, Unfit, said, text};
use crate::gold::{Asked, Gold};
use crate::table::counted;

/// Fields of a line that are labels, not part of a request.
const LABELS: [&str; 5] = ["id", "name", "gold", "group", "families"];

/// The most questions of a request, as the API takes it; also the most fields of a line, a request or a question.
const MAX_QUESTIONS: usize = 32_768;

/// The most options of one question, as the API takes it.
pub(crate) const MAX_OPTIONS: usize = 255;

/// The most options of all questions of a request together, as the API takes it.
const MAX_OPTIONS_TOGETHER: usize = 131_072;

/// The most groups of a line.
const MAX_GROUPS: usize = 32;

/// A request and what is known about it: one line of a data file.
///
/// A line is an object in one of two shapes. It may be a request body with labels beside the body's own fields, which are
/// taken out of what is sent:
///
/// ```json
/// {"id": "m1", "group": "triage", "gold": {"team": "billing"}, "state": "...", "questions": {"team": {...}}}
/// ```
///
/// or keep the body apart, `{"request": {...}, "gold": ..., ...}`; then it may hold more fields, which are ignored.
///
/// - `gold`: an object with an answer by question id, or a list with one for each question in request order. Not every
///   question needs one; null is none. A `noul` is answered by true, false (also as strings), or the probability of true;
///   a `choice` by an option's key; a `score` by a level, a number that may lie between two. Any of them by an object of
///   probabilities by option, or a list of them in the order `true`, `false` or of the levels; for a `choice` the
///   order is that of `questions[i].option_ids` beside `request`, and without it a list is refused.
/// - `group`: a name or a list of names, of the whole line. `families`: a list with one name for each question.
/// - `id` or `name`: a string or a number.
///
/// A request asks at most 32,768 questions of at most 255 options each, 131,072 options together: what the API takes. A line
/// is in at most 32 groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Where it stands in the data file, from 1.
    pub line: u64,
    /// The line's `id` (or `name`), if it has one.
    pub id: Option<String>,
    /// The request body, as it stands in the line.
    pub body: Vec<u8>,
    /// The digest of `body`.
    pub digest: RequestDigest,
    /// The questions in request order.
    pub questions: Vec<Question>,
}

/// One question of a request, as far as measuring looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The key under `questions`.
    pub id: String,
    /// What it asks for.
    pub kind: QuestionKind,
    /// The options' names in request order: `true` and `false`; the keys; `0` and up.
    pub options: Vec<String>,
    /// The right answer, if the line has one.
    pub gold: Option<Gold>,
    /// The groups that the question is counted in; empty for none.
    pub groups: Vec<Arc<str>>,
}

/// What is wrong with a line of a data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFault {
    /// The line, from 1.
    pub line: u64,
    /// The line's id, if it got so far.
    pub id: Option<String>,
    /// One line for people, without the line's number.
    pub message: String,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// The first 16 bytes of a request body's BLAKE3 digest, by which a finished answer is found again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestDigest([u8; 16]);

impl RequestDigest {
    /// The digest of a body.
    pub fn of(body: &[u8]) -> Self {
        let mut short = [0; 16];
        short.copy_from_slice(&blake3::hash(body).as_bytes()[..16]);
        Self(short)
    }

    /// Reads what `Display` wrote.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Case {
    /// Reads a line of a data file. Beside the line, memory stays under twice its size (the body, and the names in it) plus
    /// a fixed allowance of some 40 MiB for the questions, options and groups that the limits admit.
    ///
    /// # Errors
    /// If the line is in neither shape, has a question that cannot be read, more questions, options or groups than the
    /// limits, a gold answer for a question or an option that there is not, or, with `require_gold`, no gold answer at all.
    pub fn parse(line: u64, text: &[u8], require_gold: bool) -> Result<Self, LineFault> {
        let mut id = None;
        read(line, text, require_gold, &mut id).map_err(|message| LineFault { line, id, message })
    }
}

fn read(line: u64, text: &[u8], require_gold: bool, id: &mut Option<String>) -> Result<Case, String> {
    if text.starts_with("\u{feff}".as_bytes()) {
        return Err("a byte order mark stands before the line; only the file may begin with one".to_owned());
    }
    let fields = Fields::read(text, MAX_QUESTIONS).map_err(|unfit| match unfit {
        Unfit::Json(error) => format!("not JSON: {} at column {}", said(&error), Grouped(error.column())),
        other => other.message("the line", "an object", "fields", MAX_QUESTIONS),
    })?;
    *id = ["id", "name"].into_iter().find_map(|key| fields.get(key)).and_then(identifier);
    let (body, request) = match fields.get("request") {
        Some(request) => (request.get().as_bytes().to_vec(), Some(object("request", request, "fields")?)),
        None => (fields.without(&LABELS), None),
    };
    let mut questions = questions(request.as_ref().unwrap_or(&fields))?;
    if let Some(gold) = fields.get("gold") {
        label(&mut questions, gold, &fields, request.is_some())?;
    }
    if require_gold && questions.iter().all(|question| question.gold.is_none()) {
        return Err("there is no gold answer".to_owned());
    }
    group(&mut questions, &fields)?;
    Ok(Case { line, id: id.clone(), digest: RequestDigest::of(&body), body, questions })
}

/// The members of an object of the line.
fn object<'a>(what: &str, value: &'a RawValue, noun: &str) -> Result<Fields<'a>, String> {
    let unfit = |unfit: Unfit| unfit.message(what, "an object", noun, MAX_QUESTIONS);
    Fields::read(value.get().as_bytes(), MAX_QUESTIONS).map_err(unfit)
}

fn identifier(value: &RawValue) -> Option<String> {
    match Shape::of(value) {
        Shape::Text => text(value),
        Shape::Number => Some(value.get().to_owned()),
        Shape::Null | Shape::Bool(_) | Shape::List | Shape::Object => None,
    }
}

fn questions(request: &Fields<'_>) -> Result<Vec<Question>, String> {
    let questions = request.get("questions").ok_or("the request has no questions")?;
    let questions = Fields::read(questions.get().as_bytes(), MAX_QUESTIONS).map_err(|unfit| match unfit {
        Unfit::Count(count) => {
            format!("the request asks {} questions, the limit is {}", Grouped(count), Grouped(MAX_QUESTIONS))
        }
        other => other.message("questions", "an object", "questions", MAX_QUESTIONS),
    })?;
    if questions.0.is_empty() {
        return Err("questions is empty".to_owned());
    }
    let mut options_left = MAX_OPTIONS_TOGETHER;
    questions.0.into_iter().map(|(id, value)| question(id, value, &mut options_left)).collect()
}

fn question(id: String, value: &RawValue, options_left: &mut usize) -> Result<Question, String> {
    let name = format!("question \"{}\"", Shortened(&id));
    let fields = object(&name, value, "fields")?;
    let kind = fields.get("type").and_then(identifier).ok_or_else(|| format!("{name} has no type"))?;
    let criteria = fields.get("criteria").map_or("null", RawValue::get).as_bytes();
    let unfit = |unfit: Unfit, shape: &str| match unfit {
        Unfit::Shape => format!("{name} has no {shape} as criteria"),
        Unfit::Count(count) => {
            format!("{name} has {} options, the limit is {MAX_OPTIONS}", Grouped(count))
        }
        Unfit::Json(error) => format!("criteria of {name} cannot be read: {}", said(&error)),
    };
    let (kind, options) = match kind.as_str() {
        "noul" => (QuestionKind::Noul, vec!["true".to_owned(), "false".to_owned()]),
        "choice" => {
            let options = Fields::read(criteria, MAX_OPTIONS).map_err(|fault| unfit(fault, "object"))?;
            (QuestionKind::Choice, options.0.into_iter().map(|(key, _)| key).collect())
        }
        "score" => {
            let levels = Elements::read(criteria, MAX_OPTIONS).map_err(|fault| unfit(fault, "array"))?;
            (QuestionKind::Score, (0..levels.0.len()).map(|level| level.to_string()).collect::<Vec<_>>())
        }
        other => return Err(format!("{name} is of type \"{}\"", Shortened(other))),
    };
    if options.is_empty() {
        return Err(format!("{name} has no options"));
    }
    *options_left = options_left.checked_sub(options.len()).ok_or_else(|| {
        format!("{name} goes over the limit of {} options in all questions together", Grouped(MAX_OPTIONS_TOGETHER))
    })?;
    Ok(Question { id, kind, options, gold: None, groups: Vec::new() })
}

/// Sets the gold answers: by question id, or as a list in request order.
fn label(questions: &mut [Question], gold: &RawValue, line: &Fields<'_>, is_nested: bool) -> Result<(), String> {
    match Shape::of(gold) {
        Shape::Null => Ok(()),
        Shape::Object => {
            let answers = object("gold", gold, "answers")?;
            let mut places = HashMap::with_capacity(questions.len());
            for (index, question) in questions.iter().enumerate() {
                places.entry(question.id.clone()).or_insert(index);
            }
            for (id, answer) in answers.0 {
                let unknown = || format!("gold names question \"{}\", which the request does not ask", Shortened(&id));
                let question = &mut questions[*places.get(&id).ok_or_else(unknown)?];
                question.gold = question.asked().gold(answer, None)?;
            }
            Ok(())
        }
        Shape::List => {
            let wrong = |given: usize| {
                let asked = counted(questions.len() as u64, "question");
                format!("gold is a list of {}, the request asks {asked}", counted(given as u64, "answer"))
            };
            let answers = match Elements::read(gold.get().as_bytes(), questions.len()) {
                Ok(answers) if answers.0.len() == questions.len() => answers.0,
                Ok(answers) => return Err(wrong(answers.0.len())),
                Err(Unfit::Count(given)) => return Err(wrong(given)),
                Err(unfit) => return Err(unfit.message("gold", "a list", "answers", MAX_QUESTIONS)),
            };
            let orders = if is_nested { option_orders(line) } else { Vec::new() };
            for (index, (question, answer)) in questions.iter_mut().zip(answers).enumerate() {
                let order = orders.get(index).and_then(|order| option_order(order, &question.id));
                question.gold = question.asked().gold(answer, order.as_deref())?;
            }
            Ok(())
        }
        Shape::Bool(_) | Shape::Number | Shape::Text => Err("gold is neither an object nor a list".to_owned()),
    }
}

impl Question {
    fn asked(&self) -> Asked<'_> {
        Asked { id: &self.id, kind: self.kind, options: &self.options }
    }
}

/// What files of reference answers say about the order of options: `questions` beside `request`.
fn option_orders<'a>(line: &Fields<'a>) -> Vec<&'a RawValue> {
    let orders = line.get("questions").and_then(|value| Elements::read(value.get().as_bytes(), MAX_QUESTIONS).ok());
    orders.map_or_else(Vec::new, |orders| orders.0)
}

/// The `option_ids` of one of them, if it is of this question.
fn option_order(order: &RawValue, id: &str) -> Option<Vec<String>> {
    let order = Fields::read(order.get().as_bytes(), MAX_QUESTIONS).ok()?;
    if order.get("id").and_then(text)? != id {
        return None;
    }
    let options = Elements::read(order.get("option_ids")?.get().as_bytes(), MAX_OPTIONS).ok()?;
    options.0.into_iter().map(text).collect()
}

/// Sets the groups: `group` for the whole line, `families` for each question.
fn group(questions: &mut [Question], line: &Fields<'_>) -> Result<(), String> {
    if let Some(group) = line.get("group") {
        let names = names(group, MAX_GROUPS).map_err(|unfit| match unfit {
            Unfit::Shape => "group is neither a string nor a list of strings".to_owned(),
            other => other.message("group", "a list", "names", MAX_GROUPS),
        })?;
        for question in questions.iter_mut() {
            question.groups.clone_from(&names);
        }
    }
    if let Some(families) = line.get("families") {
        let wrong = |given: usize| {
            let asked = counted(questions.len() as u64, "question");
            format!("families is a list of {}, the request asks {asked}", counted(given as u64, "name"))
        };
        let names = match names(families, questions.len()) {
            Ok(names) if names.len() == questions.len() => names,
            Ok(names) => return Err(wrong(names.len())),
            Err(Unfit::Count(given)) => return Err(wrong(given)),
            Err(Unfit::Shape) => return Err("families is not a list of strings".to_owned()),
            Err(unfit) => return Err(unfit.message("families", "a list", "names", MAX_QUESTIONS)),
        };
        for (question, name) in questions.iter_mut().zip(names) {
            question.groups.push(name);
        }
    }
    for question in questions {
        question.groups.sort();
        question.groups.dedup();
    }
    Ok(())
}

/// A string or a list of at most so many strings; null is none.
fn names(value: &RawValue, most: usize) -> Result<Vec<Arc<str>>, Unfit> {
    let name = |value: &RawValue| match Shape::of(value) {
        Shape::Text => serde_json::from_str::<String>(value.get()).map(Arc::from).map_err(Unfit::Json),
        _ => Err(Unfit::Shape),
    };
    match Shape::of(value) {
        Shape::Null => Ok(Vec::new()),
        Shape::Text => Ok(vec![name(value)?]),
        _ => Elements::read(value.get().as_bytes(), most)?.0.into_iter().map(name).collect(),
    }
}
