//! The engine with a model that does as it is told.

#![expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use clef_engine::{
    Encode, Engine, EngineConfig, EngineErrorKind, Evaluate, EvaluateError, Evaluation, Health, Job, Outcome, Refusal,
    RefusalKind, Ticket,
};
use clef_record::{Prompt, Record};
use clef_testkit::{FakeEncoder, FakeModel, Gate};

fn record(state: &str) -> Record {
    let questions = r#"{"choose":{"type":"choice","instructions":"Which?","criteria":{"a":"A","b":"B","c":"C"}},
        "true":{"type":"noul","instructions":"Is it?"}}"#;
    let body = format!(r#"{{"model":"m","state":{},"questions":{questions}}}"#, serde_json_string(state));
    Record::parse(body.as_bytes()).unwrap()
}

fn serde_json_string(text: &str) -> String {
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "states of this test need no escapes");
    format!("\"{text}\"")
}

const ENCODER: FakeEncoder = FakeEncoder { limit: 1000 };

fn engine(model: FakeModel, queue_capacity: usize) -> Engine {
    Engine::start(ENCODER, model, &EngineConfig { queue_capacity, encode_threads: 1 }).unwrap()
}

fn gated(queue_capacity: usize) -> (Engine, Gate) {
    let gate = Gate::default();
    (engine(FakeModel { gate: Some(gate.clone()) }, queue_capacity), gate)
}

/// Runs what must not block for ever.
fn ends<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(body()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("it ends, and without a panic")
}

fn wait(ticket: Ticket) -> Result<Outcome, EngineErrorKind> {
    ends(move || ticket.wait().map_err(|error| error.kind()))
}

fn spin_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited for nothing");
        std::thread::yield_now();
    }
}

#[test]
fn an_answer_holds_what_the_model_said() {
    let engine = engine(FakeModel::default(), 1);
    let outcome = wait(engine.submit(record("hello")).unwrap()).unwrap();
    let answers = &outcome.decision.answers;
    assert_eq!(answers.iter().map(|answer| answer.id.as_str()).collect::<Vec<_>>(), ["choose", "true"]);
    // Logits 0, 1, 2: the last option of each question is the likeliest.
    assert_eq!(answers[0].choice(), Some(2));
    assert!((answers[1].noul().unwrap() - 1.0 / (1.0 + 1_f64.exp())).abs() < 1e-6);
    assert_eq!(outcome.decision.input_tokens, "hello".len() + 3 * 7);
    let statistics = engine.statistics();
    assert_eq!((statistics.admitted, statistics.answered, statistics.in_flight), (1, 1, 0));
    assert_eq!(statistics.prompt_tokens, 26);
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
    let engine = engine(FakeModel::default(), 1);
    for round in 0..2000 {
        let state = ["fine", "fail", "nan", "panic"][round % 4];
        let result = wait_here(engine.submit(record(state)).unwrap());
        assert_eq!(result.is_ok(), state == "fine");
        assert_eq!(engine.statistics().in_flight, 0, "round {round}");
    }
    assert_eq!(engine.statistics().rejected, 0);
}

fn wait_here(ticket: Ticket) -> Result<Outcome, EngineErrorKind> {
    ticket.wait().map_err(|error| error.kind())
}

#[test]
fn a_ticket_dropped_while_queued_is_skipped() {
    let (engine, gate) = gated(10);
    let first = engine.submit(record("one")).unwrap();
    gate.wait_for_arrivals(1);
    drop(engine.submit(record("two")).unwrap());
    let third = engine.submit(record("three")).unwrap();
    gate.open();
    wait(first).unwrap();
    wait(third).unwrap();
    let statistics = engine.statistics();
    assert_eq!((statistics.answered, statistics.cancelled, statistics.in_flight), (2, 1, 0));
}

