//! The reference's answers, end to end below the API: tokens, spans, probabilities.

use std::path::Path;
use std::sync::Arc;

use clef_api::{Decision, FlashAttention, ModelOptions, Record, Repack, Truncate};
use clef_model::Bundle;
use clef_record::{Prompt, Rules};
use clef_testkit::{
    Closeness, GoldenRecord, Tiny, assert_close, built_in_model, golden, largest_difference, nano_golden, tiny,
    upstream,
};

/// Records that the reference answers and the API refuses by its own rules; compared below the API.
const BELOW_THE_API: [&str; 4] = ["choice-256-options", "score-1-levels", "score-11-levels", "state-null"];
/// The reference needs a `model`, the API takes any request without.
const ANSWERED_HERE: &str = "invalid-no-model";
/// The reference answers NaN.
const REFUSED_HERE: &str = "invalid-empty-question-id-no-instructions";

/// One thread: llama.cpp's threads spin at barriers, and tests run side by side.
fn options() -> ModelOptions {
    ModelOptions { threads: Some(1), repack: Repack::Off, ..ModelOptions::default() }
}

fn open(path: &Path, options: &ModelOptions) -> Bundle {
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

/// The prompt, and the probabilities per question with options in prompt order.
fn answer(bundle: &mut Bundle, record: &Record) -> (Arc<Prompt>, Vec<Vec<f64>>) {
    let prompt = bundle.encoder().prompt(record).unwrap();
    let prompt = Arc::new(prompt);
    let logits = bundle.evaluator().logits(&prompt).unwrap();
    let decision = Decision::from_logits(record, &prompt, &logits).unwrap();
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

fn answered_by_the_reference() -> Vec<GoldenRecord> {
    golden().into_iter().filter(|record| record.media.is_empty() && !record.probabilities.is_empty()).collect()
}

fn assert_tokens_and_spans(golden: &GoldenRecord, prompt: &Prompt) {
    let ids: Vec<i32> = prompt.tokens.iter().map(|token| token.0).collect();
    assert_eq!(ids, golden.input_ids, "{}: tokens", golden.name);
    assert_eq!(prompt.questions.len(), golden.questions.len(), "{}: questions", golden.name);
    for (ours, theirs) in prompt.questions.iter().zip(&golden.questions) {
        assert_eq!(ours.span, theirs.span(), "{}: question {}", golden.name, theirs.id);
        let spans: Vec<_> = ours.options.iter().map(|option| option.span.clone()).collect();
        assert_eq!(spans, theirs.option_spans(), "{}: options of {}", golden.name, theirs.id);
    }
}

fn compare(options: &ModelOptions, tolerance: f64) {
    let mut bundle = open(&tiny(Tiny::F32), options);
    let records = answered_by_the_reference();
    assert_eq!(records.len(), 83, "text records that the reference answers");
    let mut worst = 0.0_f64;
    for golden in records {
        let (prompt, answers) = answer(&mut bundle, &parse(&golden));
        assert_tokens_and_spans(&golden, &prompt);
        assert_eq!(answers.len(), golden.probabilities.len(), "{}: answers", golden.name);
        for (ours, theirs) in answers.iter().zip(&golden.probabilities) {
            assert_close(&golden.name, ours, theirs, tolerance);
            worst = worst.max(largest_difference(ours, theirs));
        }
    }
    println!("largest difference to the reference: {worst:.2e}");
}

#[test]
fn text_records_equal_the_reference_within_1e_5_without_flash_attention() {
    compare(&ModelOptions { flash_attention: FlashAttention::Off, ..options() }, 1e-5);
}

#[test]
fn text_records_equal_the_reference_within_2e_4_by_default() {
    compare(&options(), 2e-4);
}

#[test]
fn what_the_reference_refuses_is_refused_here_but_for_a_missing_model_name() {
    let bundle = open(&tiny(Tiny::BF16), &options());
    let refused: Vec<GoldenRecord> = golden()
        .into_iter()
        .filter(|record| record.media.is_empty() && (record.error.is_some() || record.name == REFUSED_HERE))
        .collect();
    assert_eq!(refused.len(), 9, "text records without an answer of the reference");
    for golden in refused {
        let encoded =
            Record::parse(golden.body.as_bytes()).map_err(|error| error.to_string()).and_then(|mut record| {
                record.max_length = golden.max_length;
                record.truncate = Truncate::End;
                bundle.encoder().prompt(&record).map_err(|error| error.to_string())
            });
        match encoded {
            Ok(_) => assert_eq!(golden.name, ANSWERED_HERE),
            Err(message) => {
                assert_ne!(golden.name, ANSWERED_HERE);
                assert!(!message.contains('\n') && message.len() < 2000, "{}: {message}", golden.name);
            }
        }
    }
}

#[test]
fn the_four_records_that_only_the_api_refuses_are_refused_by_it() {
    let names: Vec<String> = golden()
        .into_iter()
        .filter(|record| BELOW_THE_API.contains(&record.name.as_str()))
        .filter(|record| Record::parse(record.body.as_bytes()).is_err())
        .map(|record| record.name)
        .collect();
    assert_eq!(names.len(), BELOW_THE_API.len(), "{names:?}");
}

#[test]
fn a_prompt_of_6261_tokens_gives_the_same_answers_in_chunks_of_128_and_of_4096() {
    let golden = golden().into_iter().find(|record| record.name == "state-6000-tokens").unwrap();
    let record = parse(&golden);
    for flash_attention in [FlashAttention::Auto, FlashAttention::Off] {
        let [small, large] = [128, 4096].map(|chunk_tokens| {
            let options = ModelOptions { chunk_tokens: Some(chunk_tokens), flash_attention, ..options() };
            answer(&mut open(&tiny(Tiny::F32), &options), &record)
        });
        assert_eq!(small.0.tokens.len(), 6261);
        for (small, large) in small.1.iter().zip(&large.1) {
            assert_close("chunks of 128 and 4096", small, large, 1e-4);
        }
    }
}

#[test]
fn the_built_in_model_answers_as_its_float32_original_within_0_03() {
    let mut bundle = open(&built_in_model(), &options());
    let mut worst = 0.0_f64;
    let records = nano_golden();
    assert_eq!(records.len(), 30);
    for golden in records {
        let (prompt, answers) = answer(&mut bundle, &parse(&golden));
        assert_tokens_and_spans(&golden, &prompt);
        for (ours, theirs) in answers.iter().zip(&golden.probabilities) {
            assert_close(&golden.name, ours, theirs, 0.03);
            worst = worst.max(largest_difference(ours, theirs));
        }
    }
    println!("largest difference to the float32 original: {worst:.4}");
}

/// How far answers are from llama-server's on the same file, by record, over the text records it was asked.
fn distances_to_upstream(kind: Tiny, name: &str) -> Vec<(String, Vec<f64>)> {
    let theirs = upstream(name);
    let mut bundle = open(&tiny(kind), &options());
    let mut distances = Vec::new();
    for golden in answered_by_the_reference() {
        let Some(theirs) = theirs.get(&golden.name) else { continue };
        let (_, answers) = answer(&mut bundle, &parse(&golden));
        let mut differences = Vec::new();
        for (ours, question) in answers.iter().zip(&golden.questions) {
            let theirs = &theirs[&question.id];
            let pairs = ours.iter().zip(&question.option_ids).filter_map(|(p, id)| Some((*p, *theirs.get(id)?)));
            let (ours, theirs): (Vec<f64>, Vec<f64>) = pairs.unzip();
            assert!(!ours.is_empty(), "{}: nothing to compare", golden.name);
            differences.push(largest_difference(&ours, &theirs));
        }
        distances.push((golden.name, differences));
    }
    distances
}

/// Records whose prompt llama-server builds differently from the reference, so that its answers are to another
/// question.
const UPSTREAM_DEPARTS: [&str; 14] = [
    // Null criteria of a noul question.
    "noul-criteria-values-null",
    // Floats lose their digits, integers beyond 64 bits their value.
    "choice-scalar-descriptions",
    "number-floats",
    "number-big-ints",
    // Text that is not in NFC.
    "choice-unicode-ids",
    "question-id-decomposed",
    "state-combining",
    "state-hangul-jamo",
    "state-nested-unicode",
    // User text that looks like its own marker.
    "state-clef-marker",
    // Limits that its API does not have.
    "state-truncated-max-length",
    "state-truncated-max-length-1",
    "state-max-state-tokens-0",
    "state-truncated-inside-unicode",
];

fn closeness_where_prompts_agree(kind: Tiny, name: &str) -> Closeness {
    let mut closeness = Closeness::default();
    for (record, differences) in distances_to_upstream(kind, name) {
        if !UPSTREAM_DEPARTS.contains(&record.as_str()) {
            differences.into_iter().for_each(|difference| closeness.add(difference));
        }
    }
    closeness
}

#[test]
fn on_float32_llama_server_agrees_but_for_the_records_whose_prompts_it_builds_differently() {
    // Its answers were taken with flash attention, and differ from those without by up to 5e-4.
    let (agree, depart): (Vec<_>, Vec<_>) = distances_to_upstream(Tiny::F32, "f32")
        .into_iter()
        .map(|(name, differences)| (name, differences.into_iter().fold(0.0, f64::max)))
        .partition(|(_, difference)| *difference <= 1e-3);
    let mut departing: Vec<&str> = depart.iter().map(|(name, _)| name.as_str()).collect();
    let mut expected = UPSTREAM_DEPARTS.to_vec();
    departing.sort_unstable();
    expected.sort_unstable();
    assert_eq!(departing, expected);
    assert!(agree.len() >= 55, "only {} records agree", agree.len());
}

#[test]
fn every_type_answers_as_llama_server_on_the_same_file() {
    for kind in Tiny::QUANTS.into_iter().chain([Tiny::BF16]) {
        let name = if kind == Tiny::BF16 { "bf16".to_owned() } else { kind.name() };
        let closeness = closeness_where_prompts_agree(kind, &name);
        let (median, max) = (closeness.median(), closeness.max());
        println!("{kind:?}: median {median:.4}, max {max:.4} over {} questions", closeness.count());
        assert!(closeness.count() > 80, "{kind:?}: only {} questions were compared", closeness.count());
        assert!(median <= 0.03 && max <= 0.15, "{kind:?}: median {median}, max {max}");
    }
}
