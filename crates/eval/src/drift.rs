//! How far two sets of answers to the same requests are apart: a quant against another file, a version against the next.
//!
//! `|dp|` is the absolute difference of one option's probability. The two options of a `noul` move by the same, so it
//! counts once. A question *flips* if its pick (the most probable option, the first of equals) is another one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clef_record::{Grouped, QuestionKind};
use serde::Serialize;

use crate::answer::Answer;
use crate::error::{Error, ErrorKind, Result};
use crate::outcome::{Outcome, Reply};
use crate::reasons::{Reason, markdown_list, markdown_title};
use crate::stats::{ascending, mean, percentile};
use crate::table::{Cell, Table, counted, one_line};

/// Who did not answer.
const SIDES: [&str; 3] = ["reference", "candidate", "both"];
const REFERENCE: usize = 0;
const CANDIDATE: usize = 1;
const BOTH: usize = 2;

/// One of the two runs that are compared.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Whose answers they are.
    pub subject: &'a str,
    /// All outcomes of the run, in the order of the data file.
    pub outcomes: &'a [Outcome],
}

/// How far two runs are apart. As JSON, fields have these names; later versions only add some.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drift {
    /// Whose answers the others are compared with.
    pub reference: String,
    /// Whose answers are compared.
    pub candidate: String,
    /// Records that both answered.
    pub records: u64,
    /// Records that one of them, or both, did not answer; they are in no other figure.
    pub unanswered: u64,
    /// Why, counted by side and kind, in the order of their first records.
    pub reasons: Vec<SideReason>,
    /// All questions.
    pub overall: Shift,
    /// For each question type that occurs: `noul`, `choice`, `score`.
    pub types: Vec<ShiftSlice>,
    /// The questions that moved most, the furthest first.
    pub worst: Vec<Moved>,
    /// Every `|dp|` by question type, each list ascending.
    #[serde(skip)]
    pub deltas: BTreeMap<QuestionKind, Vec<f64>>,
}

/// Records that one side, or both, did not answer for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SideReason {
    /// `reference`, `candidate`, or `both` if the reference's reason is the candidate's, too. Where both have one of their
    /// own, the record is counted with the reference's.
    pub side: &'static str,
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
}

/// By how much the answers to some questions moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shift {
    /// Questions compared.
    pub questions: u64,
    /// Options compared, a `noul` having one.
    pub options: u64,
    /// Mean `|dp|`.
    pub mean: Option<f64>,
    /// Median `|dp|`, by nearest rank.
    pub p50: Option<f64>,
    /// The 99th percentile of `|dp|`, by nearest rank.
    pub p99: Option<f64>,
    /// The largest `|dp|`.
    pub max: Option<f64>,
    /// Questions whose pick is another one.
    pub flips: u64,
    /// Their share of the questions.
    pub flip_rate: Option<f64>,
}

/// By how much the answers to questions of one type moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShiftSlice {
    /// The type.
    pub name: String,
    /// By how much.
    #[serde(flatten)]
    pub shift: Shift,
}

/// One question that moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moved {
    /// Where the record stands in the data file, from 1.
    pub line: u64,
    /// The record's id, if it has one.
    pub id: Option<String>,
    /// The question's id.
    pub question: String,
    /// The option that moved most, the first of equals.
    pub option: String,
    /// Its probability by the reference.
    pub reference: f64,
    /// Its probability by the candidate.
    pub candidate: f64,
    /// The `|dp|` of that option.
    pub delta: f64,
    /// The option picked by the reference.
    pub reference_pick: String,
    /// The option picked by the candidate.
    pub candidate_pick: String,
}

