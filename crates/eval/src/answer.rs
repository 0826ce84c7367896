//! What came back: the probability of every option of every question.
//!
//! A response is read against the questions that were asked, and strictly: a figure computed from half an answer looks
//! like any other figure.

use std::collections::HashSet;

use clef_record::{QuestionKind, Shortened};
use serde_json::{Map, Value, json};

use crate::answerer::{AnswerError, AnswerErrorKind};
use crate::case::Question;

/// How far a sum may be from 1 whatever the number of options.
const SUM_TOLERANCE: f64 = 1e-6;

/// How far it may be off for each option besides: servers that print four digits round each by half of the last.
const ROUNDING_TOLERANCE: f64 = 0.5e-4;

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The question's id.
    pub question: String,
    /// What it asked for.
    pub kind: QuestionKind,
    /// The options' names in request order; `true` and `false` for a `noul`. Never empty.
    pub options: Vec<String>,
    /// The probability of each option, as it was sent. They sum to 1 within 1e-6 and what rounding to four digits adds.
    pub probabilities: Vec<f64>,
}

impl Answer {
    /// The most probable option, the first of equals.
    pub fn pick(&self) -> usize {
        let mut pick = 0;
        for (index, &probability) in self.probabilities.iter().enumerate() {
            if probability > self.probabilities[pick] {
                pick = index;
            }
        }
        pick
    }

    /// The probability of the option picked.
    pub fn confidence(&self) -> f64 {
        self.probabilities[self.pick()]
    }

    /// The expected level: the sum of each level's number times its probability.
    pub fn level(&self) -> f64 {
        self.probabilities.iter().enumerate().map(|(level, probability)| level as f64 * probability).sum()
    }

    /// The probabilities of a question, checked.
    pub(crate) fn checked(question: &Question, probabilities: Vec<f64>) -> Result<Self, String> {
        let id = Shortened(&question.id);
        if let Some(wrong) = probabilities.iter().find(|probability| !(0.0..=1.0).contains(*probability)) {
            return Err(format!("answer to \"{id}\" has the probability {wrong}; it must be from 0 to 1"));
        }
        let sum: f64 = probabilities.iter().sum();
        let tolerance = SUM_TOLERANCE + ROUNDING_TOLERANCE * probabilities.len() as f64;
        if (sum - 1.0).abs() > tolerance {
            return Err(format!("answer to \"{id}\" has probabilities that sum to {sum}, not to 1"));
        }
        Ok(Self {
            question: question.id.clone(),
            kind: question.kind,
            options: question.options.clone(),
            probabilities,
        })
    }
}

/// Reads a response body; one answer per question, in the order asked.
///
/// # Errors
/// Of kind [`Unreadable`](AnswerErrorKind::Unreadable) if the body is not a response, if a question or an option is
/// not answered or one that was not asked is, if a type differs, or if a probability is not from 0 to 1 or the sum not 1.
pub fn read_answers(body: &[u8], questions: &[Question]) -> Result<Vec<Answer>, AnswerError> {
    read(body, questions).map_err(|message| AnswerError::new(AnswerErrorKind::Unreadable, message))
}

fn read(body: &[u8], questions: &[Question]) -> Result<Vec<Answer>, String> {
    let mut response: Value = serde_json::from_slice(body).map_err(|error| format!("response is not JSON: {error}"))?;
    let Some(Value::Object(answers)) = response.get_mut("answers").map(Value::take) else {
        return Err("response has no object \"answers\"".to_owned());
    };
    let asked: HashSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    if let Some(id) = answers.keys().find(|id| !asked.contains(id.as_str())) {
        return Err(format!("response answers \"{}\", which was not asked", Shortened(id)));
    }
    from_object(&answers, questions)
}

/// Reads the object `answers` of a response.
pub(crate) fn from_object(answers: &Map<String, Value>, questions: &[Question]) -> Result<Vec<Answer>, String> {
    questions.iter().map(|question| answer(question, answers)).collect()
}

/// The object `answers` of a response, as far as [`from_object`] reads it.
pub(crate) fn to_object(answers: &[Answer]) -> Map<String, Value> {
    let object = answers.iter().map(|answer| {
        let by_option = || -> Value {
            let pairs =
                answer.options.iter().cloned().zip(answer.probabilities.iter().map(|&value| Value::from(value)));
            Value::Object(pairs.collect())
        };
        let value = match answer.kind {
            QuestionKind::Noul => json!({"type": "noul", "noul": answer.probabilities[0]}),
            QuestionKind::Choice => {
                json!({"type": "choice", "choice": answer.options[answer.pick()], "probabilities": by_option()})
            }
            QuestionKind::Score => json!({"type": "score", "score": answer.level(), "probabilities": by_option()}),
        };
        (answer.question.clone(), value)
    });
    object.collect()
}

fn answer(question: &Question, answers: &Map<String, Value>) -> Result<Answer, String> {
    let id = Shortened(&question.id);
    let answer = answers.get(&question.id).ok_or_else(|| format!("response does not answer \"{id}\""))?;
    let found = answer.get("type").and_then(Value::as_str).unwrap_or("none");
    if found != question.kind.as_str() {
        let (found, asked) = (Shortened(found), question.kind.as_str());
        return Err(format!("answer to \"{id}\" is of type {found}, {asked} was asked"));
    }
    let probabilities = match question.kind {
        QuestionKind::Noul => {
            let truth = number(question, answer, "noul")?;
            vec![truth, 1.0 - truth]
        }
        QuestionKind::Choice | QuestionKind::Score => {
            let by_option = answer.get("probabilities").filter(|value| value.is_object());
            let by_option = by_option.ok_or_else(|| format!("answer to \"{id}\" has no object \"probabilities\""))?;
            if let Some(key) = foreign(question, by_option) {
                return Err(format!("answer to \"{id}\" has option \"{}\", which was not asked", Shortened(key)));
            }
            question.options.iter().map(|option| number(question, by_option, option)).collect::<Result<_, _>>()?
        }
    };
    Answer::checked(question, probabilities)
}

fn foreign<'a>(question: &Question, by_option: &'a Value) -> Option<&'a String> {
    let asked: HashSet<&str> = question.options.iter().map(String::as_str).collect();
    by_option.as_object()?.keys().find(|key| !asked.contains(key.as_str()))
}

fn number(question: &Question, object: &Value, key: &str) -> Result<f64, String> {
    let (id, shown) = (Shortened(&question.id), Shortened(key));
    let value = object.get(key).ok_or_else(|| format!("answer to \"{id}\" lacks \"{shown}\""))?;
    value
        .as_f64()
        .ok_or_else(|| format!("answer to \"{id}\": \"{shown}\" is {}, not a number", Shortened(&value.to_string())))
}
