//! The reference's answers, end to end.

use std::path::Path;

use clef_api::{FlashAttention, ModelOptions, Record, RecordErrorKind};
use clef_engine::{CancelFlag, Job};
use clef_model::Bundle;
use clef_record::{Decision, Prompt, Rules, Truncate};
use clef_testkit::{
    Closeness, GoldenRecord, Tiny, assert_close, golden, largest_difference, nano_golden, tiny, upstream,
};

/// Records that the reference answers and the API refuses by its own rules; compared below the API.
const BELOW_THE_API: [&str; 4] = ["choice-256-options", "score-1-levels", "score-11-levels", "state-null"];
/// The reference needs a `model`, the API takes any request without.
const ANSWERED_HERE: &str = "invalid-no-model";
/// The reference answers NaN.
const REFUSED_HERE: &str = "invalid-empty-question-id-no-instructions";

pub(crate) fn open(path: &Path, options: &ModelOptions) -> Bundle {
    Bundle::open(path, options, &mut |_, _| true).unwrap()
}

fn parse(golden: &GoldenRecord) -> Record {
    let rules = Rules { reference_limits: BELOW_THE_API.contains(&golden.name.as_str()), ..Rules::default() };
    let mut record = Record::parse_with(golden.body.as_bytes(), &rules).unwrap();
    record.max_length = golden.max_length;
    record.max_state_tokens = golden.max_state_tokens;
    if golden.max_length.is_some() {
        // The reference always cuts.
        record.truncate = Truncate::End;
    }
    record
}

/// Probabilities per question, options in prompt order.
fn probabilities(bundle: &mut Bundle, record: &Record) -> (Prompt, Vec<Vec<f64>>) {
    let prompt = bundle.encoder().prompt(record).unwrap();
    let cancel = CancelFlag::default();
    let job = Job { prompt: &prompt, keep: &[prompt.prefix_end, prompt.state_end], cancel: &cancel };
    let evaluation = bundle.evaluator().logits(&job).unwrap();
    let decision = Decision::from_logits(record, &prompt, &evaluation.logits).unwrap();
    let in_prompt_order = decision
        .answers
        .iter()
        .zip(&prompt.questions)
        .map(|(answer, question)| {
            let all: Vec<f64> = answer.probabilities().collect();
            question.options.iter().map(|option| all[option.request_index]).collect()
        })
        .collect();
    (prompt, in_prompt_order)
}

fn text_records() -> impl Iterator<Item = GoldenRecord> {
    golden().into_iter().filter(|record| !record.has_media && record.error.is_none() && record.name != REFUSED_HERE)
}

fn compare(options: &ModelOptions, tolerance: f64) {
    let mut bundle = open(&tiny(Tiny::F32), options);
    let mut compared = 0;
    for golden in text_records() {
        let (prompt, answers) = probabilities(&mut bundle, &parse(&golden));
        let ids: Vec<i32> = prompt.tokens.iter().map(|token| token.0).collect();
        assert_eq!(ids, golden.input_ids, "{}: tokens", golden.name);
        assert_eq!(prompt.questions.len(), golden.questions.len(), "{}: questions", golden.name);
        for (ours, theirs) in prompt.questions.iter().zip(&golden.questions) {
            assert_eq!(ours.span, theirs.span(), "{}: question {}", golden.name, theirs.id);
            let spans: Vec<_> = ours.options.iter().map(|option| option.span.clone()).collect();
            assert_eq!(spans, theirs.option_spans(), "{}: options of {}", golden.name, theirs.id);
        }
        for (ours, theirs) in answers.iter().zip(&golden.probabilities) {
            assert_close(&golden.name, ours, theirs, tolerance);
        }
        compared += 1;
    }
    assert_eq!(compared, 83, "text records that the reference answers");
}

#[test]
fn text_records_equal_the_reference_within_1e_5_without_flash_attention() {
    compare(&ModelOptions { flash_attention: FlashAttention::Off, ..ModelOptions::default() }, 1e-5);
}

#[test]
fn text_records_equal_the_reference_within_2e_4_by_default() {
    compare(&ModelOptions::default(), 2e-4);
}
