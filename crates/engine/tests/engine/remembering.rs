//! Answers that were given before.

use clef_engine::{Engine, EngineConfig};
use clef_record::Record;

use crate::fake::{FakeModel, Gate, Log};
use crate::support::{ENCODER, SCHEMA, asking, config, record, wait};

fn remembering(answer_cache: usize, model: FakeModel) -> (Engine, Log) {
    let log = model.log();
    let config = EngineConfig { answer_cache, ..config(10) };
    (Engine::start(ENCODER, model, &config).unwrap(), log)
}

fn ask(engine: &Engine, record: Record) -> clef_engine::Outcome {
    wait(engine.submit(record).unwrap()).unwrap()
}

#[test]
fn a_request_asked_again_is_answered_without_the_model() {
    let gate = Gate::default();
    let (engine, log) = remembering(10, FakeModel::default().gated(&gate));
    gate.let_through(1);
    let first = ask(&engine, record("same"));
    let other = engine.submit(record("other")).unwrap();
    gate.wait_for_arrivals(2);
    // The engine thread stands at the gate.
    let again = ask(&engine, record("same"));
    assert_eq!(again.decision, first.decision);
    assert_eq!((again.reused_tokens, again.timings.backbone.is_zero()), ("same".len() + SCHEMA, true));
    let backwards = ask(&engine, asking("same", &["z", "y", "x"], "q")).decision;
    assert_eq!((backwards.answers[0].choice(), backwards.answers[1].id.as_str()), (Some(0), "q"));
    gate.open();
    wait(other).unwrap();
    assert_eq!(log.begun(), ["same", "other"]);
    let statistics = engine.statistics();
    assert_eq!((statistics.answered, statistics.answer_cache_hits, statistics.in_flight), (4, 2, 0));
    assert_eq!((statistics.prompt_tokens, statistics.reused_tokens, statistics.computed_tokens), (101, 50, 51));
}

#[test]
fn the_answer_that_was_not_asked_for_longest_is_forgotten_first() {
    let (engine, log) = remembering(2, FakeModel::default());
    for state in ["one", "two", "one", "three", "one", "two"] {
        ask(&engine, record(state));
    }
    assert_eq!(log.begun(), ["one", "two", "three", "two"]);
    assert_eq!(engine.statistics().answer_cache_hits, 2);
}

#[test]
fn nothing_is_remembered_unless_asked_for() {
    let (engine, log) = remembering(EngineConfig::default().answer_cache, FakeModel::default());
    ask(&engine, record("same"));
    ask(&engine, record("same"));
    assert_eq!((log.begun().len(), engine.statistics().answer_cache_hits), (2, 0));
}

#[test]
fn faults_are_not_remembered() {
    let (engine, log) = remembering(10, FakeModel::default());
    for state in ["nan", "fail", "nan", "fail"] {
        wait(engine.submit(record(state)).unwrap()).unwrap_err();
    }
    assert_eq!((log.begun().len(), engine.statistics().answer_cache_hits), (4, 0));
}

#[test]
fn an_answer_that_nobody_waited_for_any_more_is_there_for_the_next() {
    let gate = Gate::default();
    let (engine, log) = remembering(10, FakeModel::default().gated(&gate));
    let gone = engine.submit(record("same")).unwrap();
    gate.wait_for_arrivals(1);
    drop(gone);
    gate.open();
    crate::support::spin_until(|| engine.statistics().cancelled == 1);
    ask(&engine, record("same"));
    assert_eq!((log.begun().len(), engine.statistics().answer_cache_hits), (1, 1));
}
