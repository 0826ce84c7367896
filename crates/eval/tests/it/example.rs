//! The example at the project's root, and the reference answers of the built-in model, are read as data files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clef_eval::{AnswerError, Answerer, Dataset, DatasetOptions, Evaluation, MeasureOptions, RunOptions, run};
use clef_record::Record;
use serde_json::{Value, json};

use crate::support::assert_close;

fn project_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// As sure of every option as of every other.
struct Undecided;

impl Answerer for Undecided {
    fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
        let record = Record::parse(body).expect("the example's requests keep the rules of the API");
        let answers: serde_json::Map<_, _> = record
            .questions
            .iter()
            .map(|question| {
                let share = 1.0 / question.options.len() as f64;
                let by_option: BTreeMap<_, _> = question.options.iter().map(|option| (&option.key, share)).collect();
                let answer = json!({"type": question.kind.as_str(), "noul": share, "probabilities": by_option});
                (question.id.clone(), answer)
            })
            .collect();
        Ok(json!({"answers": answers}).to_string().into_bytes())
    }
}

#[test]
fn the_example_is_a_data_file() {
    let dataset = Dataset::open(&project_file("examples/eval-set.jsonl"), DatasetOptions::default()).unwrap();
    assert!((20..=30).contains(&dataset.total().unwrap()));
    let run = run(dataset, &Undecided, &RunOptions::default(), &|_| {}).unwrap();
    let evaluation = Evaluation::of("undecided", &run.outcomes, &MeasureOptions::default());
    assert_eq!(evaluation.failures, []);
    let ids: BTreeSet<_> = run.outcomes.iter().map(|outcome| outcome.id.clone().expect("an id")).collect();
    assert_eq!(ids.len(), run.outcomes.len(), "ids are unique");
    let groups: Vec<_> = evaluation.groups.iter().map(|slice| slice.name.as_str()).collect();
    assert_eq!(groups, ["guardrail", "language", "rating", "routing", "sentiment", "triage"]);
    assert_eq!(evaluation.types.len(), 3);
    // It shows a level between two and a split panel.
    assert!(evaluation.overall.decided < evaluation.overall.questions);
}

/// Gives the answer that stands in the file, found by the request's text.
struct Reference(BTreeMap<Vec<u8>, Vec<u8>>);

impl Answerer for Reference {
    fn answer(&self, body: &[u8]) -> Result<Vec<u8>, AnswerError> {
        Ok(self.0[body].clone())
    }
}

#[test]
fn reference_answers_are_measured_as_they_stand() {
    let path = project_file("crates/testkit/fixtures/clef-nano-golden.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut answers = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let case = clef_eval::Case::parse(1, line.as_bytes(), true).unwrap();
        answers.insert(case.body, rows[index]["response"].to_string().into_bytes());
    }
    let dataset = Dataset::open(&path, DatasetOptions::default()).unwrap();
    let run = run(dataset, &Reference(answers), &RunOptions::default(), &|_| {}).unwrap();
    let options = MeasureOptions { min_certainty: 0.75, ..MeasureOptions::default() };
    let evaluation = Evaluation::of("reference", &run.outcomes, &options);
    assert_eq!(evaluation.failures, []);

    // The same from the rows themselves, whose lists are all in the order of the options' prompt.
    let (mut right, mut decided, mut briers) = (0, 0, Vec::new());
    for row in &rows {
        let lists = |field: &str| -> Vec<Vec<f64>> { serde_json::from_value(row[field].clone()).unwrap() };
        for (p, y) in lists("probabilities").iter().zip(lists("gold")) {
            let largest = |values: &[f64]| (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap();
            briers.push(p.iter().zip(&y).map(|(p, y)| (p - y) * (p - y)).sum::<f64>());
            if y[largest(&y)] >= 0.75 {
                decided += 1;
                right += usize::from(largest(p) == largest(&y));
            }
        }
    }
    let all = &evaluation.overall;
    assert_eq!((all.questions, all.decided), (briers.len() as u64, decided));
    assert_close(all.accuracy.unwrap(), right as f64 / decided as f64, 1e-12);
    // Responses have four digits.
    assert_close(all.brier.unwrap(), briers.iter().sum::<f64>() / briers.len() as f64, 1e-3);
    let families: BTreeSet<&str> =
        rows.iter().flat_map(|row| row["families"].as_array().unwrap()).filter_map(Value::as_str).collect();
    assert!(evaluation.groups.iter().map(|slice| slice.name.as_str()).eq(families));
}
