//! The measures of a run, sliced, and how they are shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clef_record::{Grouped, QuestionKind};
use serde::Serialize;

use crate::case::Question;
use crate::measure::{MeasureOptions, Measures, Tally};
use crate::outcome::{Outcome, place};
use crate::reasons::{MESSAGE_CELLS, Reason, markdown_list, markdown_title};
use crate::stats::ascending;
use crate::table::{Cell, Table, one_line};

/// The most failures that a text lists beside the first of each reason.
const LISTED_FAILURES: usize = 10;

/// How well the questions of a data file were answered. As JSON, fields have these names; later versions only add some.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Whose answers they are, and to what.
    pub subject: String,
    /// The number of bins of the calibration error.
    pub bins: usize,
    /// The smallest target that made an option the label. 0, for the largest whatever it is, unless whoever called
    /// [`Evaluation::of`] wanted another; no option of a command line sets it.
    pub min_certainty: f64,
    /// All records.
    pub overall: Measures,
    /// For each question type that occurs: `noul`, `choice`, `score`.
    pub types: Vec<Slice>,
    /// For each group, by name.
    pub groups: Vec<Slice>,
    /// For each question id, by name.
    pub questions: Vec<Slice>,
    /// Why records have no answer, counted by kind, in the order of their first records.
    pub reasons: Vec<Reason>,
    /// Records without an answer, in the order of the data file.
    pub failures: Vec<FailedRecord>,
    /// The latency of every answered record in milliseconds, ascending.
    #[serde(skip)]
    pub latencies_ms: Vec<f64>,
}

/// The measures of some of the questions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slice {
    /// The type, the group or the question id.
    pub name: String,
    /// The measures.
    #[serde(flatten)]
    pub measures: Measures,
}

/// A record without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedRecord {
    /// Where it stands in the data file, from 1.
    pub line: u64,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// `line` for a line that cannot be used, or a [kind](crate::AnswerErrorKind::as_str) of answer error.
    pub kind: &'static str,
    /// One line for people.
    pub message: String,
}

/// How far a text goes into detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// All, by type, by group.
    #[default]
    Groups,
    /// Also by question id.
    Questions,
}

impl Evaluation {
    /// Measures what a run brought. `subject` says whose answers they are, and to what, for titles.
    pub fn of(subject: &str, outcomes: &[Outcome], options: &MeasureOptions) -> Self {
        let mut overall = Tally::new(*options);
        let mut types = Slices::default();
        let mut groups = Slices::default();
        let mut questions = Slices::default();
        let mut reasons = Vec::new();
        for outcome in outcomes {
            overall.add(outcome, |_| true);
            if let Err(failure) = &outcome.reply {
                Reason::count(&mut reasons, outcome, failure);
            }
            types.add(outcome, options, |question| vec![question.kind]);
            groups.add(outcome, options, |question| question.groups.iter().map(AsRef::as_ref).collect());
            questions.add(outcome, options, |question| vec![question.id.as_str()]);
        }
        let latencies = outcomes.iter().filter_map(|outcome| outcome.reply.as_ref().ok());
        Self {
            subject: subject.to_owned(),
            bins: options.bins.max(1),
            min_certainty: options.min_certainty,
            overall: overall.finish(),
            types: types.finish(QuestionKind::as_str),
            groups: groups.finish(|name| name),
            questions: questions.finish(|name| name),
            reasons,
            failures: outcomes.iter().filter_map(FailedRecord::of).collect(),
            latencies_ms: ascending(latencies.map(|reply| reply.latency_ms).collect()),
        }
    }

    /// For a terminal: aligned columns, groups as rows, then why records have no answer, and the first of them.
    pub fn to_text(&self, detail: Detail) -> String {
        let mut text = format!("{}\n\n{}", one_line(&self.subject, 120), self.table(detail).to_text());
        if !self.reasons.is_empty() {
            text.push_str("\nerrors:\n");
        }
        for reason in &self.reasons {
            let _ = writeln!(text, "  {}", reason.to_line());
        }
        // The first of each reason is above.
        let others: Vec<_> = self
            .failures
            .iter()
            .filter(|failure| self.reasons.iter().all(|reason| reason.line != failure.line))
            .collect();
        if !others.is_empty() {
            text.push_str("\nthe others:\n");
        }
        for failure in others.iter().take(LISTED_FAILURES) {
            let place = place(failure.line, failure.id.as_deref());
            let _ = writeln!(text, "  {place}: {}", one_line(&failure.message, MESSAGE_CELLS));
        }
        if others.len() > LISTED_FAILURES {
            let _ = writeln!(text, "  and {} more", Grouped(others.len() - LISTED_FAILURES));
        }
        text
    }

    /// For a document: the same title, table and reasons.
    pub fn to_markdown(&self, detail: Detail) -> String {
        let reasons = markdown_list(self.reasons.iter().map(Reason::to_line));
        markdown_title(&self.subject) + &self.table(detail).to_markdown() + &reasons
    }

    /// All of it, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("measures are finite numbers and strings") + "\n"
    }

    fn table(&self, detail: Detail) -> Table {
        let mut table = Table::new(&[
            "",
            "records",
            "errors",
            "questions",
            "accuracy",
            "macro-F1",
            "exact match",
            "score error",
            "Brier",
            "ECE",
            "p50 ms",
            "p95 ms",
        ]);
        table.row(row("all", &self.overall));
        let mut section = |title: &str, slices: &[Slice]| {
            if !slices.is_empty() {
                table.section(title);
                slices.iter().for_each(|slice| table.row(row(&slice.name, &slice.measures)));
            }
        };
        section("by type", &self.types);
        section("by group", &self.groups);
        if detail == Detail::Questions {
            section("by question", &self.questions);
        }
        table
    }
}

fn row(name: &str, measures: &Measures) -> Vec<Cell> {
    let share = |value: Option<f64>| Cell::number(value, 3);
    vec![
        Cell::name(name),
        Cell::count(measures.records),
        Cell::count(measures.errors),
        Cell::count(measures.questions),
        share(measures.accuracy),
        share(measures.macro_f1),
        share(measures.exact_match),
        share(measures.score_error),
        share(measures.brier),
        share(measures.ece),
        Cell::number(measures.latency_p50_ms, 1),
        Cell::number(measures.latency_p95_ms, 1),
    ]
}

impl FailedRecord {
    fn of(outcome: &Outcome) -> Option<Self> {
        let failure = outcome.reply.as_ref().err()?;
        Some(Self { line: outcome.line, id: outcome.id.clone(), kind: failure.kind(), message: failure.to_string() })
    }
}

/// A tally for each name.
struct Slices<K>(BTreeMap<K, Tally>);

impl<K> Default for Slices<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'a, K: Ord + Copy + 'a> Slices<K> {
    fn add(&mut self, outcome: &'a Outcome, options: &MeasureOptions, names: impl Fn(&'a Question) -> Vec<K>) {
        let mut present: Vec<K> = outcome.questions.iter().flat_map(&names).collect();
        present.sort_unstable();
        present.dedup();
        for name in present {
            let tally = self.0.entry(name).or_insert_with(|| Tally::new(*options));
            tally.add(outcome, |index| names(&outcome.questions[index]).contains(&name));
        }
    }

    fn finish(self, shown: impl Fn(K) -> &'a str) -> Vec<Slice> {
        let slice = |(name, tally): (K, Tally)| Slice { name: shown(name).to_owned(), measures: tally.finish() };
        self.0.into_iter().map(slice).collect()
    }
}