impl Drift {
    /// Compares a candidate with a reference. At most `worst` questions are named.
    ///
    /// # Errors
    /// Of kind [`Mismatch`](ErrorKind::Mismatch) if the runs are not over the same requests in the same order.
    pub fn between(reference: Side<'_>, candidate: Side<'_>, worst: usize) -> Result<Self> {
        let (left, right) = (reference.outcomes, candidate.outcomes);
        if left.len() != right.len() {
            let (left, right) = (counted(left.len() as u64, "record"), Grouped(right.len()));
            return Err(mismatch(&format!("one run has {left}, the other {right}")));
        }
        let mut kinds = BTreeMap::<QuestionKind, ShiftTally>::new();
        let (mut records, mut moved) = (0, Vec::new());
        let mut reasons = SIDES.map(|side| (side, Vec::new()));
        for (left, right) in left.iter().zip(right) {
            if (left.line, left.digest) != (right.line, right.digest) {
                return Err(mismatch(&format!(
                    "line {} of one run is not line {} of the other",
                    left.line, right.line
                )));
            }
            let (side, failure) = match (&left.reply, &right.reply) {
                (Ok(left_reply), Ok(right_reply)) => {
                    records += 1;
                    compare(left, left_reply, right_reply, &mut kinds, &mut moved);
                    continue;
                }
                (Err(left), Err(right)) if left.kind() == right.kind() => (BOTH, left),
                (Err(failure), _) => (REFERENCE, failure),
                (Ok(_), Err(failure)) => (CANDIDATE, failure),
            };
            Reason::count(&mut reasons[side].1, left, failure);
        }
        let of_side = |(side, reasons): (&'static str, Vec<Reason>)| {
            reasons.into_iter().map(move |reason| SideReason { side, reason })
        };
        let mut reasons: Vec<SideReason> = reasons.into_iter().flat_map(of_side).collect();
        reasons.sort_by_key(|reason| reason.reason.line);
        moved.sort_by(|left: &Moved, right: &Moved| right.delta.total_cmp(&left.delta));
        moved.truncate(worst);
        let mut overall = ShiftTally::default();
        kinds.values().for_each(|tally| overall.add(tally));
        let slice = |(kind, tally): (&QuestionKind, &ShiftTally)| ShiftSlice {
            name: kind.as_str().to_owned(),
            shift: tally.shift(),
        };
        Ok(Self {
            reference: reference.subject.to_owned(),
            candidate: candidate.subject.to_owned(),
            records,
            unanswered: left.len() as u64 - records,
            reasons,
            overall: overall.shift(),
            types: kinds.iter().map(slice).collect(),
            worst: moved,
            deltas: kinds.into_iter().map(|(kind, tally)| (kind, ascending(tally.deltas))).collect(),
        })
    }

    /// For a terminal: aligned columns, then why records have no answers, then the questions that moved most.
    pub fn to_text(&self) -> String {
        let (reference, candidate) = (one_line(&self.reference, 100), one_line(&self.candidate, 100));
        let mut text = format!("{candidate}\nagainst {reference}: {}\n\n{}", self.counts(), self.table().to_text());
        if !self.reasons.is_empty() {
            text.push_str("\nwithout both answers:\n");
        }
        for reason in &self.reasons {
            let _ = writeln!(text, "  {}", reason.to_line());
        }
        if !self.worst.is_empty() {
            let _ = write!(text, "\nquestions that moved most\n{}", self.worst_table().to_text());
        }
        text
    }

    /// For a document: the same title, tables and reasons.
    pub fn to_markdown(&self) -> String {
        let title = format!("{} against {}: {}", self.candidate, self.reference, self.counts());
        let mut text = markdown_title(&title) + &self.table().to_markdown();
        text += &markdown_list(self.reasons.iter().map(SideReason::to_line));
        if !self.worst.is_empty() {
            let _ = write!(text, "\nQuestions that moved most:\n\n{}", self.worst_table().to_markdown());
        }
        text
    }

    /// How many records were compared, and how many not.
    fn counts(&self) -> String {
        let compared = counted(self.records, "record");
        match self.unanswered {
            0 => compared,
            more => format!("{compared}, {} more without both answers", Grouped(more as usize)),
        }
    }

