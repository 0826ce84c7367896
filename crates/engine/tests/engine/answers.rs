//! What comes back: answers, refusals, faults.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clef_engine::{
    Begun, Engine, EngineConfig, EngineErrorKind, Evaluate, EvaluateError, Evaluation, Health, HeldState, LaneId,
    RefusalKind, Step,
};
use clef_record::Prompt;

use crate::fake::{FakeEncoder, FakeModel, Gate};
use crate::support::{ENCODER, SCHEMA, ends, engine, gated, record, spin_until, sum, wait};

#[test]
fn an_answer_holds_what_the_model_said() {
    let engine = engine(FakeModel::default(), 1);
    let outcome = wait(engine.submit(record("hello")).unwrap()).unwrap();
    let answers = &outcome.decision.answers;
    assert_eq!(answers.iter().map(|answer| answer.id.as_str()).collect::<Vec<_>>(), ["choose", "true"]);
    // Logits 0, 1, 2: the last option of each question is the likeliest.
    assert_eq!(answers[0].choice(), Some(2));
    assert!((answers[1].noul().unwrap() - 1.0 / (1.0 + 1_f64.exp())).abs() < 1e-6);
    assert_eq!((outcome.decision.input_tokens, outcome.reused_tokens), ("hello".len() + SCHEMA, 0));
    let statistics = engine.statistics();
    assert_eq!((statistics.admitted, statistics.answered, statistics.in_flight), (1, 1, 0));
    assert_eq!((statistics.prompt_tokens, statistics.reused_tokens, statistics.computed_tokens), (26, 0, 26));
    assert_eq!(engine.health(), Health::Running);
}

#[test]
fn a_full_queue_refuses_with_both_numbers_and_works_again_afterwards() {
    let (engine, gate) = gated(2);
    let first = engine.submit(record("one")).unwrap();
    gate.wait_for_arrivals(1);
    let second = engine.submit(record("two")).unwrap();
    let error = engine.submit(record("three")).unwrap_err();
    assert_eq!(error.kind(), EngineErrorKind::QueueFull);
    assert_eq!(error.message(), "2 requests are waiting, the limit is 2");
    assert_eq!((engine.statistics().rejected, engine.statistics().in_flight), (1, 2));
    gate.open();
    wait(first).unwrap();
    wait(second).unwrap();
    wait(engine.submit(record("four")).unwrap()).unwrap();
    assert_eq!(engine.statistics().answered, 3);
}

#[test]
fn whoever_has_an_answer_or_an_error_can_come_again_at_once() {
    for model in [FakeModel::default(), FakeModel::default().reading(9).beside(&[30])] {
        let engine = engine(model, 1);
        for round in 0..1000 {
            let state = ["fine", "fail", "nan", "panic", "stuck"][round % 5];
            let result = engine.submit(record(state)).unwrap().wait();
            assert_eq!(result.is_ok(), state == "fine");
            assert_eq!(engine.statistics().in_flight, 0, "round {round}");
        }
        assert_eq!(engine.statistics().rejected, 0);
    }
}

#[test]
fn a_panic_in_the_encoder_costs_one_request_only() {
    let engine = engine(FakeModel::default(), 10);
    assert_eq!(wait(engine.submit(record("panic")).unwrap()).unwrap_err(), EngineErrorKind::Fault);
    wait(engine.submit(record("fine")).unwrap()).unwrap();
    assert_eq!((engine.statistics().failed, engine.health()), (1, Health::Running));
}

#[test]
fn a_failed_evaluation_costs_one_request_only() {
    for state in ["fail", "stuck"] {
        let engine = engine(FakeModel::default(), 10);
        let ticket = engine.submit(record(state)).unwrap();
        let error = ends(move || ticket.wait()).unwrap_err();
        assert_eq!((error.kind(), error.message()), (EngineErrorKind::Fault, "told to"));
        wait(engine.submit(record("fine")).unwrap()).unwrap();
        assert_eq!((engine.statistics().failed, engine.health()), (1, Health::Running));
    }
}

#[test]
fn logits_that_are_not_numbers_are_a_fault_without_an_answer() {
    let engine = engine(FakeModel::default(), 10);
    assert_eq!(wait(engine.submit(record("nan")).unwrap()).unwrap_err(), EngineErrorKind::Fault);
    wait(engine.submit(record("fine")).unwrap()).unwrap();
    assert_eq!((engine.statistics().failed, engine.statistics().answered), (1, 1));
}

