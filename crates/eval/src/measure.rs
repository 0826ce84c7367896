//! The measures, and exactly what each of them is.
//!
//! **What is counted.** Every question of an answered record that has a gold answer. A gold answer is a *target*, a
//! probability `y` for each option; a plain label is 1 for one option. An answer is a probability `p` for each option;
//! its *pick* is the most probable option, the first of equals in request order (`true` before `false`).
//!
//! A question is *decided* if one option has the largest target, alone, and that target is at least
//! [`min_certainty`](MeasureOptions::min_certainty). Its *label* is that option. A label between two levels, or a panel
//! split in halves, decides nothing, but is still a target.
//!
//! **Accuracy**, over decided questions: the share whose pick is the label.
//! `right / decided`
//!
//! **Macro-F1**, over decided `noul` and `choice` questions: the mean over question ids of the mean over their classes of F1.
//! `F1 = 2 TP / (2 TP + FP + FN)`, with true positives, false positives and false negatives of a class.
//!
//! **Exact match**, over records with a decided question: the share whose decided questions are all right.
//! `records all right / records with a decided question`
//!
//! **Score error**, over `score` questions: the mean distance between the expected levels, in levels.
//! `mean of |sum over levels i of i * p_i - sum over levels i of i * y_i|`
//!
//! **Brier score**, over all questions: the mean squared distance, from 0 to 2; for a `noul`, twice the one-sided one.
//! `mean of (sum over options of (p - y)^2)`
//!
//! **ECE**, the expected calibration error, over decided questions in 15 [bins](MeasureOptions::bins) of equal width by
//! confidence, the probability of the pick: `sum over bins b of n_b / n * |share right in b - mean confidence in b|`
//!
//! **Latency**, p50 and p95, over answered records: nearest-rank percentiles of the time from asking to having the answer.
//! `p_q = the smallest latency that at least q % of the latencies do not exceed`
//!
//! **Classes of macro-F1.** Per question id: each option that is the label or the pick of at least one counted question is
//! a class. So an option that is picked and never right has F1 0 and counts; one that neither occurs nor is picked does not
//! (the default of scikit-learn's `f1_score(average="macro")`). A `noul` has the classes `true` and `false`. Each id has the
//! same weight. It means little where an id has few questions.
//!
//! **Bins of ECE.** They part 0 to 1, each without its lower and with its upper end (the first has both). `n_b` of `n`
//! questions are in bin b; empty bins add nothing.
//!
//! **Slices.** The same for each question type, group and question id: each looks only at its own questions, so an exact
//! match of a group is over that group's questions of a record. A record belongs to every slice that one of its questions
//! is in, with its latency, or as an error.
//!
//! **Errors** (records without answers) are counted and are in no other measure. What has nothing to be computed over is
//! absent (`null` in JSON), never 0. All sums are of doubles in the order of the records.

use std::collections::BTreeMap;

use clef_record::QuestionKind;
use serde::Serialize;

use crate::answer::Answer;
use crate::gold::Gold;
use crate::outcome::Outcome;
use crate::stats::{ascending, mean, percentile};

/// How answers are measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasureOptions {
    /// The number of bins of the calibration error, at least 1. 15 by default.
    pub bins: usize,
    /// The smallest target that makes an option the label, from 0 to 1. 0 by default: the largest does. For programs that
    /// count only what a panel of readers was sure of; it has no option of a command line.
    pub min_certainty: f64,
}

impl Default for MeasureOptions {
    fn default() -> Self {
        Self { bins: 15, min_certainty: 0.0 }
    }
}

/// The measures of all records, or of a slice of their questions. See the [module](self) for what each is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measures {
    /// Records, with and without an answer.
    pub records: u64,
    /// Records without an answer.
    pub errors: u64,
    /// Questions with a gold answer, of answered records.
    pub questions: u64,
    /// Those of them whose gold answer is one option.
    pub decided: u64,
    /// From 0 to 1.
    pub accuracy: Option<f64>,
    /// From 0 to 1.
    pub macro_f1: Option<f64>,
    /// From 0 to 1.
    pub exact_match: Option<f64>,
    /// In levels.
    pub score_error: Option<f64>,
    /// From 0 to 2.
    pub brier: Option<f64>,
    /// The expected calibration error, from 0 to 1.
    pub ece: Option<f64>,
    /// In milliseconds.
    pub latency_p50_ms: Option<f64>,
    /// In milliseconds.
    pub latency_p95_ms: Option<f64>,
    /// The bins of the calibration error, in ascending order, empty ones included.
    pub reliability: Vec<Bin>,
}

/// The answers whose confidence lies in one range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bin {
    /// Confidences above this; in the first bin also this one.
    pub above: f64,
    /// Confidences up to this.
    pub up_to: f64,
    /// How many there are.
    pub count: u64,
    /// Their mean confidence; absent without any.
    pub confidence: Option<f64>,
    /// The share that is right; absent without any.
    pub accuracy: Option<f64>,
}

/// Counts a record's answers into the measures of one slice.
#[derive(Debug)]
pub(crate) struct Tally {
    options: MeasureOptions,
    records: u64,
    errors: u64,
    right: Vec<f64>,
    exact: Vec<f64>,
    score_errors: Vec<f64>,
    briers: Vec<f64>,
    latencies_ms: Vec<f64>,
    classes: BTreeMap<String, BTreeMap<String, Class>>,
    bins: Vec<BinSums>,
}

/// How often an option was picked and right, picked and wrong, right and not picked.
#[derive(Debug, Default)]
struct Class {
    true_positives: u64,
    false_positives: u64,
    false_negatives: u64,
}

