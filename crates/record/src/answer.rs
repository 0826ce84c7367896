//! What a model's logits mean.
//!
//! The head returns one logit per option in prompt order; a client asked in request order and wants probabilities, a
//! pick, a score, and how sure it is. The softmax sums in prompt order, so that listing a choice's options in another
//! order gives the same bits.

use crate::error::RecordError;
use crate::prompt::{Prompt, PromptQuestion};
use crate::record::{Question, QuestionKind, Record};
use crate::text::Shortened;
use crate::wire;

/// The answers to all questions of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// One answer per question, in request order.
    pub answers: Vec<Answer>,
    /// Tokens of the prompt.
    pub input_tokens: usize,
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The question's id.
    pub id: String,
    /// The options in request order.
    pub options: Vec<AnswerOption>,
    /// What the question's kind makes of the probabilities.
    pub value: AnswerValue,
}

/// One option's part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerOption {
    /// The option's name.
    pub key: String,
    /// From 0 to 1; the options of a question sum to 1 within 1e-6.
    pub probability: f64,
    /// Score only: the JSON text of the level as the client sent it.
    pub legend: Option<String>,
}

/// What a question's kind makes of its options' probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnswerValue {
    /// For `noul`.
    Noul {
        /// The probability of true.
        noul: f64,
    },
    /// For `choice`.
    Choice {
        /// Request index of the most probable option, the first of equals.
        index: usize,
        /// 0 when all options are equally probable, 1 when one is certain.
        confidence: f64,
    },
    /// For `score`.
    Score {
        /// The expected level, from 0 to the number of levels less one.
        score: f64,
        /// 1 when one level is certain, 0 when the levels spread around the likeliest as evenly as they can.
        confidence: f64,
    },
}

impl Answer {
    /// What the question asked for.
    pub fn kind(&self) -> QuestionKind {
        match self.value {
            AnswerValue::Noul { .. } => QuestionKind::Noul,
            AnswerValue::Choice { .. } => QuestionKind::Choice,
            AnswerValue::Score { .. } => QuestionKind::Score,
        }
    }

    /// The options' probabilities in request order.
    pub fn probabilities(&self) -> impl ExactSizeIterator<Item = f64> {
        self.options.iter().map(|option| option.probability)
    }

    /// The probability of true, for `noul`.
    pub fn noul(&self) -> Option<f64> {
        match self.value {
            AnswerValue::Noul { noul } => Some(noul),
            _ => None,
        }
    }

    /// The request index of the option picked, for `choice`.
    pub fn choice(&self) -> Option<usize> {
        match self.value {
            AnswerValue::Choice { index, .. } => Some(index),
            _ => None,
        }
    }

    /// The option picked, for `choice`.
    pub fn picked(&self) -> Option<&AnswerOption> {
        self.choice().and_then(|index| self.options.get(index))
    }

    /// The expected level, for `score`.
    pub fn score(&self) -> Option<f64> {
        match self.value {
            AnswerValue::Score { score, .. } => Some(score),
            _ => None,
        }
    }

    /// How sure the answer is, from 0 to 1, for `choice` and `score`.
    pub fn confidence(&self) -> Option<f64> {
        match self.value {
            AnswerValue::Noul { .. } => None,
            AnswerValue::Choice { confidence, .. } | AnswerValue::Score { confidence, .. } => Some(confidence),
        }
    }
}

impl Decision {
    /// Makes answers of a model's logits: one list per question, each in the question's prompt order.
    ///
    /// # Errors
    /// Of kind [`Logits`](crate::RecordErrorKind::Logits) if a count differs from the record's, if a logit is NaN or
    /// infinite, or if the prompt is of another record. All questions are answered or none.
    pub fn from_logits(record: &Record, prompt: &Prompt, logits: &[Vec<f32>]) -> Result<Self, RecordError> {
        let expected = record.questions.len();
        if prompt.questions.len() != expected || logits.len() != expected {
            return Err(RecordError::logits(format!(
                "the model answered {} questions, the prompt has {} and the record {expected}",
                logits.len(),
                prompt.questions.len()
            )));
        }
        let questions = record.questions.iter().zip(&prompt.questions).zip(logits);
        let answers = questions
            .map(|((question, prompted), logits)| answer(question, prompted, logits))
            .collect::<Result<_, _>>()?;
        Ok(Self { answers, input_tokens: prompt.tokens.len() })
    }

    /// The answer to the question of this id.
    pub fn answer(&self, id: &str) -> Option<&Answer> {
        self.answers.iter().find(|answer| answer.id == id)
    }

    /// The response body, compact. `model` is the name to report.
    pub fn to_json(&self, model: &str) -> String {
        wire::write(self, model, None)
    }

    /// The response body, indented by two spaces.
    pub fn to_json_pretty(&self, model: &str) -> String {
        wire::write(self, model, Some("  "))
    }
}

