//! What is kept of earlier requests makes later ones cheaper and never changes an answer, on quantized weights too.
//!
//! Equal means equal to the last bit throughout: a request has the same cuts and the same memory of its own whatever was
//! read before it and whatever is read beside it.

use std::sync::Arc;

use clef_api::{Clef, EngineErrorKind, Error, ModelOptions, Options, Outcome, Record, Repack};
use clef_engine::{Evaluate, LaneId, Step};
use clef_model::Bundle;
use clef_record::Prompt;
use clef_testkit::{Tiny, tiny};
use serde_json::{Value, json};

const KINDS: [Tiny; 2] = [Tiny::F32, Tiny::Q4_K_M];

fn options(change: impl FnOnce(&mut ModelOptions)) -> ModelOptions {
    let mut options = ModelOptions { threads: Some(1), repack: Repack::Off, ..ModelOptions::default() };
    change(&mut options);
    options
}

fn open(kind: Tiny, change: impl FnOnce(&mut ModelOptions)) -> Clef {
    let options = Options { model: options(change), ..Options::default() };
    Clef::open_with(tiny(kind), &options, &mut |_, _| true).unwrap()
}

fn bundle(kind: Tiny, change: impl FnOnce(&mut ModelOptions)) -> Bundle {
    Bundle::open(&tiny(kind), &options(change), &mut |_, _| true).unwrap()
}

/// Nothing is remembered but the fixed prefix.
fn cold(kind: Tiny) -> Clef {
    open(kind, |options| options.cache_bytes = Some(0))
}

fn record(state: &Value, question: &str) -> Record {
    let request = json!({"state": state, "questions": {
        "topic": {"type": "choice", "instructions": question, "criteria": {"billing": "money", "shipping": null}},
        "refund": {"type": "noul", "instructions": "Does the customer want a refund?"},
    }});
    Record::parse(request.to_string().as_bytes()).unwrap()
}

/// About `words` different words, the same for the same `seed`.
fn text(seed: u64, words: usize) -> String {
    let mut number = seed;
    let mut next = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ["parcel", "late", "invoice", "nobody", "answered", "charged", "twice", "the", "broken", "letter"]
            [(number >> 33) as usize % 10]
    };
    (0..words).map(|_| next()).collect::<Vec<_>>().join(" ")
}

/// The bits of all probabilities.
fn bits(outcome: &Outcome) -> Vec<u64> {
    outcome.decision.answers.iter().flat_map(|answer| answer.probabilities()).map(f64::to_bits).collect()
}

#[test]
fn a_state_asked_again_is_read_once_and_answered_as_if_it_were_new() {
    for kind in KINDS {
        let state = json!(text(1, 400));
        let expected = ["which?", "who is responsible for it?", "what next?"]
            .map(|question| bits(&cold(kind).decide(record(&state, question)).unwrap()));
        let clef = open(kind, |_| ());
        // A, B, A, C, A.
        for (round, (index, question)) in
            [(0, "which?"), (1, "who is responsible for it?"), (0, "which?"), (2, "what next?"), (0, "which?")]
                .into_iter()
                .enumerate()
        {
            let outcome = clef.decide(record(&state, question)).unwrap();
            assert_eq!(bits(&outcome), expected[index], "{kind:?}: {question}");
            if round == 0 {
                assert_eq!(outcome.reused_tokens, 37, "the fixed prefix");
            } else {
                // All but the questions.
                assert!(outcome.reused_tokens > outcome.decision.input_tokens - 250, "{}", outcome.reused_tokens);
            }
        }
        assert!(clef.decide(record(&state, "once more?")).unwrap().reused_tokens > 400);
    }
}

#[test]
fn a_state_that_differs_in_one_character_is_another_one() {
    for kind in KINDS {
        let state = text(2, 500);
        let middle = state.len() / 2;
        let changed = format!("{}X{}", &state[..middle], &state[middle + 1..]);
        let expected = bits(&cold(kind).decide(record(&json!(changed), "which?")).unwrap());
        let clef = open(kind, |_| ());
        let first = clef.decide(record(&json!(state), "which?")).unwrap();
        let outcome = clef.decide(record(&json!(changed), "which?")).unwrap();
        assert_eq!(bits(&outcome), expected, "{kind:?}");
        assert_ne!(bits(&first), expected);
        // At most what stands before the change.
        assert!(outcome.reused_tokens < outcome.decision.input_tokens / 2, "{}", outcome.reused_tokens);
        // Where the two part was learned: the one is kept at its end, the other there as well.
        let third = format!("{}Y{}", &state[..middle], &state[middle + 1..]);
        let outcome = clef.decide(record(&json!(third), "which?")).unwrap();
        assert!(outcome.reused_tokens > 150, "{}", outcome.reused_tokens);
        assert_eq!(bits(&outcome), bits(&cold(kind).decide(record(&json!(third), "which?")).unwrap()));
    }
}

