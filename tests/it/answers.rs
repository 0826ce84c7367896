//! Answers of whole requests that must not depend on what does not matter, and must depend on what does.

use std::path::Path;

use clef_api::{Clef, EngineErrorKind, Error, ModelOptions, Options, Record, RefusalKind, Repack};
use clef_testkit::{Tiny, built_in_model, largest_difference, tiny};
use serde_json::{Value, json};

fn open(path: &Path, change: impl FnOnce(&mut ModelOptions)) -> Clef {
    let mut options = Options::default();
    options.model.threads = Some(1);
    options.model.repack = Repack::Off;
    change(&mut options.model);
    Clef::open_with(path, &options, &mut |_, _| true).unwrap()
}

fn ask(clef: &Clef, request: &Value) -> Value {
    serde_json::from_str(&clef.decide_json(request.to_string().as_bytes()).unwrap()).unwrap()
}

fn probabilities(reply: &Value) -> Vec<f64> {
    let mut all = Vec::new();
    for answer in reply["answers"].as_object().unwrap().values() {
        match answer["noul"].as_f64() {
            Some(noul) => all.push(noul),
            None => all.extend(answer["probabilities"].as_object().unwrap().values().map(|p| p.as_f64().unwrap())),
        }
    }
    all
}

fn input_tokens(reply: &Value) -> u64 {
    reply["usage"]["input_tokens"].as_u64().unwrap()
}

fn about(state: &str) -> Value {
    json!({"state": state, "questions": {
        "refund": {"type": "noul", "instructions": "Does the customer want a refund?"},
        "route": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": null, "shipping": null}},
    }})
}

/// A request whose prompt has `tokens` tokens, give or take a few.
fn of_length(clef: &Clef, tokens: u64) -> Value {
    let words = |count: usize| "the parcel was late and nobody answered my letter about it. ".repeat(count);
    let (short, long) = (input_tokens(&ask(clef, &about(&words(1)))), input_tokens(&ask(clef, &about(&words(11)))));
    let count = 1 + (tokens - short) * 10 / (long - short);
    about(&words(count as usize))
}

#[test]
fn prompts_of_every_length_that_fits_are_answered_with_default_flags() {
    let clef = open(&built_in_model(), |_| ());
    for tokens in [500, 1_300, 8_000, 15_000] {
        let reply = ask(&clef, &of_length(&clef, tokens));
        assert!(input_tokens(&reply).abs_diff(tokens) < tokens / 20, "{tokens}: {}", reply["usage"]);
    }
}

#[test]
fn the_size_of_micro_batches_is_no_clients_matter() {
    let requests: Vec<Value> = {
        let clef = open(&tiny(Tiny::F32), |_| ());
        [500, 1_300, 8_000].map(|tokens| of_length(&clef, tokens)).into()
    };
    let all = |chunk_tokens| -> Vec<Vec<f64>> {
        let clef = open(&tiny(Tiny::F32), |options| options.chunk_tokens = Some(chunk_tokens));
        requests.iter().map(|request| probabilities(&ask(&clef, request))).collect()
    };
    let usual = all(512);
    for chunk_tokens in [128, 8192] {
        for (usual, other) in usual.iter().zip(all(chunk_tokens)) {
            let difference = largest_difference(usual, &other);
            assert!(difference <= 1e-3, "chunks of {chunk_tokens}: {difference:e}");
        }
    }
}

#[test]
fn a_fact_at_the_very_end_of_a_long_state_changes_the_answer() {
    let clef = open(&built_in_model(), |_| ());
    let long = "the weather was fine and the train was on time. ".repeat(300);
    let [without, with, other] = ["", "I was charged twice, I want my money back!", "Where is my parcel?"]
        .map(|end| ask(&clef, &about(&format!("{long}{end}"))));
    assert!(input_tokens(&without) > 3_000 && input_tokens(&with) > input_tokens(&without));
    for (a, b) in [(&without, &with), (&with, &other)] {
        let difference = largest_difference(&probabilities(a), &probabilities(b));
        assert!(difference > 1e-3, "the end of the state moves answers by {difference:e} only");
    }
}