#[test]
fn a_ticket_dropped_while_running_stops_that_one_and_nobody_else() {
    let (engine, gate) = gated(10);
    let first = engine.submit(record("one")).unwrap();
    gate.wait_for_arrivals(1);
    let second = engine.submit(record("two")).unwrap();
    drop(first);
    // The gate is still closed: the second can only arrive because the first was stopped.
    ends({
        let gate = gate.clone();
        move || gate.wait_for_arrivals(2)
    });
    gate.open();
    wait(second).unwrap();
    let statistics = engine.statistics();
    assert_eq!((statistics.answered, statistics.cancelled, statistics.failed), (1, 1, 0));
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
    let engine = engine(FakeModel::default(), 10);
    let ticket = engine.submit(record("fail")).unwrap();
    let error = ends(move || ticket.wait()).unwrap_err();
    assert_eq!((error.kind(), error.message()), (EngineErrorKind::Fault, "told to"));
    wait(engine.submit(record("fine")).unwrap()).unwrap();
    assert_eq!((engine.statistics().failed, engine.health()), (1, Health::Running));
}

#[test]
fn logits_that_are_not_numbers_are_a_fault_without_an_answer() {
    let engine = engine(FakeModel::default(), 10);
    assert_eq!(wait(engine.submit(record("nan")).unwrap()).unwrap_err(), EngineErrorKind::Fault);
    wait(engine.submit(record("fine")).unwrap()).unwrap();
    assert_eq!((engine.statistics().failed, engine.statistics().answered), (1, 1));
}

/// Returns whatever it was made with.
struct Fixed(Vec<Result<Evaluation, EvaluateError>>);

impl Evaluate for Fixed {
    fn evaluate(&mut self, _jobs: &[Job<'_>]) -> Vec<Result<Evaluation, EvaluateError>> {
        self.0.clone()
    }
}

#[test]
fn results_of_the_wrong_shape_are_a_fault() {
    let with_logits = |logits: Vec<Vec<f32>>| vec![Ok(Evaluation { logits, ..Evaluation::default() })];
    let wrong = [
        vec![],
        with_logits(vec![]),
        with_logits(vec![vec![0.0; 3]]),
        with_logits(vec![vec![0.0; 3], vec![0.0]]),
        with_logits(vec![vec![0.0; 3], vec![0.0; 2], vec![0.0]]),
        with_logits(vec![vec![0.0, f32::INFINITY, 1.0], vec![0.0; 2]]),
    ];
    for results in wrong {
        let engine = Engine::start(ENCODER, Fixed(results.clone()), &EngineConfig::default()).unwrap();
        let kind = wait(engine.submit(record("x")).unwrap()).unwrap_err();
        assert_eq!(kind, EngineErrorKind::Fault, "{results:?}");
        assert_eq!(engine.health(), Health::Running);
    }
}

#[test]
fn a_panic_in_the_model_fails_all_that_is_pending_and_everything_after() {
    let (engine, gate) = gated(10);
    let first = engine.submit(record("die")).unwrap();
    gate.wait_for_arrivals(1);
    let pending: Vec<Ticket> = (0..5).map(|_| engine.submit(record("fine")).unwrap()).collect();
    gate.open();
    assert_eq!(wait(first).unwrap_err(), EngineErrorKind::Dead);
    assert_eq!(engine.health(), Health::Dead, "known as soon as the first caller is told");
    assert_eq!(engine.submit(record("fine")).unwrap_err().kind(), EngineErrorKind::Dead);
    for ticket in pending {
        assert_eq!(wait(ticket).unwrap_err(), EngineErrorKind::Dead);
    }
    let statistics = engine.statistics();
    assert_eq!((statistics.admitted, statistics.failed, statistics.in_flight), (6, 6, 0));
    ends({
        let engine = engine.clone();
        move || engine.shut_down()
    });
    assert_eq!(engine.health(), Health::Dead);
}

/// An encoder that holds the state `slow` up until the door is opened.
#[derive(Clone, Default)]
struct SlowEncoder(Arc<(Mutex<Door>, Condvar)>);

#[derive(Default)]
struct Door {
    open: bool,
    entered: bool,
}

impl SlowEncoder {
    fn wait_for_entry(&self) {
        let mut door = self.0.0.lock().unwrap();
        while !door.entered {
            door = self.0.1.wait(door).unwrap();
        }
    }

