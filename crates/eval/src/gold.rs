//! What the right answer to a question is.
//!
//! People label in several ways: a key, a level, a level between two, true or false, or how a panel of readers was split.
//! All of them are read into one shape, a probability for each option (*target*), and every measure is defined on that. A
//! plain label is the target with a 1 in it.

use std::collections::HashMap;
use std::fmt;

use clef_record::{Grouped, QuestionKind, Shortened};
use serde_json::value::RawValue;

use crate::case::MAX_OPTIONS;
use crate::fields::{Elements, Fields, Shape, Unfit, number, said};
use crate::table::counted;

/// How far the probabilities of a target may be from a sum of 1: labels are written with few digits.
const SUM_TOLERANCE: f64 = 0.01;

/// The most options that a message lists.
const LISTED_OPTIONS: usize = 8;

/// The right answer to one question, as a probability for each option.
#[derive(Debug, Clone, PartialEq)]
pub struct Gold {
    target: Vec<f64>,
}

impl Gold {
    /// The probability of each option, in the order of the question's options; they sum to 1.
    pub fn target(&self) -> &[f64] {
        &self.target
    }

    /// The option with the largest target, if there is one such option and not several.
    pub fn label(&self) -> Option<usize> {
        let largest = self.certainty();
        let mut label = None;
        for (index, &value) in self.target.iter().enumerate() {
            if value == largest && label.replace(index).is_some() {
                return None;
            }
        }
        label
    }

    /// The largest target, from 0 to 1; 1 for a plain label.
    pub fn certainty(&self) -> f64 {
        self.target.iter().copied().fold(0.0, f64::max)
    }

    /// The expected level: the sum of each level's number times its target.
    pub fn level(&self) -> f64 {
        self.target.iter().enumerate().map(|(level, target)| level as f64 * target).sum()
    }
}

/// A question, as far as a gold answer has to fit it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) id: &'a str,
    pub(crate) kind: QuestionKind,
    pub(crate) options: &'a [String],
}