#[test]
fn a_state_that_grew_goes_on_from_what_it_shares() {
    let messages = |count: usize| -> Value {
        let message =
            |index| json!({"role": if index % 2 == 0 { "user" } else { "assistant" }, "content": text(index, 40)});
        (0..count as u64).map(message).collect()
    };
    let long = text(3, 900);
    for kind in KINDS {
        for (before, after) in [
            (json!(long), json!(format!("{long}. {}", text(4, 90)))),
            (messages(20), messages(22)),
            (json!({"messages": messages(20)}), json!({"messages": messages(21)})),
        ] {
            let clef = open(kind, |_| ());
            clef.decide(record(&before, "which?")).unwrap();
            let outcome = clef.decide(record(&after, "which?")).unwrap();
            let expected = bits(&cold(kind).decide(record(&after, "which?")).unwrap());
            assert_eq!(bits(&outcome), expected, "{kind:?}");
            let computed = outcome.decision.input_tokens - outcome.reused_tokens;
            assert!(outcome.reused_tokens > 2 * computed, "{} of {}", computed, outcome.decision.input_tokens);
            // And once more from there.
            let outcome = clef.decide(record(&after, "what next?")).unwrap();
            assert!(outcome.decision.input_tokens - outcome.reused_tokens < 300);
        }
    }
}

#[test]
fn fifty_answers_from_one_kept_state_are_identical() {
    for kind in KINDS {
        let (state, other) = (json!(text(5, 300)), json!(text(6, 300)));
        let clef = open(kind, |_| ());
        let first = bits(&clef.decide(record(&state, "which?")).unwrap());
        for round in 0..50 {
            if round % 10 == 0 {
                // Something else in the context, so that it is brought back and not just rewound.
                clef.decide(record(&other, "which?")).unwrap();
            }
            let outcome = clef.decide(record(&state, "which?")).unwrap();
            assert_eq!(bits(&outcome), first, "{kind:?}: round {round}");
            assert!(outcome.reused_tokens > 300);
        }
    }
}

#[test]
fn answers_under_load_are_the_answers_alone() {
    for kind in KINDS {
        let requests: Vec<Record> = (0..10)
            .map(|index| {
                record(&json!(text(index % 5, 60 + 70 * (index % 4) as usize)), ["which?", "who?"][index as usize % 2])
            })
            .collect();
        let alone: Vec<_> = requests.iter().map(|request| bits(&cold(kind).decide(request.clone()).unwrap())).collect();
        let clef = open(kind, |_| ());
        std::thread::scope(|scope| {
            for client in 0..4 {
                let (clef, requests, alone) = (&clef, &requests, &alone);
                scope.spawn(move || {
                    for round in 0..10 {
                        let index = (round * (client + 1) + client) % 10;
                        let outcome = clef.decide(requests[index].clone()).unwrap();
                        assert_eq!(bits(&outcome), alone[index], "{kind:?}: client {client}, request {index}");
                    }
                });
            }
        });
    }
}

#[test]
fn dropping_states_for_others_never_changes_an_answer() {
    for kind in KINDS {
        // Room for two or three states of the ten that are asked for.
        let clef = open(kind, |options| options.cache_bytes = Some(6 << 20));
        let requests: Vec<Record> = (0..10).map(|seed| record(&json!(text(seed, 250)), "which?")).collect();
        let expected: Vec<_> =
            requests.iter().map(|request| bits(&cold(kind).decide(request.clone()).unwrap())).collect();
        let (mut hits, mut number) = (0, 7_u64);
        for _ in 0..40 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (number >> 33) as usize % 10;
            let outcome = clef.decide(requests[index].clone()).unwrap();
            assert_eq!(bits(&outcome), expected[index], "{kind:?}");
            hits += usize::from(outcome.reused_tokens > 100);
        }
        let held = clef.engine().held();
        assert!(held.iter().map(|state| state.bytes).sum::<usize>() <= 6 << 20);
        assert!((1..40).contains(&hits), "{hits} of 40 went on from a kept state");
    }
}

