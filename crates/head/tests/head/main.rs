//! The head against the reference's numbers, against a plain re-implementation in double precision, and against files
//! and callers that are wrong.

#![expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
#![expect(clippy::single_range_in_vec_init, reason = "a question with one option has one span")]

mod attention;
mod checkpoint;
mod files;
mod reference;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use clef_head::{ErrorKind, Head, HeadFile, Layout, QuestionSpans, QuestionType, Reading};
use clef_llama::Device;
use clef_llama::gguf::{Gguf, TensorInfo, TensorType};
use clef_testkit::{Closeness, Random, Tiny, assert_close, fixture, golden, tiny};

use crate::files::{hollow, hollow_copy, rewritten};

const HIDDEN: usize = 256;

fn head_of(path: &Path) -> clef_head::Result<Head> {
    let gguf = Arc::new(Gguf::open(path).unwrap());
    Head::load(&HeadFile::of(&gguf)?, Arc::clone(&gguf), Device::cpu(), 1)
}

/// The head of a file, its own backbone beside it: its numbers and the bytes of its weights.
fn check(gguf: &Gguf) -> clef_head::Result<(Layout, u64)> {
    let head = HeadFile::of(gguf)?;
    Head::check(&head, gguf)?;
    Ok((head.layout().clone(), head.bytes()))
}

fn head() -> Head {
    head_of(&tiny(Tiny::F32)).unwrap()
}

/// A prompt with spans: what the head is asked.
#[derive(Clone)]
struct Prompt {
    tokens: Vec<i32>,
    hidden: Vec<f32>,
    questions: Vec<QuestionSpans>,
}

impl Prompt {
    fn logits(&self, head: &mut Head) -> Vec<Vec<f32>> {
        self.logits_in_blocks(head, self.tokens.len())
    }

    fn logits_in_blocks(&self, head: &mut Head, rows: usize) -> Vec<Vec<f32>> {
        let mut reading = self.reading(head);
        for block in self.hidden.chunks(rows * head.layout().hidden_width) {
            reading.push(head, block).unwrap();
        }
        reading.finish(head, &self.tokens).unwrap()
    }

    fn reading(&self, head: &Head) -> Reading {
        Reading::new(head, self.tokens.len(), self.questions.clone()).unwrap()
    }

    /// Random hidden states under questions with the given numbers of options.
    fn random(seed: u64, tokens: usize, options: &[usize]) -> Self {
        let mut random = Random::new(seed);
        let spans: usize = options.iter().map(|count| 1 + count).sum();
        // Each span takes one to `room` tokens, with gaps.
        let room = tokens / spans / 2;
        assert!(room > 0, "{spans} spans in {tokens} tokens");
        let mut next = 0;
        let mut span = |random: &mut Random| {
            let start = next + random.below(room);
            next = start + 1 + random.below(room);
            start..next
        };
        let kinds = [QuestionType::Noul, QuestionType::Choice, QuestionType::Score];
        let questions = options
            .iter()
            .map(|&count| QuestionSpans {
                kind: kinds[random.below(3)],
                text: span(&mut random),
                options: (0..count).map(|_| span(&mut random)).collect(),
            })
            .collect();
        Self {
            tokens: (0..tokens).map(|_| random.below(4096) as i32).collect(),
            hidden: (0..tokens * HIDDEN).map(|_| random.float()).collect(),
            questions,
        }
    }
}

fn wide(logits: &[Vec<f32>]) -> Vec<f64> {
    logits.iter().flatten().map(|&logit| f64::from(logit)).collect()
}