#[test]
fn one_token_over_the_limit_is_refused_with_both_numbers_and_the_limit_itself_is_not() {
    let request = about("I was charged twice.");
    let tokens = input_tokens(&ask(&open(&built_in_model(), |_| ()), &request));
    let with_context = |context_tokens| open(&built_in_model(), |options| options.context_tokens = context_tokens);
    ask(&with_context(tokens as u32), &request);
    match with_context(tokens as u32 - 1).decide_json(request.to_string().as_bytes()) {
        Err(Error::Engine(error)) => {
            let (tokens, limit) = (tokens as usize, tokens as usize - 1);
            assert_eq!(error.kind(), EngineErrorKind::Refused(RefusalKind::TooLong { tokens, limit }));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_in_another_order_get_the_same_probabilities_bit_for_bit() {
    for model in [built_in_model(), tiny(Tiny::Q4_K_M)] {
        let clef = open(&model, |_| ());
        let with_options = |options: &[&str]| {
            let criteria: serde_json::Map<_, _> = options.iter().map(|key| (key.to_string(), Value::Null)).collect();
            let request = json!({"state": "I was charged twice.", "questions": {
                "route": {"type": "choice", "instructions": "Which team?", "criteria": criteria}}});
            ask(&clef, &request)["answers"]["route"]["probabilities"].as_object().unwrap().clone()
        };
        let sorted = with_options(&["billing", "legal", "shipping", "technical"]);
        let shuffled = with_options(&["technical", "billing", "shipping", "legal"]);
        assert_eq!(shuffled.keys().collect::<Vec<_>>(), ["technical", "billing", "shipping", "legal"]);
        for (key, probability) in &sorted {
            assert_eq!(probability.as_f64().unwrap().to_bits(), shuffled[key].as_f64().unwrap().to_bits(), "{key}");
        }
    }
}

#[test]
fn sixty_four_questions_in_any_order_are_answered_in_request_order() {
    let clef = open(&built_in_model(), |_| ());
    let ids: Vec<String> = (0..64).map(|number| format!("q{}", number * 37 % 64)).collect();
    let questions: serde_json::Map<_, _> = ids.iter().map(|id| (id.clone(), json!({"type": "noul"}))).collect();
    let reply = ask(&clef, &json!({"state": "charged twice", "questions": questions}));
    assert_eq!(reply["answers"].as_object().unwrap().keys().collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
}

#[test]
fn the_same_request_gets_the_same_bits_whatever_was_asked_before() {
    for model in [built_in_model(), tiny(Tiny::Q4_K_M)] {
        let clef = open(&model, |_| ());
        let request = about("I was charged twice.");
        let first = probabilities(&ask(&clef, &request));
        for state in ["short", &"a long state comes between. ".repeat(200)] {
            ask(&clef, &about(state));
            let again = probabilities(&ask(&clef, &request));
            assert!(first.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()), "{first:?} {again:?}");
        }
    }
}

#[test]
fn refused_requests_leave_nothing_behind() {
    let clef = open(&built_in_model(), |options| options.context_tokens = 512);
    let request = about("I was charged twice.");
    let first = clef.decide_json(request.to_string().as_bytes()).unwrap();
    for _ in 0..50 {
        clef.decide_json(about(&"far too long ".repeat(500)).to_string().as_bytes()).unwrap_err();
    }
    assert_eq!(clef.decide_json(request.to_string().as_bytes()).unwrap(), first);
    assert_eq!(clef.engine().statistics().in_flight, 0);
}

#[test]
fn a_request_that_is_given_up_while_it_runs_stops_and_the_next_one_is_answered() {
    let clef = open(&tiny(Tiny::F32), |options| options.chunk_tokens = Some(64));
    let request = about("I was charged twice.");
    let first = clef.decide_json(request.to_string().as_bytes()).unwrap();
    let long = Record::parse(about(&"a long state takes a while. ".repeat(1_500)).to_string().as_bytes()).unwrap();
    let ticket = clef.submit(long).unwrap();
    while clef.engine().statistics().running == 0 {
        std::thread::yield_now();
    }
    drop(ticket);
    assert_eq!(clef.decide_json(request.to_string().as_bytes()).unwrap(), first);
    assert_eq!(clef.engine().statistics().cancelled, 1);
}