    /// All of it, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("differences are finite numbers and strings") + "\n"
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "",
            "questions",
            "options",
            "mean |dp|",
            "p50 |dp|",
            "p99 |dp|",
            "max |dp|",
            "flips",
            "flip rate",
        ]);
        let mut row = |name: &str, shift: &Shift| {
            table.row(vec![
                Cell::name(name),
                Cell::count(shift.questions),
                Cell::count(shift.options),
                Cell::scientific(shift.mean),
                Cell::scientific(shift.p50),
                Cell::scientific(shift.p99),
                Cell::scientific(shift.max),
                Cell::count(shift.flips),
                Cell::number(shift.flip_rate, 4),
            ]);
        };
        row("all", &self.overall);
        self.types.iter().for_each(|slice| row(&slice.name, &slice.shift));
        table
    }

    fn worst_table(&self) -> Table {
        let mut table = Table::new(&["record", "line", "question", "option", "reference", "candidate", "|dp|", "flip"]);
        for moved in &self.worst {
            let flip = match moved.is_flip() {
                true => format!("{} -> {}", moved.reference_pick, moved.candidate_pick),
                false => String::new(),
            };
            table.row(vec![
                Cell::name(moved.id.as_deref().unwrap_or_default()),
                Cell::name(&moved.line.to_string()),
                Cell::name(&moved.question),
                Cell::name(&moved.option),
                Cell::number(Some(moved.reference), 4),
                Cell::number(Some(moved.candidate), 4),
                Cell::number(Some(moved.delta), 4),
                Cell::name(&flip),
            ]);
        }
        table
    }
}

impl SideReason {
    fn to_line(&self) -> String {
        format!("{}: {}", self.side, self.reason.to_line())
    }
}

impl Moved {
    /// Whether the pick is another one.
    pub fn is_flip(&self) -> bool {
        self.reference_pick != self.candidate_pick
    }
}

/// Counts the questions of one record.
fn compare(
    outcome: &Outcome,
    reference: &Reply,
    candidate: &Reply,
    kinds: &mut BTreeMap<QuestionKind, ShiftTally>,
    moved: &mut Vec<Moved>,
) {
    for (left, right) in reference.answers.iter().zip(&candidate.answers) {
        let tally = kinds.entry(left.kind).or_default();
        let deltas = deltas(left, right);
        let mut furthest = 0;
        for (index, &delta) in deltas.iter().enumerate() {
            if delta > deltas[furthest] {
                furthest = index;
            }
        }
        let question = Moved {
            line: outcome.line,
            id: outcome.id.clone(),
            question: left.question.clone(),
            option: left.options[furthest].clone(),
            reference: left.probabilities[furthest],
            candidate: right.probabilities[furthest],
            delta: deltas[furthest],
            reference_pick: left.options[left.pick()].clone(),
            candidate_pick: right.options[right.pick()].clone(),
        };
        tally.questions += 1;
        tally.flips += u64::from(question.is_flip());
        tally.deltas.extend(deltas);
        if question.delta > 0.0 {
            moved.push(question);
        }
    }
}

/// The `|dp|` of each option; of a `noul`, of `true` alone.
fn deltas(left: &Answer, right: &Answer) -> Vec<f64> {
    let counted = if left.kind == QuestionKind::Noul { 1 } else { left.probabilities.len() };
    left.probabilities
        .iter()
        .zip(&right.probabilities)
        .take(counted)
        .map(|(left, right)| (left - right).abs())
        .collect()
}

#[derive(Debug, Default)]
struct ShiftTally {
    questions: u64,
    flips: u64,
    deltas: Vec<f64>,
}

impl ShiftTally {
    fn add(&mut self, other: &Self) {
        self.questions += other.questions;
        self.flips += other.flips;
        self.deltas.extend_from_slice(&other.deltas);
    }

    fn shift(&self) -> Shift {
        let sorted = ascending(self.deltas.clone());
        Shift {
            questions: self.questions,
            options: sorted.len() as u64,
            mean: mean(self.deltas.iter().copied()),
            p50: percentile(&sorted, 50),
            p99: percentile(&sorted, 99),
            max: sorted.last().copied(),
            flips: self.flips,
            flip_rate: (self.questions > 0).then(|| self.flips as f64 / self.questions as f64),
        }
    }
}

fn mismatch(what: &str) -> Error {
    Error::new(ErrorKind::Mismatch, format_args!("the runs are not over the same requests: {what}"))
}
