//! The request after every rule was checked.
//!
//! A `Record` holds texts, not values: whatever JSON the client put in `state`, `instructions` or a description was
//! already rendered to what the model reads, because that text is all that anything downstream needs and it is a
//! fraction of a value tree's size.

use std::sync::Arc;

use crate::attachment::{Image, Video};
use crate::error::RecordError;
use crate::parse;

/// What a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuestionKind {
    /// True or false.
    Noul,
    /// One of up to 255 named options.
    Choice,
    /// A level on an ordered scale.
    Score,
}

impl QuestionKind {
    /// The name in requests, responses and prompts: `noul`, `choice`, `score`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Noul => "noul",
            Self::Choice => "choice",
            Self::Score => "score",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "noul" => Some(Self::Noul),
            "choice" => Some(Self::Choice),
            "score" => Some(Self::Score),
            _ => None,
        }
    }
}

/// What happens to a state that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncate {
    /// The record is refused.
    #[default]
    None,
    /// The state's end is cut off, as the reference does.
    End,
}

/// A decision request.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The model name the client sent, if any; the loaded model answers whatever it says.
    pub model: Option<String>,
    /// The state as the model reads it: a string as it is, any other value as canonical JSON, without the parts of
    /// messages that are pictures. Here and in every other text, an asset's placeholder reads `image N`: the place of its
    /// picture in `images`, from 1.
    pub state: String,
    /// The pictures, which the model is shown before the state, in this order: those of the field `images`, then those
    /// that are parts of the state, then the assets.
    pub images: Vec<Image>,
    /// The videos, which the model is shown after the pictures, in this order.
    pub videos: Vec<Video>,
    /// The questions in request order; never empty.
    pub questions: Vec<Question>,
    /// Lowers the limit on tokens for this record; at least 1.
    pub max_length: Option<usize>,
    /// Cuts the state to this many tokens.
    pub max_state_tokens: Option<usize>,
    /// What happens to a state that does not fit.
    pub truncate: Truncate,
}

/// One question of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The key under `questions`, and under `answers` in the response.
    pub id: String,
    /// What the question asks for.
    pub kind: QuestionKind,
    /// The instruction as the model reads it; the id when the request's is missing, null or `""`. Never empty.
    pub instruction: String,
    /// The options in request order (score: levels from 0; noul: true, then false). Never empty.
    pub options: Vec<QuestionOption>,
}

/// One option of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionOption {
    /// The option's name: the request's key, the level's number, `true` or `false`.
    pub key: String,
    /// Canonical JSON `{"description":...,"option_id":...}`; the description is left out when null.
    pub text: String,
    /// Score only: the JSON text that the response's legend repeats.
    pub legend: Option<String>,
}

impl Question {
    /// Option indices in the order the prompt lists them: `choice` by key in code-point order, others as they are.
    ///
    /// This is what makes an answer independent of the order in which a client lists its options.
    pub fn prompt_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.options.len()).collect();
        if self.kind == QuestionKind::Choice {
            order.sort_by(|&left, &right| self.options[left].key.cmp(&self.options[right].key));
        }
        order
    }
}

/// Which limits hold when a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Takes what the reference takes and the API refuses: a null state, any number of options, 1 or more levels.
    /// For comparisons with the reference only.
    pub reference_limits: bool,
    /// The most questions of a record. The default, 32,768, needs more than a million tokens.
    pub max_questions: usize,
    /// The most options of all questions of a record together. The default, 131,072, needs more than a million tokens.
    pub max_options: usize,
    /// The most pictures of a record, wherever in the body they stand; 8 by default.
    pub max_images: usize,
    /// The most videos of a record; 8 by default.
    pub max_videos: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self { reference_limits: false, max_questions: 32_768, max_options: 131_072, max_images: 8, max_videos: 8 }
    }
}

impl Record {
    /// Reads a request body by the API's rules.
    ///
    /// Beside the body, memory stays under three times its size plus a fixed allowance of some 40 MiB for the options
    /// that [`Rules::max_options`] admits, whatever the body holds. The text of a picture is copied once, into the record.
    /// Fields may come in any order.
    ///
    /// # Errors
    /// A body that is not JSON is refused before any rule is looked at; after that the first problem in document order
    /// is reported. See [`RecordErrorKind`](crate::RecordErrorKind); never of kind `Logits`.
    pub fn parse(body: &[u8]) -> Result<Self, RecordError> {
        Self::parse_with(body, &Rules::default())
    }

    /// Reads a request body by the given rules.
    ///
    /// # Errors
    /// As [`Record::parse`].
    pub fn parse_with(body: &[u8], rules: &Rules) -> Result<Self, RecordError> {
        parse::parse(body, rules, None)
    }

    /// Reads a request body along with which files came: those that its assets name as `part`.
    ///
    /// `file` finds one by its name. It is asked once for each asset that names one.
    ///
    /// # Errors
    /// As [`Record::parse`].
    pub fn parse_with_files(
        body: &[u8],
        rules: &Rules,
        file: &dyn Fn(&str) -> Option<Arc<[u8]>>,
    ) -> Result<Self, RecordError> {
        parse::parse(body, rules, Some(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_options_are_prompted_in_code_point_order() {
        let keys = ["zebra", "\u{10000}", "Apple", "\u{ffff}", "apple", ""];
        let question = Question {
            id: "q".to_owned(),
            kind: QuestionKind::Choice,
            instruction: "q".to_owned(),
            options: keys.map(|key| QuestionOption { key: key.to_owned(), text: String::new(), legend: None }).into(),
        };
        assert_eq!(question.prompt_order(), [5, 2, 4, 0, 3, 1]);
    }
}
