//! The library as a program of another person would use it.

use std::num::NonZeroUsize;

use clef_api::{Clef, EngineConfig, Error, ModelOptions, Options, Record, Repack, Request};
use clef_testkit::{Tiny, built_in_model, fixture, tiny, tiny_projector};
use serde_json::json;

fn options() -> Options {
    let model = ModelOptions { threads: Some(1), repack: Repack::Off, ..ModelOptions::default() };
    Options { model, ..Options::default() }
}

fn open(options: &Options) -> Clef {
    Clef::open_with(built_in_model(), options, &mut |_, _| true).unwrap()
}

fn ask(state: &str) -> Request {
    Request::text(state).noul("refund", "Does the customer ask for money back?")
}

#[test]
fn a_request_written_in_rust_is_the_one_in_json() {
    let state = json!({"b": [1250.0, "\u{1f600}\"\\\n"], "a": null});
    let request = Request::json(&state)
        .unwrap()
        .noul("angry\"", "Is the customer\n\"angry\"?")
        .choice("team", "Who?", ["zebra", "apple"])
        .choice_described("kind", "What?", [("a", "the first"), ("b", "")])
        .score("urgency", "How urgent?", ["can wait", "now"])
        .question("raw", r#"{"type": "noul", "instructions": {"any": "value"}}"#)
        .max_length(900)
        .max_state_tokens(50)
        .truncate();
    let body = json!({
        "state": state,
        "questions": {
            "angry\"": {"type": "noul", "instructions": "Is the customer\n\"angry\"?"},
            "team": {"type": "choice", "instructions": "Who?", "criteria": {"zebra": null, "apple": null}},
            "kind": {"type": "choice", "instructions": "What?", "criteria": {"a": "the first", "b": ""}},
            "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "now"]},
            "raw": {"type": "noul", "instructions": {"any": "value"}},
        },
        "max_length": 900,
        "max_state_tokens": 50,
        "truncate": "end",
    });
    assert_eq!(request.to_record().unwrap(), Record::parse(body.to_string().as_bytes()).unwrap());
}

#[test]
fn what_a_request_gets_wrong_is_named() {
    for (request, words) in [
        (Request::text("x"), "questions"),
        (Request::text("x").noul("a", "").noul("a", ""), "a"),
        (Request::text("x").choice("team", "Who?", []), "team"),
        (Request::text("x").question("q", "{"), "not valid JSON"),
    ] {
        let error = Error::from(request.to_record().unwrap_err());
        assert!(error.is_request_fault() && error.to_string().contains(words), "{words}: {error}");
    }
}

#[test]
fn limits_of_one_request_hold_for_it_alone() {
    let clef = open(&options());
    let long = "late ".repeat(400);
    let whole = clef.decide(ask(&long)).unwrap();
    let cut = clef.decide(ask(&long).max_state_tokens(100)).unwrap();
    assert_eq!(cut.truncated_tokens, whole.decision.input_tokens - cut.decision.input_tokens);
    assert!(cut.truncated_tokens > 0);
    let error = clef.decide(ask(&long).max_length(200)).unwrap_err();
    assert!(error.is_request_fault() && error.to_string().contains("the limit is 200"), "{error}");
    let fitted = clef.decide(ask(&long).max_length(200).truncate()).unwrap();
    assert_eq!(fitted.decision.input_tokens, 200);
}

#[test]
fn a_queue_of_one_answers_every_record_of_a_batch() {
    let engine = EngineConfig { queue_capacity: 1, ..EngineConfig::default() };
    let clef = open(&Options { engine, ..options() });
    let records: Vec<Record> = (0..9).map(|number| ask(&format!("case {number}")).to_record().unwrap()).collect();
    let alone: Vec<_> = records.iter().map(|record| clef.decide(record.clone()).unwrap().decision).collect();
    let together = clef.decide_all(records.clone());
    assert_eq!(together.into_iter().map(|outcome| outcome.unwrap().decision).collect::<Vec<_>>(), alone);
    // Also when threads that know nothing of each other ask.
    std::thread::scope(|scope| {
        let threads: Vec<_> = records.iter().map(|record| scope.spawn(|| clef.decide(record.clone()))).collect();
        for (thread, alone) in threads.into_iter().zip(&alone) {
            assert_eq!(&thread.join().unwrap().unwrap().decision, alone);
        }
    });
}

#[test]
fn a_record_that_could_not_be_made_keeps_its_place() {
    let clef = open(&options());
    let records = [ask("one").to_record(), Request::text("two").to_record(), ask("three").to_record()];
    let records = records.map(|record| record.map_err(Error::from));
    let outcomes: Vec<_> = clef.decide_each(records, NonZeroUsize::new(2).unwrap()).collect();
    let [Ok(_), Err(error), Ok(_)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(error.to_string().contains("questions"), "{error}");
}

#[test]
fn pictures_and_texts_are_asked_together() {
    let model = ModelOptions { projector: Some(tiny_projector()), ..options().model };
    let options = Options { model, ..Options::default() };
    let clef = Clef::open_with(tiny(Tiny::F32), &options, &mut |_, _| true).unwrap();
    let file = |name: &str| std::fs::read(fixture(name)).unwrap();
    let frame = file("images/gradient-64x64.png");
    let requests = [
        ask("text alone"),
        ask("a picture").image(file("images/shapes-300x200.png")),
        ask("a video").video([frame.clone(), frame.clone(), frame], Some(2.0)),
    ];
    let records = requests.each_ref().map(|request| request.to_record().unwrap());
    for (outcome, request) in clef.decide_all(records).into_iter().zip(&requests) {
        assert_eq!(outcome.unwrap().decision, clef.decide(request).unwrap().decision);
    }
    let error = clef.decide(ask("no picture").image(*b"text")).unwrap_err();
    assert!(error.is_request_fault() && error.to_string().starts_with("images.0"), "{error}");
    let error = clef.decide(ask("no frame").video(Vec::<Vec<u8>>::new(), None)).unwrap_err();
    assert!(error.is_request_fault() && error.to_string().contains("no frames"), "{error}");
}