impl Asked<'_> {
    /// Reads a gold answer; `None` where there is none (null).
    ///
    /// `order` is the order of options that a list of probabilities is in, if the line says one.
    ///
    /// # Errors
    /// What is wrong, naming the question and the value or the option.
    pub(crate) fn gold(self, value: &RawValue, order: Option<&[String]>) -> Result<Option<Gold>, String> {
        let target = match (self.kind, Shape::of(value)) {
            (_, Shape::Null) => return Ok(None),
            (_, Shape::Object) => self.by_option(value)?,
            (_, Shape::List) => self.listed(value, order)?,
            (QuestionKind::Noul, Shape::Bool(truth)) => noul(f64::from(u8::from(truth))),
            (QuestionKind::Noul, Shape::Number) => match number(value) {
                Some(truth) if (0.0..=1.0).contains(&truth) => noul(truth),
                _ => return Err(self.unfit(Shortened(value.get()))),
            },
            (QuestionKind::Score, Shape::Number) => {
                number(value).and_then(|level| self.level(level)).ok_or_else(|| self.unfit(Shortened(value.get())))?
            }
            (_, Shape::Text) => {
                let key: String = serde_json::from_str(value.get()).map_err(|error| self.unreadable(&error))?;
                self.one(&key).ok_or_else(|| self.unfit(format_args!("\"{}\"", Shortened(&key))))?
            }
            (QuestionKind::Choice, Shape::Bool(_) | Shape::Number) | (QuestionKind::Score, Shape::Bool(_)) => {
                return Err(self.unfit(Shortened(value.get())));
            }
        };
        Ok(Some(Gold { target }))
    }

    /// All on one option.
    fn one(self, key: &str) -> Option<Vec<f64>> {
        let label = self.options.iter().position(|option| option == key)?;
        Some((0..self.options.len()).map(|index| f64::from(u8::from(index == label))).collect())
    }

    /// A level between two is split between them, so that the expected level is the one given.
    fn level(self, level: f64) -> Option<Vec<f64>> {
        let last = self.options.len().checked_sub(1)? as f64;
        if !(0.0..=last).contains(&level) {
            return None;
        }
        Some((0..self.options.len()).map(|index| (1.0 - (level - index as f64).abs()).max(0.0)).collect())
    }

    /// Probabilities by option; options that are not named have none.
    fn by_option(self, value: &RawValue) -> Result<Vec<f64>, String> {
        let members = Fields::read(value.get().as_bytes(), MAX_OPTIONS).map_err(|unfit| match unfit {
            Unfit::Count(count) => self.names_too_many(count),
            Unfit::Json(error) => self.unreadable(&error),
            Unfit::Shape => self.unfit(Shortened(value.get())),
        })?;
        self.named(members.0.iter().map(|(key, value)| (key.as_str(), *value)))
    }

    /// Probabilities in a known order.
    fn listed(self, value: &RawValue, order: Option<&[String]>) -> Result<Vec<f64>, String> {
        let id = Shortened(self.id);
        let order = match (order, self.kind) {
            (Some(order), _) => order,
            (None, QuestionKind::Noul | QuestionKind::Score) => self.options,
            (None, QuestionKind::Choice) => {
                return Err(format!(
                    "gold of question \"{id}\" is a list and nothing says in which order; write {{\"option\": probability}}"
                ));
            }
        };
        let wrong = |given: usize| {
            let noun = if given == 1 { "probability" } else { "probabilities" };
            let (given, options) = (Grouped(given), counted(order.len() as u64, "option"));
            format!("gold of question \"{id}\" lists {given} {noun}, it has {options}")
        };
        let elements = match Elements::read(value.get().as_bytes(), order.len()) {
            Ok(elements) if elements.0.len() == order.len() => elements.0,
            Ok(elements) => return Err(wrong(elements.0.len())),
            Err(Unfit::Count(given)) => return Err(wrong(given)),
            Err(Unfit::Json(error)) => return Err(self.unreadable(&error)),
            Err(Unfit::Shape) => return Err(self.unfit(Shortened(value.get()))),
        };
        self.named(order.iter().map(String::as_str).zip(elements))
    }

    /// Probabilities of some of the options; of one that is named twice the last.
    fn named<'v>(self, values: impl Iterator<Item = (&'v str, &'v RawValue)>) -> Result<Vec<f64>, String> {
        let mut places = HashMap::with_capacity(self.options.len());
        for (index, option) in self.options.iter().enumerate() {
            places.entry(option.as_str()).or_insert(index);
        }
        let mut target = vec![0.0; self.options.len()];
        for (key, value) in values {
            let index = places.get(key).ok_or_else(|| {
                format!(
                    "gold of question \"{}\" names option \"{}\"; {}",
                    Shortened(self.id),
                    Shortened(key),
                    self.choices()
                )
            })?;
            target[*index] = self.probability(value)?;
        }
        self.normalised(target)
    }

    fn probability(self, value: &RawValue) -> Result<f64, String> {
        number(value).filter(|probability| (0.0..=1.0).contains(probability)).ok_or_else(|| {
            format!(
                "gold of question \"{}\" has the probability {}; it must be a number from 0 to 1",
                Shortened(self.id),
                Shortened(value.get())
            )
        })
    }

    fn normalised(self, mut target: Vec<f64>) -> Result<Vec<f64>, String> {
        let sum: f64 = target.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(format!(
                "gold of question \"{}\" has probabilities that sum to {sum}, not to 1",
                Shortened(self.id)
            ));
        }
        target.iter_mut().for_each(|probability| *probability /= sum);
        Ok(target)
    }

    fn unfit(self, shown: impl fmt::Display) -> String {
        format!("gold of question \"{}\" is {shown}; {}", Shortened(self.id), self.choices())
    }

    fn unreadable(self, error: &serde_json::Error) -> String {
        format!("gold of question \"{}\" cannot be read: {}", Shortened(self.id), said(error))
    }

    fn names_too_many(self, count: usize) -> String {
        let (id, count) = (Shortened(self.id), Grouped(count));
        format!("gold of question \"{id}\" names {count} options, the limit is {MAX_OPTIONS}")
    }

    /// What may stand there.
    fn choices(self) -> String {
        match self.kind {
            QuestionKind::Noul => "it is answered by true, false, or the probability of true".to_owned(),
            QuestionKind::Score => {
                format!("it is answered by a level from 0 to {}", self.options.len().saturating_sub(1))
            }
            QuestionKind::Choice => {
                let shown = self.options.iter().take(LISTED_OPTIONS);
                let mut listed: Vec<String> = shown.map(|option| format!("\"{}\"", Shortened(option))).collect();
                if self.options.len() > LISTED_OPTIONS {
                    listed.push(format!("{} more", self.options.len() - LISTED_OPTIONS));
                }
                format!("its options are {}", listed.join(", "))
            }
        }
    }
}

fn noul(truth: f64) -> Vec<f64> {
    vec![truth, 1.0 - truth]
}
