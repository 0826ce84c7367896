//! How engines end: in good order, with a panic, with their last handle.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use clef_engine::{
    Begun, Encode, Engine, EngineConfig, EngineErrorKind, Evaluate, EvaluateError, Health, HeldState, LaneId, Refusal,
    Step, Ticket,
};
use clef_record::{Prompt, Record};

use crate::fake::{FakeEncoder, FakeModel, Gate};
use crate::support::{ENCODER, arrivals, config, ends, engine, gated, record, settle, shut_down, spin_until, wait};

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
    shut_down(&engine);
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
    let config = EngineConfig { encode_threads: 2, ..config(10) };
    let engine = Engine::start(encoder.clone(), FakeModel::default().gated(&gate), &config).unwrap();
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
    fn lanes(&self) -> Vec<usize> {
        self.0.lanes()
    }

    fn steps(&self, prompt: &Prompt) -> usize {
        self.0.steps(prompt)
    }

    fn begin(&mut self, lane: LaneId, prompt: &Arc<Prompt>) -> Result<Begun, EvaluateError> {
        self.0.begin(lane, prompt)
    }

    fn step(&mut self, lanes: &[LaneId]) -> Vec<Result<Step, EvaluateError>> {
        self.0.step(lanes)
    }

    fn abandon(&mut self, lane: LaneId) {
        self.0.abandon(lane);
    }

    fn held(&self) -> Vec<HeldState> {
        self.0.held()
    }
}

#[test]
fn dropping_the_last_handle_ends_the_threads_and_answers_what_was_taken() {
    let count = Arc::new(());
    let encoder = Counted(ENCODER, Arc::clone(&count));
    let model = Counted(FakeModel::default(), Arc::clone(&count));
    let engine = Engine::start(encoder, model, &EngineConfig { encode_threads: 3, ..config(100) }).unwrap();
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

/// A long request in lane 0 and a short one beside it, both at the gate in turns.
fn both_lanes_busy(short: &str) -> (Engine, Gate, [Ticket; 2]) {
    let gate = Gate::default();
    let engine = engine(FakeModel::default().gated(&gate).reading(10).beside(&[40]), 100);
    let long = engine.submit(record(&"l".repeat(100))).unwrap();
    gate.wait_for_arrivals(1);
    let short = engine.submit(record(short)).unwrap();
    settle(&engine);
    gate.let_through(1);
    arrivals(&gate, 2);
    assert_eq!(engine.lanes().iter().filter(|lane| lane.work.is_some()).count(), 2);
    (engine, gate, [long, short])
}

#[test]
fn a_panic_in_one_lane_fails_what_is_in_the_others_too() {
    let (engine, gate, tickets) = both_lanes_busy("die");
    let waiting = engine.submit(record("waiting")).unwrap();
    settle(&engine);
    gate.open();
    for ticket in tickets.into_iter().chain([waiting]) {
        assert_eq!(wait(ticket).unwrap_err(), EngineErrorKind::Dead);
    }
    let statistics = engine.statistics();
    assert_eq!((engine.health(), statistics.in_flight, statistics.running), (Health::Dead, 0, 0));
    // Two of them are from `settle`.
    assert_eq!((statistics.failed, statistics.answered), (5, 0));
}

#[test]
fn a_panic_fails_everybody_who_asked_for_the_same() {
    let (engine, gate) = gated(10);
    let tickets: Vec<Ticket> = (0..3).map(|_| engine.submit(record("die")).unwrap()).collect();
    settle(&engine);
    gate.open();
    for ticket in tickets {
        assert_eq!(wait(ticket).unwrap_err(), EngineErrorKind::Dead);
    }
    assert_eq!((engine.statistics().failed, engine.statistics().in_flight), (4, 0));
}

#[test]
fn shutting_down_answers_what_is_in_all_lanes() {
    let (engine, gate, tickets) = both_lanes_busy("short");
    let waiting = engine.submit(record("waiting")).unwrap();
    let ending = std::thread::spawn({
        let engine = engine.clone();
        move || engine.shut_down()
    });
    spin_until(|| engine.health() == Health::Draining);
    gate.open();
    for ticket in tickets.into_iter().chain([waiting]) {
        wait(ticket).unwrap();
    }
    ends(move || ending.join().unwrap());
    assert_eq!((engine.health(), engine.statistics().in_flight), (Health::Stopped, 0));
}

#[test]
fn a_model_without_lanes_is_refused() {
    struct None;
    impl Evaluate for None {
        fn lanes(&self) -> Vec<usize> {
            Vec::new()
        }

        fn steps(&self, _: &Prompt) -> usize {
            unreachable!()
        }

        fn begin(&mut self, _: LaneId, _: &Arc<Prompt>) -> Result<Begun, EvaluateError> {
            unreachable!()
        }

        fn step(&mut self, _: &[LaneId]) -> Vec<Result<Step, EvaluateError>> {
            unreachable!()
        }

        fn abandon(&mut self, _: LaneId) {
            unreachable!()
        }

        fn held(&self) -> Vec<HeldState> {
            unreachable!()
        }
    }
    let error = Engine::start(ENCODER, None, &config(1)).unwrap_err();
    assert_eq!(error.to_string(), "the model has no lane");
}