#[derive(Debug, Clone, Default)]
struct BinSums {
    count: u64,
    confidence: f64,
    right: u64,
}

impl Tally {
    pub(crate) fn new(options: MeasureOptions) -> Self {
        let options = MeasureOptions { bins: options.bins.max(1), ..options };
        Self {
            options,
            records: 0,
            errors: 0,
            right: Vec::new(),
            exact: Vec::new(),
            score_errors: Vec::new(),
            briers: Vec::new(),
            latencies_ms: Vec::new(),
            classes: BTreeMap::new(),
            bins: vec![BinSums::default(); options.bins],
        }
    }

    /// Counts a record, of whose questions those are in this slice for whose index `is_in` says so.
    pub(crate) fn add(&mut self, outcome: &Outcome, is_in: impl Fn(usize) -> bool) {
        self.records += 1;
        let Ok(reply) = &outcome.reply else {
            self.errors += 1;
            return;
        };
        self.latencies_ms.push(reply.latency_ms);
        let (mut decided, mut all_right) = (false, true);
        for (index, (question, answer)) in outcome.questions.iter().zip(&reply.answers).enumerate() {
            let Some(gold) = question.gold.as_ref().filter(|_| is_in(index)) else { continue };
            if let Some(is_right) = self.question(answer, gold) {
                decided = true;
                all_right &= is_right;
            }
        }
        if decided {
            self.exact.push(f64::from(u8::from(all_right)));
        }
    }

    /// Counts a question; whether its pick is right, if it is decided.
    fn question(&mut self, answer: &Answer, gold: &Gold) -> Option<bool> {
        let squares = answer.probabilities.iter().zip(gold.target()).map(|(p, y)| (p - y) * (p - y));
        self.briers.push(squares.sum());
        if answer.kind == QuestionKind::Score {
            self.score_errors.push((answer.level() - gold.level()).abs());
        }
        let label = gold.label().filter(|_| gold.certainty() >= self.options.min_certainty)?;
        let pick = answer.pick();
        let is_right = pick == label;
        self.right.push(f64::from(u8::from(is_right)));
        let bin = &mut self.bins[bin_of(answer.confidence(), self.options.bins)];
        bin.count += 1;
        bin.confidence += answer.confidence();
        bin.right += u64::from(is_right);
        if answer.kind != QuestionKind::Score {
            let classes = self.classes.entry(answer.question.clone()).or_default();
            let labelled = classes.entry(answer.options[label].clone()).or_default();
            if is_right {
                labelled.true_positives += 1;
            } else {
                labelled.false_negatives += 1;
                classes.entry(answer.options[pick].clone()).or_default().false_positives += 1;
            }
        }
        Some(is_right)
    }

    pub(crate) fn finish(self) -> Measures {
        let count = self.bins.iter().map(|bin| bin.count).sum::<u64>() as f64;
        let gap = |bin: &BinSums| (bin.right as f64 - bin.confidence).abs() / count;
        let latencies_ms = ascending(self.latencies_ms);
        let (questions, decided) = (self.briers.len() as u64, self.right.len() as u64);
        Measures {
            records: self.records,
            errors: self.errors,
            questions,
            decided,
            accuracy: mean(self.right),
            macro_f1: mean(self.classes.values().filter_map(|classes| mean(classes.values().map(Class::f1)))),
            exact_match: mean(self.exact),
            score_error: mean(self.score_errors),
            brier: mean(self.briers),
            ece: (decided > 0).then(|| self.bins.iter().map(gap).sum()),
            latency_p50_ms: percentile(&latencies_ms, 50),
            latency_p95_ms: percentile(&latencies_ms, 95),
            reliability: bins(&self.bins),
        }
    }
}

impl Class {
    fn f1(&self) -> f64 {
        let both = (2 * self.true_positives) as f64;
        both / (both + (self.false_positives + self.false_negatives) as f64)
    }
}

/// The bin of a confidence: the first whose upper end it does not exceed.
fn bin_of(confidence: f64, bins: usize) -> usize {
    let mut bin = ((confidence * bins as f64) as usize).min(bins - 1);
    // The product may be rounded across an end; the ends themselves are what is stated.
    while bin > 0 && confidence <= upper_end(bin - 1, bins) {
        bin -= 1;
    }
    while bin + 1 < bins && confidence > upper_end(bin, bins) {
        bin += 1;
    }
    bin
}

fn upper_end(bin: usize, bins: usize) -> f64 {
    (bin + 1) as f64 / bins as f64
}

fn bins(sums: &[BinSums]) -> Vec<Bin> {
    let end = |index: usize| index as f64 / sums.len() as f64;
    let bin = |(index, sums): (usize, &BinSums)| {
        let share = |sum: f64| (sums.count > 0).then(|| sum / sums.count as f64);
        Bin {
            above: end(index),
            up_to: end(index + 1),
            count: sums.count,
            confidence: share(sums.confidence),
            accuracy: share(sums.right as f64),
        }
    };
    sums.iter().enumerate().map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_has_its_upper_end_and_not_its_lower() {
        for bins in [1, 2, 3, 7, 10, 15, 100] {
            assert_eq!(bin_of(0.0, bins), 0);
            for bin in 0..bins {
                assert_eq!(bin_of(upper_end(bin, bins), bins), bin, "the upper end of bin {bin} of {bins}");
                let next = (bin + 1).min(bins - 1);
                assert_eq!(bin_of(upper_end(bin, bins).next_up(), bins), next, "just above bin {bin} of {bins}");
            }
        }
    }
}
