//! One line of a data file: a request, and what the right answers are.
//!
//! The body that is sent is the text of the line, byte for byte: a number that were read and printed again could be another
//! prompt. So fields are found as slices of the line, and only labels and the questions' outlines are read.

use std::fmt;

use clef_record::{Grouped, QuestionKind, Shortened};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::gold::{Asked, Gold};

/// Fields of a line that are labels, not part of a request.
const LABELS: [&str; 5] = ["id", "name", "gold", "group", "families"];

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
    pub groups: Vec<String>,
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
    /// Reads a line of a data file. Beside the line, memory stays under twice its size.
    ///
    /// # Errors
    /// If the line is in neither shape, has a question that cannot be read, a gold answer for a question or an option
    /// that there is not, or, with `require_gold`, no gold answer at all.
    pub fn parse(line: u64, text: &[u8], require_gold: bool) -> Result<Self, LineFault> {
        let mut id = None;
        read(line, text, require_gold, &mut id).map_err(|message| LineFault { line, id, message })
    }
}

fn read(line: u64, text: &[u8], require_gold: bool, id: &mut Option<String>) -> Result<Case, String> {
    if text.starts_with("\u{feff}".as_bytes()) {
        return Err("a byte order mark stands before the line; only the file may begin with one".to_owned());
    }
    let fields: Fields<'_> = serde_json::from_slice(text).map_err(|error| not_json(&error))?;
    *id = ["id", "name"].into_iter().find_map(|key| fields.get(key)).and_then(identifier);
    let (body, request) = match fields.get("request") {
        Some(request) => {
            let inner = serde_json::from_str(request.get()).map_err(|_| "request is not an object".to_owned())?;
            (request.get().as_bytes().to_vec(), Some(inner))
        }
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

/// The members of an object in order, unread.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'a> Fields<'a> {
    /// The last value under a key, as most readers of JSON take it.
    fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|&(_, value)| value)
    }

    /// The object's text again, without some members.
    fn without(&self, names: &[&str]) -> Vec<u8> {
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

fn identifier(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn questions(request: &Fields<'_>) -> Result<Vec<Question>, String> {
    let questions = request.get("questions").ok_or("the request has no questions")?;
    let questions: Fields<'_> =
        serde_json::from_str(questions.get()).map_err(|_| "questions is not an object".to_owned())?;
    if questions.0.is_empty() {
        return Err("questions is empty".to_owned());
    }
    questions.0.into_iter().map(|(id, value)| question(id, value)).collect()
}

fn question(id: String, value: &RawValue) -> Result<Question, String> {
    let fault = |what: &str| format!("question \"{}\" {what}", Shortened(&id));
    let fields: Fields<'_> = serde_json::from_str(value.get()).map_err(|_| fault("is not an object"))?;
    let kind = fields.get("type").and_then(identifier).ok_or_else(|| fault("has no type"))?;
    let criteria = fields.get("criteria").map_or("null", RawValue::get);
    let (kind, options) = match kind.as_str() {
        "noul" => (QuestionKind::Noul, vec!["true".to_owned(), "false".to_owned()]),
        "choice" => {
            let options: Fields<'_> = serde_json::from_str(criteria).map_err(|_| fault("has no object as criteria"))?;
            (QuestionKind::Choice, options.0.into_iter().map(|(key, _)| key).collect())
        }
        "score" => {
            let levels: Vec<&RawValue> =
                serde_json::from_str(criteria).map_err(|_| fault("has no array as criteria"))?;
            (QuestionKind::Score, (0..levels.len()).map(|level| level.to_string()).collect())
        }
        other => return Err(fault(&format!("is of type \"{}\"", Shortened(other)))),
    };
    if options.is_empty() {
        return Err(fault("has no options"));
    }
    Ok(Question { id, kind, options, gold: None, groups: Vec::new() })
}

/// Sets the gold answers: by question id, or as a list in request order.
fn label(questions: &mut [Question], gold: &RawValue, line: &Fields<'_>, is_nested: bool) -> Result<(), String> {
    let gold: Value = serde_json::from_str(gold.get()).map_err(|error| not_json(&error))?;
    let count = questions.len();
    match gold {
        Value::Null => {}
        Value::Object(answers) => {
            for (id, answer) in answers {
                let unknown = || format!("gold names question \"{}\", which the request does not ask", Shortened(&id));
                let question = questions.iter_mut().find(|question| question.id == id).ok_or_else(unknown)?;
                question.gold = question.asked().gold(&answer, None)?;
            }
        }
        Value::Array(answers) if answers.len() == count => {
            let orders = if is_nested { option_orders(line) } else { Vec::new() };
            for (index, (question, answer)) in questions.iter_mut().zip(answers).enumerate() {
                let order = orders.get(index).filter(|(id, _)| *id == question.id).map(|(_, order)| order.as_slice());
                question.gold = question.asked().gold(&answer, order)?;
            }
        }
        Value::Array(answers) => {
            let (given, asked) = (Grouped(answers.len()), Grouped(count));
            return Err(format!("gold is a list of {given} answers, the request asks {asked} questions"));
        }
        _ => return Err("gold is neither an object nor a list".to_owned()),
    }
    Ok(())
}

impl Question {
    fn asked(&self) -> Asked<'_> {
        Asked { id: &self.id, kind: self.kind, options: &self.options }
    }
}

/// What files of reference answers say about the order of options: `questions` beside `request`, with `option_ids`.
fn option_orders(line: &Fields<'_>) -> Vec<(String, Vec<String>)> {
    #[derive(Deserialize)]
    struct Order {
        id: String,
        option_ids: Vec<String>,
    }
    let orders: Option<Vec<Order>> = line.get("questions").and_then(|value| serde_json::from_str(value.get()).ok());
    orders.unwrap_or_default().into_iter().map(|order| (order.id, order.option_ids)).collect()
}

/// Sets the groups: `group` for the whole line, `families` for each question.
fn group(questions: &mut [Question], line: &Fields<'_>) -> Result<(), String> {
    if let Some(group) = line.get("group") {
        let names = names(group).ok_or("group is neither a string nor a list of strings")?;
        for question in questions.iter_mut() {
            question.groups.clone_from(&names);
        }
    }
    if let Some(families) = line.get("families") {
        let names = names(families).ok_or("families is not a list of strings")?;
        if names.len() != questions.len() {
            let (given, asked) = (Grouped(names.len()), Grouped(questions.len()));
            return Err(format!("families is a list of {given} names, the request asks {asked} questions"));
        }
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

/// A string or a list of strings; null is none.
fn names(value: &RawValue) -> Option<Vec<String>> {
    match serde_json::from_str(value.get()).ok()? {
        Value::Null => Some(Vec::new()),
        Value::String(name) => Some(vec![name]),
        Value::Array(list) => list.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// What a reader of JSON says, without the line number, which is always 1.
fn not_json(error: &serde_json::Error) -> String {
    if error.is_data() {
        return "the line is not an object".to_owned();
    }
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or(&message);
    format!("not JSON: {} at column {}", Shortened(what), Grouped(error.column()))
}