fn answer(question: &Question, prompted: &PromptQuestion, logits: &[f32]) -> Result<Answer, RecordError> {
    let count = question.options.len();
    let fault = |what: String| RecordError::logits(format!("question \"{}\": {what}", Shortened(&question.id)));
    if prompted.options.len() != count || logits.len() != count || count == 0 {
        return Err(fault(format!(
            "the model returned {} logits, the prompt has {} options and the question {count}",
            logits.len(),
            prompted.options.len()
        )));
    }
    if let Some(bad) = logits.iter().find(|logit| !logit.is_finite()) {
        return Err(fault(format!("the model returned the logit {bad}")));
    }
    let mut placed = vec![None; count];
    for (option, probability) in prompted.options.iter().zip(softmax(logits)) {
        if let Some(place) = placed.get_mut(option.request_index) {
            *place = Some(probability);
        }
    }
    let probabilities: Vec<f64> = placed
        .into_iter()
        .collect::<Option<_>>()
        .ok_or_else(|| fault("the prompt's options are not the question's".to_owned()))?;
    let value = match question.kind {
        QuestionKind::Noul => AnswerValue::Noul { noul: probabilities[0] },
        QuestionKind::Choice => choice(&probabilities),
        QuestionKind::Score => score(&probabilities),
    };
    let options = question.options.iter().zip(probabilities);
    Ok(Answer {
        id: question.id.clone(),
        options: options
            .map(|(option, probability)| AnswerOption {
                key: option.key.clone(),
                probability,
                legend: option.legend.clone(),
            })
            .collect(),
        value,
    })
}

/// Probabilities of finite logits. One that vanishes beside 1 in a double is 0, so that it also prints so.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit) - f64::from(largest)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let vanishing = f64::EPSILON / 2.0;
    weights
        .into_iter()
        .map(|weight| weight / sum)
        .map(|probability| if probability < vanishing { 0.0 } else { probability })
        .collect()
}

fn first_largest(probabilities: &[f64]) -> usize {
    let mut largest = 0;
    for (index, &probability) in probabilities.iter().enumerate() {
        if probability > probabilities[largest] {
            largest = index;
        }
    }
    largest
}

fn choice(probabilities: &[f64]) -> AnswerValue {
    let index = first_largest(probabilities);
    let even = 1.0 / probabilities.len() as f64;
    let confidence = if probabilities.len() == 1 { 1.0 } else { unit((probabilities[index] - even) / (1.0 - even)) };
    AnswerValue::Choice { index, confidence }
}

fn score(probabilities: &[f64]) -> AnswerValue {
    let count = probabilities.len() as f64;
    let mode = first_largest(probabilities) as f64;
    let middle = (count - 1.0) / 2.0;
    let levels = || (0..probabilities.len()).map(|level| level as f64);
    let expect = |value: &dyn Fn(f64) -> f64| -> f64 {
        levels().zip(probabilities).map(|(level, probability)| value(level) * probability).sum()
    };
    let spread = expect(&|level| (level - mode).abs());
    let even_spread = levels().map(|level| (level - middle).abs()).sum::<f64>() / count;
    let confidence = if probabilities.len() == 1 { 1.0 } else { unit(1.0 - spread / even_spread) };
    AnswerValue::Score { score: expect(&|level| level), confidence }
}

/// Into 0..=1, which rounding may leave by a hair; never the negative zero.
fn unit(value: f64) -> f64 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }

    #[test]
    fn probabilities_sum_to_one_and_vanish_to_zero() {
        let even = softmax(&[3.5; 7]);
        assert_close(even.iter().sum(), 1.0, 1e-12);
        assert_eq!(softmax(&[0.0, 1000.0, -1e30]), [0.0, 1.0, 0.0]);
        assert_eq!(softmax(&[f32::MAX, f32::MIN]), [1.0, 0.0]);
        let many: Vec<f32> = (0..255).map(|index| -(index as f32)).collect();
        assert_close(softmax(&many).iter().sum(), 1.0, 1e-12);
    }

    #[test]
    fn one_option_is_certain() {
        let AnswerValue::Choice { index, confidence } = choice(&[1.0]) else { panic!() };
        assert_eq!((index, confidence), (0, 1.0));
        assert_eq!(score(&[1.0]), AnswerValue::Score { score: 0.0, confidence: 1.0 });
    }

    #[test]
    fn equal_options_pick_the_first_without_confidence() {
        assert_eq!(choice(&[0.25; 4]), AnswerValue::Choice { index: 0, confidence: 0.0 });
        assert_eq!(choice(&[0.2, 0.4, 0.4]).index(), 1);
    }

    #[test]
    fn a_score_between_the_ends_is_not_confident() {
        assert_eq!(score(&[0.5, 0.0, 0.5]), AnswerValue::Score { score: 1.0, confidence: 0.0 });
        let AnswerValue::Score { score, confidence } = score(&[0.1, 0.7, 0.2]) else { panic!() };
        assert_close(score, 1.1, 1e-12);
        // D = 2/3 for three levels; 1 - 0.3 / (2/3).
        assert_close(confidence, 0.55, 1e-12);
    }

    impl AnswerValue {
        fn index(self) -> usize {
            match self {
                Self::Choice { index, .. } => index,
                _ => panic!("not a choice"),
            }
        }
    }
}
