//! Requests that ask for the same work share it.

use std::time::Instant;

use clef_engine::{Engine, EngineErrorKind, LaneId, Ticket};

use crate::fake::{Event, FakeModel, Gate, Log};
use crate::support::{SCHEMA, arrivals, asking, ends, engine, record, settle, sum, wait};

/// A model with a gate that reads ten tokens in a step: three for `same`.
fn in_steps() -> (Engine, Gate, Log) {
    let gate = Gate::default();
    let model = FakeModel::default().gated(&gate).reading(10);
    let log = model.log();
    (engine(model, 100), gate, log)
}

const TOKENS: usize = "same".len() + SCHEMA;

#[test]
fn eight_equal_requests_at_once_cost_the_work_of_one() {
    let (engine, gate, log) = in_steps();
    let name = |index: usize| format!("q{index}");
    let tickets: Vec<Ticket> =
        (0..8).map(|index| engine.submit(asking("same", &["a", "b", "c"], &name(index))).unwrap()).collect();
    settle(&engine);
    gate.open();
    for (index, ticket) in tickets.into_iter().enumerate() {
        let outcome = wait(ticket).unwrap();
        assert_eq!(outcome.decision.answers[1].id, name(index), "each gets its own record's answer");
        assert_eq!(outcome.reused_tokens, if index == 0 { 0 } else { TOKENS });
        assert_eq!(outcome.timings.backbone.is_zero(), index > 0);
    }
    assert_eq!((log.begun().len(), log.steps(), log.decoded_tokens()), (1, 3, TOKENS));
    let statistics = engine.statistics();
    assert_eq!((statistics.answered, statistics.merged, statistics.in_flight), (8, 7, 0));
    let tokens = (statistics.prompt_tokens, statistics.reused_tokens, statistics.computed_tokens);
    assert_eq!(tokens, (8 * TOKENS as u64, 7 * TOKENS as u64, TOKENS as u64));
}

#[test]
fn each_member_is_answered_in_the_order_of_its_own_options() {
    let (engine, gate, log) = in_steps();
    let forwards = engine.submit(asking("same", &["a", "b", "c"], "q")).unwrap();
    let backwards = engine.submit(asking("same", &["c", "b", "a"], "q")).unwrap();
    settle(&engine);
    gate.open();
    let (forwards, backwards) = (wait(forwards).unwrap().decision, wait(backwards).unwrap().decision);
    let keys = |choice: usize, decision: &clef_record::Decision| decision.answers[0].options[choice].key.clone();
    assert_eq!((forwards.answers[0].choice(), keys(2, &forwards).as_str()), (Some(2), "c"));
    assert_eq!((backwards.answers[0].choice(), keys(0, &backwards).as_str()), (Some(0), "c"));
    assert_eq!(log.begun(), ["same"]);
}

#[test]
fn requests_that_differ_in_what_the_model_reads_are_not_merged() {
    let (engine, gate, log) = in_steps();
    let tickets =
        [record("same"), record("some"), asking("same", &["a", "b"], "q")].map(|record| engine.submit(record).unwrap());
    settle(&engine);
    gate.open();
    tickets.into_iter().for_each(|ticket| drop(wait(ticket).unwrap()));
    assert_eq!((log.begun().len(), engine.statistics().merged), (3, 0));
}

#[test]
fn a_member_that_leaves_takes_nothing_with_it() {
    let (engine, gate, log) = in_steps();
    let mut tickets: Vec<Ticket> = (0..3).map(|_| engine.submit(record("same")).unwrap()).collect();
    settle(&engine);
    arrivals(&gate, 1);
    drop(tickets.remove(0));
    gate.open();
    for ticket in tickets {
        assert_eq!(wait(ticket).unwrap().decision.answers.len(), 2);
    }
    assert_eq!((log.begun().len(), log.steps()), (1, 3));
    assert_eq!((engine.statistics().answered, engine.statistics().cancelled), (2, 1));
}