    fn open(&self) {
        self.0.0.lock().unwrap().open = true;
        self.0.1.notify_all();
    }
}

impl Encode for SlowEncoder {
    fn encode(&self, record: &Record) -> Result<Prompt, Refusal> {
        if record.state == "slow" {
            let mut door = self.0.0.lock().unwrap();
            door.entered = true;
            self.0.1.notify_all();
            while !door.open {
                door = self.0.1.wait(door).unwrap();
            }
        }
        ENCODER.encode(record)
    }
}

/// A waker that looks at the engine from inside the wake.
struct Looks {
    engine: Mutex<Option<Engine>>,
    seen: mpsc::Sender<(Health, u64)>,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        if let Some(engine) = self.engine.lock().unwrap().take() {
            self.seen.send((engine.health(), engine.statistics().in_flight)).unwrap();
        }
    }
}

#[test]
fn a_request_that_is_being_encoded_when_the_model_dies_is_told_so_outside_of_any_lock() {
    let encoder = SlowEncoder::default();
    let gate = Gate::default();
    let config = EngineConfig { queue_capacity: 10, encode_threads: 2 };
    let engine = Engine::start(encoder.clone(), FakeModel { gate: Some(gate.clone()) }, &config).unwrap();
    let dies = engine.submit(record("die")).unwrap();
    gate.wait_for_arrivals(1);
    let mut slow = engine.submit(record("slow")).unwrap();
    encoder.wait_for_entry();

    let (seen, sees) = mpsc::channel();
    let waker = Waker::from(Arc::new(Looks { engine: Mutex::new(Some(engine.clone())), seen }));
    assert!(Pin::new(&mut slow).poll(&mut Context::from_waker(&waker)).is_pending());
    gate.open();
    assert_eq!(wait(dies).unwrap_err(), EngineErrorKind::Dead);
    assert_eq!(engine.statistics().in_flight, 1);
    encoder.open();
    assert_eq!(sees.recv_timeout(Duration::from_secs(60)), Ok((Health::Dead, 0)));
    assert_eq!(wait(slow).unwrap_err(), EngineErrorKind::Dead);
}

#[test]
fn shutting_down_answers_what_was_taken_and_then_refuses() {
    let (engine, gate) = gated(100);
    let tickets: Vec<Ticket> = (0..10).map(|_| engine.submit(record("fine")).unwrap()).collect();
    gate.wait_for_arrivals(1);
    let ending = std::thread::spawn({
        let engine = engine.clone();
        move || engine.shut_down()
    });
    spin_until(|| engine.health() == Health::Draining);
    assert_eq!(engine.submit(record("fine")).unwrap_err().kind(), EngineErrorKind::ShuttingDown);
    gate.open();
    ends(move || ending.join().unwrap());
    assert_eq!(engine.health(), Health::Stopped);
    for ticket in tickets {
        wait(ticket).unwrap();
    }
    let error = engine.submit(record("fine")).unwrap_err();
    assert_eq!(error.kind(), EngineErrorKind::ShuttingDown);
    assert_eq!((engine.statistics().answered, engine.statistics().in_flight), (10, 0));
    ends(move || engine.shut_down());
}

#[test]
fn everybody_who_shuts_down_waits_for_the_end() {
    let (engine, gate) = gated(100);
    let _ticket = engine.submit(record("fine")).unwrap();
    gate.wait_for_arrivals(1);
    let (calls, called) = mpsc::channel();
    let enders: Vec<_> = (0..3)
        .map(|_| {
            let (engine, calls) = (engine.clone(), calls.clone());
            std::thread::spawn(move || {
                calls.send(()).unwrap();
                engine.shut_down();
                engine.health()
            })
        })
        .collect();
    (0..3).for_each(|_| called.recv().unwrap());
    spin_until(|| engine.health() == Health::Draining);
    // Gives one that does not wait the time to return.
    (0..1000).for_each(|_| std::thread::yield_now());
    gate.open();
    for ender in enders {
        assert_eq!(ends(move || ender.join().unwrap()), Health::Stopped);
    }
}

