//! Records to ask, engines to ask them of, and waiting that ends.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use clef_engine::{Engine, EngineConfig, EngineErrorKind, Outcome, RefusalKind, Ticket};
use clef_record::Record;

use crate::fake::{FakeEncoder, FakeModel, Gate};

pub(crate) const ENCODER: FakeEncoder = FakeEncoder { limit: 1000 };

/// Tokens that the questions of [`record`] add to those of the state.
pub(crate) const SCHEMA: usize = 3 * 7;

pub(crate) fn record(state: &str) -> Record {
    asking(state, &["a", "b", "c"], "true")
}

/// A choice between options, in that order, and a question of yes or no that goes by a name. Other options or another
/// name make no other prompt; another number of options does.
pub(crate) fn asking(state: &str, options: &[&str], name: &str) -> Record {
    assert!(state.bytes().all(|byte| byte.is_ascii_alphanumeric()), "states of these tests need no escapes");
    let criteria: Vec<String> = options.iter().map(|option| format!(r#""{option}":null"#)).collect();
    let choose = format!(r#"{{"type":"choice","instructions":"Which?","criteria":{{{}}}}}"#, criteria.join(","));
    let noul = r#"{"type":"noul","instructions":"Is it?"}"#;
    let body = format!(r#"{{"model":"m","state":"{state}","questions":{{"choose":{choose},"{name}":{noul}}}}}"#);
    Record::parse(body.as_bytes()).unwrap()
}

/// Encodes on one thread, so that requests are ready in the order in which they were handed in.
pub(crate) fn config(queue_capacity: usize) -> EngineConfig {
    EngineConfig { queue_capacity, encode_threads: 1, ..EngineConfig::default() }
}

pub(crate) fn engine(model: FakeModel, queue_capacity: usize) -> Engine {
    Engine::start(ENCODER, model, &config(queue_capacity)).unwrap()
}

pub(crate) fn gated(queue_capacity: usize) -> (Engine, Gate) {
    let gate = Gate::default();
    (engine(FakeModel::default().gated(&gate), queue_capacity), gate)
}

/// Waits until all that was handed in lies ready for the engine thread: one that is refused by the encoder, which is a
/// single thread here, is answered after those before it are through.
pub(crate) fn settle(engine: &Engine) {
    let kind = wait(engine.submit(record(&"x".repeat(1001))).unwrap()).unwrap_err();
    assert_eq!(kind, EngineErrorKind::Refused(RefusalKind::TooLong { tokens: 1001, limit: 1000 }));
}

/// Runs what must not block for ever.
pub(crate) fn ends<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(body()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("it ends, and without a panic")
}

pub(crate) fn wait(ticket: Ticket) -> Result<Outcome, EngineErrorKind> {
    ends(move || ticket.wait().map_err(|error| error.kind()))
}

pub(crate) fn shut_down(engine: &Engine) {
    let engine = engine.clone();
    ends(move || engine.shut_down());
}

pub(crate) fn arrivals(gate: &Gate, count: usize) {
    let gate = gate.clone();
    ends(move || gate.wait_for_arrivals(count));
}

pub(crate) fn spin_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited for nothing");
        std::thread::yield_now();
    }
}

/// The parts of a request's time, together.
pub(crate) fn sum(outcome: &Outcome) -> Duration {
    let timings = outcome.timings;
    timings.queue + timings.encode + timings.media + timings.backbone + timings.head
}

/// xorshift; good enough to mix cases.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