/// The record `doc-example` with the reference's own hidden states.
fn doc_example() -> Prompt {
    let record = golden().into_iter().find(|record| record.name == "doc-example").unwrap();
    let bytes = std::fs::read(fixture("debug/doc-example.last_hidden_state.npy")).unwrap();
    let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00") && bytes[..data].windows(5).any(|word| word == b"'<f4'"));
    let hidden: Vec<f32> =
        bytes[data..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    assert_eq!(hidden.len(), record.input_ids.len() * HIDDEN);
    let kinds = [QuestionType::Noul, QuestionType::Choice, QuestionType::Score];
    let questions = record.questions.iter().map(|question| QuestionSpans {
        kind: kinds[usize::from(question.kind)],
        text: question.span(),
        options: question.option_spans(),
    });
    Prompt { questions: questions.collect(), tokens: record.input_ids, hidden }
}

/// `logits` of the record in golden.jsonl.
const DOC_EXAMPLE_LOGITS: [&[f64]; 3] = [
    &[2.5372314453125, 3.128314733505249, 3.281951427459717],
    &[1.8243284225463867, -0.30736371874809265],
    &[-0.9711281061172485, -1.1036444902420044, -2.0006537437438965, 0.2570366859436035],
];

#[test]
fn the_references_hidden_states_give_the_references_logits() {
    let logits = doc_example().logits(&mut head());
    assert_eq!(logits.len(), 3);
    for (ours, reference) in logits.iter().zip(DOC_EXAMPLE_LOGITS) {
        let ours: Vec<f64> = ours.iter().map(|&logit| f64::from(logit)).collect();
        assert_close("logits", &ours, reference, 1e-4);
    }
}

#[test]
fn the_double_precision_implementation_gives_the_references_logits() {
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    let expected: Vec<f64> = DOC_EXAMPLE_LOGITS.iter().copied().flatten().copied().collect();
    assert_close("logits", &reference::logits(&gguf, 4, &doc_example()), &expected, 1e-4);
}

#[test]
fn hidden_states_may_come_in_blocks_of_any_size() {
    let (mut head, prompt) = (head(), doc_example());
    let whole = wide(&prompt.logits(&mut head));
    for rows in [1, 2, 7, 100, 320] {
        let parts = wide(&prompt.logits_in_blocks(&mut head, rows));
        assert_close(&format!("blocks of {rows}"), &parts, &whole, 1e-5);
    }
    // Blocks of random sizes, over prompts whose spans lie everywhere.
    for seed in 1..=20 {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let prompt = Prompt::random(seed, 60 + random.below(200), &[3, 1, 2, 5]);
        let whole = wide(&prompt.logits(&mut head));
        let mut reading = prompt.reading(&head);
        let mut rest = &prompt.hidden[..];
        while !rest.is_empty() {
            let (block, others) = rest.split_at(HIDDEN * (1 + random.below((rest.len() / HIDDEN).min(30))));
            reading.push(&mut head, block).unwrap();
            rest = others;
        }
        let parts = reading.finish(&mut head, &prompt.tokens).unwrap();
        assert_close("blocks of random sizes", &wide(&parts), &whole, 1e-5);
        assert_eq!(reading.finish(&mut head, &prompt.tokens).unwrap(), parts, "asked twice");
    }
}

#[test]
fn two_readings_in_turns_do_not_disturb_each_other() {
    let mut head = head();
    let prompts = [doc_example(), Prompt::random(7, 300, &[4, 2])];
    let alone: Vec<_> = prompts.iter().map(|prompt| prompt.logits_in_blocks(&mut head, 50)).collect();
    let mut readings: Vec<Reading> = prompts.iter().map(|prompt| prompt.reading(&head)).collect();
    let blocks: Vec<Vec<&[f32]>> = prompts.iter().map(|prompt| prompt.hidden.chunks(50 * HIDDEN).collect()).collect();
    for index in 0..blocks.iter().map(Vec::len).max().unwrap() {
        for (reading, blocks) in readings.iter_mut().zip(&blocks) {
            if let Some(block) = blocks.get(index) {
                reading.push(&mut head, block).unwrap();
            }
        }
    }
    for index in [1, 0] {
        assert_eq!(readings[index].finish(&mut head, &prompts[index].tokens).unwrap(), alone[index]);
    }
}

#[test]
fn random_prompts_agree_with_the_double_precision_implementation() {
    let gguf = Gguf::open(&tiny(Tiny::F32)).unwrap();
    let mut head = head();
    for (seed, tokens, options) in [
        (1, 2, vec![1]),
        (2, 40, vec![2]),
        (3, 100, vec![1, 1, 1]),
        (4, 300, vec![2, 11, 3, 1, 6]),
        (5, 700, vec![255]),
        (6, 500, vec![1; 64]),
    ] {
        // The shortest prompt has no room for gaps.
        let prompt = if tokens == 2 { shortest(seed) } else { Prompt::random(seed, tokens, &options) };
        let expected = reference::logits(&gguf, 4, &prompt);
        assert_close(&format!("seed {seed}"), &wide(&prompt.logits_in_blocks(&mut head, 128)), &expected, 1e-4);
    }
}

fn shortest(seed: u64) -> Prompt {
    let mut prompt = Prompt::random(seed, 4, &[1]);
    prompt.tokens.truncate(2);
    prompt.hidden.truncate(2 * HIDDEN);
    prompt.questions = vec![QuestionSpans { kind: QuestionType::Noul, text: 0..1, options: vec![1..2] }];
    prompt
}

#[test]
fn questions_and_options_up_to_the_limits_work_at_once() {
    let mut head = head();
    let mut options = vec![2; 60];
    options.extend([255; 4]);
    let prompt = Prompt::random(13, 2 * (60 * 3 + 4 * 256), &options);
    let logits = prompt.logits_in_blocks(&mut head, 4096);
    assert_eq!(logits.iter().map(Vec::len).collect::<Vec<_>>(), options);
    assert!(logits.iter().flatten().all(|logit| logit.is_finite()));
}

#[test]
fn questions_in_another_order_get_the_same_logits() {
    let mut head = head();
    let prompt = Prompt::random(21, 400, &[3, 2, 7, 1]);
    let logits = prompt.logits(&mut head);
    // The prompt falls into a part for each question, and what is left; parts are moved with their hidden states.
    let ends: Vec<usize> = prompt.questions.iter().map(|question| question.options.last().unwrap().end).collect();
    let parts: Vec<Range<usize>> =
        ends.iter().enumerate().map(|(i, &end)| i.checked_sub(1).map_or(0, |i| ends[i])..end).collect();
    for order in [[1, 0, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]] {
        let mut moved = Prompt { tokens: Vec::new(), hidden: Vec::new(), questions: Vec::new() };
        for index in order {
            let (part, question) = (parts[index].clone(), &prompt.questions[index]);
            let shifted =
                |span: &Range<usize>, start: usize| span.start - part.start + start..span.end - part.start + start;
            let start = moved.tokens.len();
            moved.questions.push(QuestionSpans {
                kind: question.kind,
                text: shifted(&question.text, start),
                options: question.options.iter().map(|span| shifted(span, start)).collect(),
            });
            moved.tokens.extend(&prompt.tokens[part.clone()]);
            moved.hidden.extend(&prompt.hidden[part.start * HIDDEN..part.end * HIDDEN]);
        }
        let rest = moved.tokens.len();
        moved.tokens.extend(&prompt.tokens[rest..]);
        moved.hidden.extend(&prompt.hidden[rest * HIDDEN..]);
        let expected: Vec<Vec<f32>> = order.map(|index| logits[index].clone()).to_vec();
        assert_close(&format!("{order:?}"), &wide(&moved.logits(&mut head)), &wide(&expected), 1e-5);
    }
}

#[test]
fn spans_that_cannot_be_are_refused() {
    let head = head();
    let question = |text: Range<usize>, options: &[Range<usize>]| QuestionSpans {
        kind: QuestionType::Choice,
        text,
        options: options.to_vec(),
    };
    let sound = question(0..2, &[3..4, 4..9]);
    assert!(Reading::new(&head, 10, vec![sound.clone(), question(9..10, &[10..11])]).is_err(), "beyond the end");
    assert!(Reading::new(&head, 11, vec![sound.clone(), question(9..10, &[10..11])]).is_ok());
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let wrong = [
        (10, vec![]),
        (10, vec![question(0..2, &[])]),
        (10, vec![question(0..0, &[3..4])]),
        (10, vec![question(2..1, &[3..4])]),
        (10, vec![question(0..2, &[3..3])]),
        (10, vec![question(0..2, &[1..4])]),
        (10, vec![question(5..6, &[3..4])]),
        (10, vec![question(0..1, &[3..4, 2..3])]),
        (10, vec![question(0..1, &[3..11])]),
        (10, vec![question(0..1, &[usize::MAX - 1..usize::MAX])]),
        (10, vec![sound.clone(), sound.clone()]),
        (10, vec![sound, question(8..9, &[9..10])]),
        (0, vec![question(0..1, &[1..2])]),
    ];
    for (tokens, questions) in wrong {
        let error = Reading::new(&head, tokens, questions.clone()).expect_err(&format!("{questions:?} in {tokens}"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

#[test]
fn hidden_states_and_tokens_that_do_not_fit_are_refused_and_do_no_harm() {
    let (mut head, prompt) = (head(), Prompt::random(31, 100, &[3, 2]));
    let expected = wide(&prompt.logits(&mut head));
    let mut reading = prompt.reading(&head);
    let kind = |result: clef_head::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(reading.push(&mut head, &[])), ErrorKind::InvalidArgument);
    assert_eq!(kind(reading.push(&mut head, &prompt.hidden[..HIDDEN - 1])), ErrorKind::InvalidArgument);
    assert_eq!(kind(reading.push(&mut head, &prompt.hidden[..HIDDEN + 1])), ErrorKind::InvalidArgument);
    reading.push(&mut head, &prompt.hidden[..60 * HIDDEN]).unwrap();
    assert_eq!(kind(reading.push(&mut head, &prompt.hidden[..41 * HIDDEN])), ErrorKind::InvalidArgument);
    let early = reading.finish(&mut head, &prompt.tokens).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::InvalidArgument);
    assert!(early.to_string().contains("60 of 100"), "{early}");
    reading.push(&mut head, &prompt.hidden[60 * HIDDEN..]).unwrap();
    assert_eq!(kind(reading.push(&mut head, &prompt.hidden[..HIDDEN])), ErrorKind::InvalidArgument);

    assert!(reading.finish(&mut head, &prompt.tokens[1..]).is_err());
    for unknown in [-1, 4096, i32::MAX, i32::MIN] {
        let mut tokens = prompt.tokens.clone();
        tokens[50] = unknown;
        assert_eq!(reading.finish(&mut head, &tokens).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_close("after it all", &wide(&reading.finish(&mut head, &prompt.tokens).unwrap()), &expected, 1e-5);
}

#[test]
fn hidden_states_that_are_not_numbers_spoil_their_own_reading_only() {
    let (mut head, prompt) = (head(), Prompt::random(32, 100, &[3, 2]));
    let expected = prompt.logits(&mut head);
    for value in [f32::NAN, f32::INFINITY, f32::MAX] {
        let mut spoilt = prompt.clone();
        spoilt.hidden[5 * HIDDEN + 3] = value;
        let logits = spoilt.logits(&mut head);
        assert!(value == f32::MAX || logits.iter().flatten().any(|logit| !logit.is_finite()), "{value}");
        assert_eq!(prompt.logits(&mut head), expected);
    }
}

#[test]
fn a_graph_beyond_the_limit_is_an_error_not_a_panic() {
    // A head of many narrow blocks; with weights of zero its file is a hole.
    let (hidden, width, blocks) = (32, 16, 64);
    let file = hollow(hidden, width, blocks);
    let mut head = head_of(file.path()).unwrap();
    let tokens = 1 << 16;
    let options: Vec<Range<usize>> = (1..4000).map(|start| start..start + 1).collect();
    let questions = vec![QuestionSpans { kind: QuestionType::Choice, text: 0..1, options }];
    let mut reading = Reading::new(&head, tokens, questions).unwrap();
    reading.push(&mut head, &vec![0.5; tokens * hidden as usize]).unwrap();
    let error = reading.finish(&mut head, &vec![1; tokens]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("3999 options"), "{error}");

    let small = vec![QuestionSpans { kind: QuestionType::Choice, text: 0..1, options: vec![1..2, 2..3] }];
    let mut reading = Reading::new(&head, 3, small).unwrap();
    reading.push(&mut head, &vec![0.5; 3 * hidden as usize]).unwrap();
    assert_eq!(reading.finish(&mut head, &[1; 3]).unwrap(), [[0.0, 0.0]]);
}

#[test]
fn temperatures_divide_the_logits_of_their_type_and_number_of_options() {
    let prompt = {
        let mut prompt = Prompt::random(41, 400, &[2, 3, 5, 6, 10, 11, 1, 2, 3, 2]);
        let kinds = [QuestionType::Choice; 7].into_iter().chain([QuestionType::Noul]);
        let kinds = kinds.chain([QuestionType::Score, QuestionType::Score]);
        prompt.questions.iter_mut().zip(kinds).for_each(|(question, kind)| question.kind = kind);
        prompt
    };
    let plain = head_of(&tiny(Tiny::BF16)).unwrap().layout().clone();
    assert!(plain.temperatures.is_empty());
    let expected = prompt.logits(&mut head_of(&tiny(Tiny::BF16)).unwrap());
    let file = rewritten(
        &tiny(Tiny::BF16),
        |header| {
            for (key, value) in [("choice", 2.0), ("choice.3_5", 4.0), ("choice.11", 0.5), ("score.2", 8.0)] {
                header.put_f32(&format!("clef.decision.temperature.{key}"), value);
            }
        },
        |_| {},
    );
    let mut head = head_of(file.path()).unwrap();
    assert!(!head.layout().temperatures.is_empty());
    let divisors = [2.0, 4.0, 4.0, 2.0, 2.0, 0.5, 2.0, 1.0, 1.0, 8.0];
    for ((ours, plain), divisor) in prompt.logits(&mut head).iter().zip(&expected).zip(divisors) {
        // Powers of two divide exactly.
        assert_eq!(*ours, plain.iter().map(|logit| logit / divisor).collect::<Vec<f32>>());
    }
}

#[test]
fn temperatures_that_make_no_answer_are_refused() {
    for value in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-30, 1e30] {
        for key in ["choice", "noul.2", "score.6_10"] {
            let key = format!("clef.decision.temperature.{key}");
            let file = rewritten(&tiny(Tiny::BF16), |header| header.put_f32(&key, value), |_| {});
            assert_refused(file.path(), ErrorKind::InvalidFile, &key);
        }
    }
    let whole = rewritten(&tiny(Tiny::BF16), |header| header.put_u32("clef.decision.temperature.noul", 2), |_| {});
    assert_refused(whole.path(), ErrorKind::InvalidFile, "temperature.noul");
}

#[track_caller]
fn assert_refused(path: &Path, kind: ErrorKind, words: &str) {
    let gguf = Gguf::open(path).unwrap();
    let checked = check(&gguf).expect_err(words);
    assert_eq!(checked.kind(), kind, "{checked}");
    assert!(checked.to_string().contains(words), "{checked} does not say {words:?}");
    let loaded = head_of(path).expect_err(words);
    assert_eq!((loaded.kind(), loaded.to_string()), (kind, checked.to_string()));
}

/// Each type's own weights, widened, in double precision: what is left is the rounding of activations in ggml's
/// products, which take them as 8-bit or 16-bit numbers.
#[test]
fn every_quantization_agrees_with_the_double_precision_implementation_on_its_weights() {
    let prompt = doc_example();
    let (plain, _) = check(&Gguf::open(&tiny(Tiny::F32)).unwrap()).unwrap();
    let mut differences = Closeness::default();
    for kind in Tiny::QUANTS.into_iter().chain([Tiny::BF16, Tiny::F32]) {
        let gguf = Gguf::open(&tiny(kind)).unwrap();
        let (layout, bytes) = check(&gguf).unwrap();
        assert_eq!(layout, plain, "{kind:?}");
        let mut head = head_of(&tiny(kind)).unwrap();
        // Rows are padded for the device's sake, and there are some 160 tensors.
        assert!((bytes..bytes + (1 << 16)).contains(&(head.weight_bytes() as u64)), "{kind:?}");
        let (logits, expected) = (wide(&prompt.logits(&mut head)), reference::logits(&gguf, 4, &prompt));
        let tolerance = match kind {
            Tiny::F32 => 1e-4,
            Tiny::BF16 | Tiny::Q8_0 => 0.1,
            _ => 0.5,
        };
        assert_close(&format!("{kind:?}"), &logits, &expected, tolerance);
        differences.add(clef_testkit::largest_difference(&logits, &expected));
    }
    assert!(differences.count() == 16 && differences.median() < 0.2, "{differences:?}");
}

#[test]
fn a_plain_backbone_is_said_to_have_no_head() {
    let missing =
        |name: &str| rewritten(&tiny(Tiny::BF16), |_| {}, |tensors| tensors.retain(|tensor| tensor.name != name));
    assert_refused(missing("decision.proj_memory.weight").path(), ErrorKind::Missing, "no decision head");
    assert_refused(&fixture("clef-tiny/mmproj-clef-tiny-f16.gguf"), ErrorKind::Missing, "no decision head");
}

type Change = Box<dyn Fn(&mut TensorInfo)>;

#[test]
fn every_part_that_is_missing_or_of_another_shape_or_type_is_named() {
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    let of_head = |tensor: &&TensorInfo| {
        tensor.name.starts_with("dec") || matches!(tensor.name.as_str(), "token_types.weight" | "output.weight")
    };
    let names = source.tensors().iter().filter(of_head).map(|tensor| tensor.name.as_str());
    // These two are where the widths are read from; without one of them there is no head to speak of.
    let defining = ["decision.proj_memory.weight", "dec.blk.0.ffn_up.weight"];
    for name in names.filter(|name| !defining.contains(name)) {
        let retyped = |kind: TensorType| {
            move |tensor: &mut TensorInfo| {
                tensor.kind = kind;
                tensor.bytes = kind.row_bytes(tensor.shape[0]).unwrap() * (tensor.elements() / tensor.shape[0]);
            }
        };
        let plain = source.tensor(name).unwrap().dimensions == 1;
        let f16 = TensorType::from_id(1).unwrap();
        let changes: [(&str, Change); 3] = [
            ("missing", Box::new(|tensor| tensor.name = "something.else".into())),
            (
                "longer",
                Box::new(|tensor| {
                    tensor.shape[0] += 1;
                    tensor.bytes =
                        tensor.kind.row_bytes(tensor.shape[0]).unwrap() * (tensor.elements() / tensor.shape[0]);
                }),
            ),
            ("of another type", Box::new(retyped(if plain { f16 } else { TensorType::I32 }))),
        ];
        for (what, change) in &changes {
            let changed =
                |tensors: &mut Vec<TensorInfo>| change(tensors.iter_mut().find(|tensor| tensor.name == name).unwrap());
            let file = hollow_copy(&source, |_| {}, changed);
            let gguf = Gguf::open(file.path()).unwrap();
            match check(&gguf) {
                // Without it the embeddings serve, as intended.
                Ok(_) => assert!(name == "output.weight" && *what == "missing", "{name} {what}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidFile, "{name} {what}: {error}");
                    assert!(error.to_string().contains(name), "{name} {what}: {error}");
                }
            }
        }
    }
}

#[test]
fn numbers_that_contradict_the_tensors_are_refused() {
    let source = Gguf::open(&tiny(Tiny::BF16)).unwrap();
    for (key, values) in [
        ("clef.decision.head_count", &[0, 3, 512, 1 << 20, u32::MAX][..]),
        ("clef.decision.routing_block_count", &[1, 3, 65, u32::MAX]),
        ("clef.decision.block_count", &[5, 65, u32::MAX]),
        ("clef.attention.layer_norm_epsilon", &[1]),
    ] {
        for &value in values {
            let file = hollow_copy(&source, |header| header.put_u32(key, value), |_| {});
            let gguf = Gguf::open(file.path()).unwrap();
            assert_eq!(check(&gguf).expect_err(key).kind(), ErrorKind::InvalidFile, "{key} {value}");
        }
    }
    for epsilon in [0.0, -1.0, f32::NAN, 1.0] {
        let file = hollow_copy(&source, |header| header.put_f32("clef.attention.layer_norm_epsilon", epsilon), |_| {});
        assert!(check(&Gguf::open(file.path()).unwrap()).is_err(), "{epsilon}");
    }
}

#[test]
fn without_output_weights_the_embeddings_are_the_lexical_table() {
    // The file's embeddings under the name of its output weights, and no output weights at all, are the same thing.
    let source = tiny(Tiny::BF16);
    let renamed = rewritten(
        &source,
        |_| {},
        |tensors| {
            tensors.retain(|tensor| tensor.name != "output.weight");
            tensors.iter_mut().find(|tensor| tensor.name == "token_embd.weight").unwrap().name = "output.weight".into();
        },
    );
    let without = rewritten(&source, |_| {}, |tensors| tensors.retain(|tensor| tensor.name != "output.weight"));
    let prompt = doc_example();
    let logits = prompt.logits(&mut head_of(without.path()).unwrap());
    assert_eq!(logits, prompt.logits(&mut head_of(renamed.path()).unwrap()));
    assert_ne!(logits, prompt.logits(&mut head_of(&source).unwrap()));
}