#[test]
fn without_a_cache_only_the_fixed_prefix_is_reused() {
    let clef = cold(Tiny::BF16);
    for _ in 0..2 {
        let outcome = clef.decide(record(&json!(text(8, 300)), "which?")).unwrap();
        assert_eq!(outcome.reused_tokens, 37);
    }
    assert!(clef.engine().held().is_empty());
}

fn prompt(bundle: &Bundle, state: &Value) -> Arc<Prompt> {
    Arc::new(bundle.encoder().prompt(&record(state, "which?")).unwrap())
}

/// Steps a lane to its answer.
fn finish(model: &mut impl Evaluate, lane: LaneId) -> Vec<Vec<f32>> {
    loop {
        if let Step::Answered(evaluation) = model.step(&[lane]).remove(0).unwrap() {
            return evaluation.logits;
        }
    }
}

#[test]
fn lanes_do_not_see_each_other() {
    let (main, side) = (LaneId(0), LaneId(1));
    for kind in KINDS {
        let mut bundle = bundle(kind, |options| options.cache_bytes = Some(0));
        let long = prompt(&bundle, &json!(text(9, 2500)));
        let short = [60, 140, 200].map(|words| prompt(&bundle, &json!(text(20, words))));
        let model = bundle.evaluator();
        let mut solo = |prompt: &Arc<Prompt>| model.logits(prompt).unwrap();
        let (long_alone, short_alone) = (solo(&long), short.each_ref().map(&mut solo));

        model.begin(main, &long).unwrap();
        model.step(&[main]).remove(0).unwrap();
        for (prompt, expected) in short.iter().zip(&short_alone) {
            model.begin(side, prompt).unwrap();
            let answer = loop {
                let mut steps = model.step(&[main, side]);
                if let Step::Answered(evaluation) = steps.remove(1).unwrap() {
                    break evaluation.logits;
                }
            };
            assert_eq!(&answer, expected, "{kind:?}: beside a long one");
        }
        assert_eq!(finish(model, main), long_alone, "{kind:?}: beside short ones");
    }
}

#[test]
fn what_was_read_before_a_client_left_is_not_read_again() {
    for kind in KINDS {
        let mut bundle = bundle(kind, |_| ());
        let prompt = prompt(&bundle, &json!(text(10, 1500)));
        let expected = bundle.evaluator().logits(&prompt).unwrap();
        let mut fresh = self::bundle(kind, |_| ());
        let model = fresh.evaluator();
        let begun = model.begin(LaneId(0), &prompt).unwrap();
        for _ in 0..begun.steps / 2 {
            model.step(&[LaneId(0)]).remove(0).unwrap();
        }
        model.abandon(LaneId(0));
        assert_eq!(model.held().len(), 1);
        // Another prompt in between, so that the state comes from what was kept and not from the context.
        model.logits(&self::prompt(&bundle, &json!(text(11, 200)))).unwrap();
        let again = model.begin(LaneId(0), &prompt).unwrap();
        assert!(again.steps <= begun.steps.div_ceil(2), "{begun:?} {again:?}");
        assert!(again.reused_tokens > prompt.tokens.len() / 3);
        assert_eq!(finish(model, LaneId(0)), expected, "{kind:?}");
    }
}

#[test]
fn several_long_prompts_at_once_in_a_small_context_are_all_answered() {
    let clef = open(Tiny::Q4_K_M, |options| options.context_tokens = 1024);
    let request = |seed| record(&json!(text(seed, 300)), "which?");
    let tickets: Vec<_> = (0..6).map(|seed| clef.submit(request(seed)).unwrap()).collect();
    for (seed, ticket) in tickets.into_iter().enumerate() {
        let outcome = ticket.wait().unwrap();
        assert!(outcome.decision.input_tokens > 600);
        let alone = cold(Tiny::Q4_K_M).decide(request(seed as u64)).unwrap();
        assert_eq!(bits(&outcome), bits(&alone));
    }
}

#[test]
fn a_request_after_fifty_that_were_too_long_is_answered_at_once() {
    let clef = open(Tiny::Q4_K_M, |options| options.context_tokens = 1024);
    for _ in 0..50 {
        let error = clef.decide(record(&json!(text(1, 2000)), "which?")).unwrap_err();
        let refused = matches!(&error, Error::Engine(error) if matches!(error.kind(), EngineErrorKind::Refused(_)));
        assert!(refused, "{error}");
    }
    assert!(clef.decide(record(&json!("late parcel"), "which?")).is_ok());
    let statistics = clef.engine().statistics();
    assert_eq!((statistics.in_flight, statistics.running), (0, 0));
}