/// Shows by its count whether the threads that held copies are gone.
#[derive(Clone)]
struct Counted<T>(T, #[expect(dead_code, reason = "only counted")] Arc<()>);

impl Encode for Counted<FakeEncoder> {
    fn encode(&self, record: &Record) -> Result<Prompt, Refusal> {
        self.0.encode(record)
    }
}

impl Evaluate for Counted<FakeModel> {
    fn evaluate(&mut self, jobs: &[Job<'_>]) -> Vec<Result<Evaluation, EvaluateError>> {
        self.0.evaluate(jobs)
    }
}

#[test]
fn dropping_the_last_handle_ends_the_threads_and_answers_what_was_taken() {
    let count = Arc::new(());
    let encoder = Counted(ENCODER, Arc::clone(&count));
    let model = Counted(FakeModel::default(), Arc::clone(&count));
    let engine = Engine::start(encoder, model, &EngineConfig { queue_capacity: 100, encode_threads: 3 }).unwrap();
    assert_eq!(Arc::strong_count(&count), 3);
    let tickets: Vec<Ticket> = (0..20).map(|_| engine.submit(record("fine")).unwrap()).collect();
    let other = engine.clone();
    drop(engine);
    assert_eq!(other.health(), Health::Running);
    ends(move || drop(other));
    assert_eq!(Arc::strong_count(&count), 1);
    for ticket in tickets {
        wait(ticket).unwrap();
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
fn sixty_four_threads_with_fifty_requests_each_get_their_own_answers() {
    let config = EngineConfig { queue_capacity: 64, encode_threads: 3 };
    let engine = Engine::start(ENCODER, FakeModel::default(), &config).unwrap();
    let threads: Vec<_> = (0..64_usize)
        .map(|thread| {
            let engine = engine.clone();
            std::thread::spawn(move || {
                for round in 0..50 {
                    let length = 1 + (thread * 50 + round) % 997;
                    // One thread has one request at a time, so there is always room.
                    let outcome = engine.submit(record(&"s".repeat(length))).unwrap().wait().unwrap();
                    assert_eq!(outcome.decision.input_tokens, length + 21);
                }
            })
        })
        .collect();
    ends(move || threads.into_iter().for_each(|thread| thread.join().unwrap()));
    let statistics = engine.statistics();
    assert_eq!((statistics.admitted, statistics.answered, statistics.rejected), (3200, 3200, 0));
    assert_eq!((statistics.failed, statistics.cancelled, statistics.in_flight), (0, 0, 0));
}

#[test]
fn requests_are_evaluated_in_the_order_they_came() {
    #[derive(Clone, Default)]
    struct Remembers(Arc<Mutex<Vec<usize>>>);
    impl Evaluate for Remembers {
        fn evaluate(&mut self, jobs: &[Job<'_>]) -> Vec<Result<Evaluation, EvaluateError>> {
            self.0.lock().unwrap().push(jobs[0].prompt.state_end);
            FakeModel::default().evaluate(jobs)
        }
    }
    let model = Remembers::default();
    let engine =
        Engine::start(ENCODER, model.clone(), &EngineConfig { queue_capacity: 100, encode_threads: 1 }).unwrap();
    let tickets: Vec<Ticket> = (1..=50).map(|length| engine.submit(record(&"s".repeat(length))).unwrap()).collect();
    tickets.into_iter().for_each(|ticket| drop(wait(ticket).unwrap()));
    assert_eq!(*model.0.lock().unwrap(), (1..=50).collect::<Vec<_>>());
}

/// Wakes by unparking the thread that blocks.
struct Unpark(std::thread::Thread, AtomicUsize);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, SeqCst);
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> (F::Output, usize) {
    let mut future = Box::pin(future);
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return (output, unpark.1.load(SeqCst)),
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_ticket_is_a_future_that_wakes_when_the_answer_is_there() {
    let (engine, gate) = gated(10);
    let mut ticket = engine.submit(record("fine")).unwrap();
    assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let waiter = std::thread::spawn(move || block_on(ticket));
    gate.wait_for_arrivals(1);
    gate.open();
    let (outcome, _wakes) = ends(move || waiter.join().unwrap());
    assert_eq!(outcome.unwrap().decision.answers.len(), 2);

    let refused = engine.submit(record("fail")).unwrap();
    assert_eq!(ends(move || block_on(refused)).0.unwrap_err().kind(), EngineErrorKind::Fault);
}

#[test]
fn a_future_dropped_after_its_first_poll_cancels_the_request() {
    let (engine, gate) = gated(10);
    let mut ticket = engine.submit(record("one")).unwrap();
    gate.wait_for_arrivals(1);
    assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(ticket);
    spin_until(|| engine.statistics().cancelled == 1);
}

/// Reports how long it took, as a real model does.
struct Timed(FakeModel);

impl Evaluate for Timed {
    fn evaluate(&mut self, jobs: &[Job<'_>]) -> Vec<Result<Evaluation, EvaluateError>> {
        let start = Instant::now();
        let mut results = self.0.evaluate(jobs);
        for evaluation in results.iter_mut().flatten() {
            evaluation.backbone = start.elapsed();
        }
        results
    }
}

#[test]
fn the_parts_of_a_requests_time_fit_into_the_whole_and_count_the_wait_for_others() {
    let gate = Gate::default();
    let model = Timed(FakeModel { gate: Some(gate.clone()) });
    let engine = Engine::start(ENCODER, model, &EngineConfig::default()).unwrap();
    let start = Instant::now();
    let first = engine.submit(record("one")).unwrap();
    gate.wait_for_arrivals(1);
    let second = engine.submit(record("two")).unwrap();
    let submitted = Instant::now();
    spin_until(|| submitted.elapsed() > Duration::from_millis(20));
    let held_up = submitted.elapsed();
    gate.open();
    for (ticket, waits_in) in [(first, "the model"), (second, "the queue")] {
        let timings = wait(ticket).unwrap().timings;
        let sum = timings.queue + timings.encode + timings.media + timings.backbone + timings.head;
        assert!(sum <= start.elapsed(), "{timings:?}");
        let part = if waits_in == "the model" { timings.backbone } else { timings.queue + timings.encode };
        assert!(part >= held_up, "{held_up:?} in {waits_in}: {timings:?}");
    }
}

/// xorshift; good enough to mix cases.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[test]
fn every_admitted_request_is_counted_exactly_once_whatever_happens_to_it() {
    for seed in 1..=40_u64 {
        eprintln!("seed {seed}");
        let config = EngineConfig { queue_capacity: 20, encode_threads: 1 + (seed % 3) as usize };
        let engine = Engine::start(ENCODER, FakeModel::default(), &config).unwrap();
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let engine = engine.clone();
                let mut random = Random(seed * 1_000_003 + client);
                std::thread::spawn(move || {
                    let mut outcomes = BTreeMap::<&str, u64>::new();
                    for _ in 0..50 {
                        let state = ["fine", "fine", "fail", "nan", "panic"][random.below(5) as usize];
                        let outcome = match engine.submit(record(state)) {
                            Err(error) if error.kind() == EngineErrorKind::QueueFull => "rejected",
                            Err(error) => panic!("{error}"),
                            Ok(ticket) if random.below(3) == 0 => {
                                drop(ticket);
                                "dropped"
                            }
                            Ok(ticket) => match ticket.wait() {
                                Ok(_) if state == "fine" => "answered",
                                Err(error) if error.kind() == EngineErrorKind::Fault && state != "fine" => "failed",
                                other => panic!("{state}: {other:?}"),
                            },
                        };
                        *outcomes.entry(outcome).or_default() += 1;
                    }
                    outcomes
                })
            })
            .collect();
        let mut seen = BTreeMap::<&str, u64>::new();
        for client in clients {
            for (outcome, count) in ends(move || client.join().unwrap()) {
                *seen.entry(outcome).or_default() += count;
            }
        }
        ends({
            let engine = engine.clone();
            move || engine.shut_down()
        });
        let seen = |outcome| seen.get(outcome).copied().unwrap_or(0);
        let s = engine.statistics();
        assert_eq!(s.in_flight, 0);
        assert_eq!((s.admitted + s.rejected, s.rejected), (200, seen("rejected")));
        assert_eq!(s.admitted, s.answered + s.failed + s.cancelled);
        // A dropped request may have been faster than its drop.
        assert!(s.answered >= seen("answered") && s.failed >= seen("failed") && s.cancelled <= seen("dropped"));
    }
}