#[test]
fn work_is_given_up_between_steps_when_all_members_are_gone() {
    let (engine, gate, log) = in_steps();
    let tickets = [record("same"), record("same")].map(|record| engine.submit(record).unwrap());
    let next = engine.submit(record("next")).unwrap();
    settle(&engine);
    arrivals(&gate, 1);
    let [first, second] = tickets;
    drop(first);
    gate.let_through(1);
    arrivals(&gate, 2);
    drop(second);
    gate.let_through(1);
    arrivals(&gate, 3);
    let (lane, step) = (LaneId(0), || Event::Step(vec![LaneId(0)]));
    let begin = |state: &str| Event::Begin(lane, state.to_owned());
    assert_eq!(log.events(), [begin("same"), step(), step(), Event::Abandon(lane), begin("next"), step()]);
    assert_eq!((engine.statistics().cancelled, engine.statistics().in_flight), (2, 1));
    gate.open();
    wait(next).unwrap();
}

#[test]
fn a_task_that_waits_is_dropped_when_all_members_are_gone() {
    let (engine, gate, log) = in_steps();
    let first = engine.submit(record("first")).unwrap();
    arrivals(&gate, 1);
    let tickets = [record("same"), record("same")].map(|record| engine.submit(record).unwrap());
    settle(&engine);
    drop(tickets);
    gate.open();
    wait(first).unwrap();
    wait(engine.submit(record("last")).unwrap()).unwrap();
    assert_eq!(log.begun(), ["first", "last"]);
    assert_eq!(engine.statistics().cancelled, 2);
}

#[test]
fn a_request_joins_one_that_runs_and_reports_times_of_its_own() {
    let (engine, gate, log) = in_steps();
    let first = engine.submit(record("same")).unwrap();
    gate.let_through(2);
    arrivals(&gate, 3);
    // It comes during the last step.
    let start = Instant::now();
    let late = engine.submit(record("same")).unwrap();
    settle(&engine);
    gate.open();
    let late = wait(late).unwrap();
    assert!(sum(&late) <= start.elapsed(), "{:?} in {:?}", late.timings, start.elapsed());
    assert_eq!((late.timings.backbone.is_zero(), late.timings.head.is_zero()), (true, true));
    assert_eq!(late.reused_tokens, TOKENS);
    let first = wait(first).unwrap();
    assert_eq!((first.reused_tokens, first.timings.backbone.is_zero()), (0, false));
    assert_eq!((log.begun().len(), log.steps(), engine.statistics().merged), (1, 3, 1));
}

#[test]
fn whoever_joined_late_and_stays_alone_still_reports_times_of_its_own() {
    let (engine, gate, log) = in_steps();
    let first = engine.submit(record("same")).unwrap();
    gate.let_through(1);
    arrivals(&gate, 2);
    let start = Instant::now();
    let late = engine.submit(record("same")).unwrap();
    settle(&engine);
    gate.let_through(1);
    arrivals(&gate, 3);
    drop(first);
    gate.open();
    let late = wait(late).unwrap();
    assert!(sum(&late) <= start.elapsed(), "{:?} in {:?}", late.timings, start.elapsed());
    assert_eq!((late.timings.backbone.is_zero(), late.reused_tokens), (true, TOKENS));
    assert_eq!((log.steps(), engine.statistics().computed_tokens), (3, TOKENS as u64));
}

#[test]
fn a_failure_is_everybodys() {
    for state in ["fail", "stuck", "nan"] {
        let gate = Gate::default();
        let engine = engine(FakeModel::default().gated(&gate), 100);
        let before = engine.submit(record("before")).unwrap();
        gate.wait_for_arrivals(1);
        let tickets: Vec<Ticket> = (0..3).map(|_| engine.submit(record(state)).unwrap()).collect();
        settle(&engine);
        gate.open();
        wait(before).unwrap();
        for ticket in tickets {
            let error = ends(move || ticket.wait()).unwrap_err();
            assert_eq!(error.kind(), EngineErrorKind::Fault, "{state}");
        }
        let statistics = engine.statistics();
        assert_eq!((statistics.failed, statistics.merged, statistics.in_flight), (4, 2, 0), "{state}");
        wait(engine.submit(record("fine")).unwrap()).unwrap();
    }
}