/// Returns whatever it was made with.
struct Fixed(Vec<Result<Step, EvaluateError>>);

impl Evaluate for Fixed {
    fn lanes(&self) -> Vec<usize> {
        vec![usize::MAX]
    }

    fn steps(&self, _prompt: &Prompt) -> usize {
        0
    }

    fn begin(&mut self, _lane: LaneId, _prompt: &Arc<Prompt>) -> Result<Begun, EvaluateError> {
        Ok(Begun { reused_tokens: usize::MAX, steps: 0 })
    }

    fn step(&mut self, _lanes: &[LaneId]) -> Vec<Result<Step, EvaluateError>> {
        self.0.clone()
    }

    fn abandon(&mut self, _lane: LaneId) {}

    fn held(&self) -> Vec<HeldState> {
        Vec::new()
    }
}

#[test]
fn results_of_the_wrong_shape_are_a_fault() {
    let with_logits = |logits: Vec<Vec<f32>>| vec![Ok(Step::Answered(Evaluation { logits, ..Evaluation::default() }))];
    let wrong = [
        vec![],
        with_logits(vec![]),
        with_logits(vec![vec![0.0; 3]]),
        with_logits(vec![vec![0.0; 3], vec![0.0]]),
        with_logits(vec![vec![0.0; 3], vec![0.0; 2], vec![0.0]]),
        with_logits(vec![vec![0.0, f32::INFINITY, 1.0], vec![0.0; 2]]),
    ];
    for results in wrong {
        let config = EngineConfig { answer_cache: 10, ..EngineConfig::default() };
        let engine = Engine::start(ENCODER, Fixed(results.clone()), &config).unwrap();
        for _ in 0..2 {
            let kind = wait(engine.submit(record("x")).unwrap()).unwrap_err();
            assert_eq!(kind, EngineErrorKind::Fault, "{results:?}");
        }
        assert_eq!((engine.health(), engine.statistics().answer_cache_hits), (Health::Running, 0));
    }
}

#[test]
fn a_prompt_that_is_too_long_is_refused_with_both_numbers() {
    let engine = Engine::start(FakeEncoder { limit: 5 }, FakeModel::default(), &EngineConfig::default()).unwrap();
    let kind = wait(engine.submit(record("ninechars")).unwrap()).unwrap_err();
    assert_eq!(kind, EngineErrorKind::Refused(RefusalKind::TooLong { tokens: 9, limit: 5 }));
    wait(engine.submit(record("five5")).unwrap()).unwrap();
    assert_eq!((engine.statistics().failed, engine.statistics().answered), (1, 1));
}

#[test]
fn a_held_state_is_not_computed_again_and_is_shown() {
    let engine = engine(FakeModel::default().holding(), 10);
    assert_eq!(engine.held(), []);
    for (round, reused_tokens) in [0, 5, 5].into_iter().enumerate() {
        let outcome = wait(engine.submit(record("hello")).unwrap()).unwrap();
        assert_eq!(outcome.reused_tokens, reused_tokens);
        let held = HeldState { tokens: 5, boundaries: vec![5], bytes: 20, uses: round as u64 };
        assert_eq!(engine.held(), [held]);
    }
    let statistics = engine.statistics();
    assert_eq!((statistics.prompt_tokens, statistics.reused_tokens, statistics.computed_tokens), (78, 10, 68));
    assert_eq!((statistics.held_states, statistics.held_bytes), (1, 20));
}

#[test]
fn the_parts_of_a_requests_time_fit_into_the_whole_and_count_the_wait_for_others() {
    let gate = Gate::default();
    let engine = Engine::start(ENCODER, FakeModel::default().gated(&gate), &EngineConfig::default()).unwrap();
    let start = Instant::now();
    let first = engine.submit(record("one")).unwrap();
    gate.wait_for_arrivals(1);
    let second = engine.submit(record("two")).unwrap();
    let submitted = Instant::now();
    spin_until(|| submitted.elapsed() > Duration::from_millis(20));
    let held_up = submitted.elapsed();
    gate.open();
    for (ticket, waits_in) in [(first, "the model"), (second, "the queue")] {
        let outcome = wait(ticket).unwrap();
        let timings = outcome.timings;
        assert!(sum(&outcome) <= start.elapsed(), "{timings:?}");
        let part = if waits_in == "the model" { timings.backbone } else { timings.queue + timings.encode };
        assert!(part >= held_up, "{held_up:?} in {waits_in}: {timings:?}");
    }
}
