//! What a caller holds: a future, something to wait on, and the way to leave.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use clef_engine::{EngineErrorKind, LaneId};

use crate::fake::{Event, FakeModel, Gate};
use crate::support::{arrivals, ends, engine, gated, record, settle, spin_until, wait};

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
fn a_ticket_dropped_while_queued_makes_room_at_the_next_look() {
    let gate = Gate::default();
    let model = FakeModel::default().gated(&gate).reading(10);
    let log = model.log();
    let engine = engine(model, 10);
    let first = engine.submit(record("one")).unwrap();
    gate.wait_for_arrivals(1);
    let second = engine.submit(record("two")).unwrap();
    settle(&engine);
    drop(second);
    gate.let_through(1);
    arrivals(&gate, 2);
    assert_eq!((engine.statistics().cancelled, engine.statistics().in_flight), (1, 1));
    gate.open();
    wait(first).unwrap();
    assert_eq!(log.begun(), ["one"]);
}

#[test]
fn a_ticket_dropped_while_running_stops_that_one_and_nobody_else() {
    let gate = Gate::default();
    let model = FakeModel::default().gated(&gate).reading(10);
    let log = model.log();
    let engine = engine(model, 10);
    let first = engine.submit(record("one")).unwrap();
    gate.wait_for_arrivals(1);
    let second = engine.submit(record("two")).unwrap();
    settle(&engine);
    drop(first);
    // One chunk is let through: the next one can only be the second's, because the first was stopped.
    gate.let_through(1);
    arrivals(&gate, 2);
    let lane = LaneId(0);
    let step = || Event::Step(vec![lane]);
    let begin = |state: &str| Event::Begin(lane, state.to_owned());
    assert_eq!(log.events(), [begin("one"), step(), Event::Abandon(lane), begin("two"), step()]);
    gate.open();
    wait(second).unwrap();
    let statistics = engine.statistics();
    assert_eq!((statistics.answered, statistics.cancelled), (1, 1));
    // The one that `settle` hands in.
    assert_eq!(statistics.failed, 1);
}

#[test]
fn work_without_end_stops_when_nobody_waits_for_it() {
    let engine = engine(FakeModel::default(), 10);
    let endless = engine.submit(record("endless")).unwrap();
    spin_until(|| engine.statistics().running == 1);
    let next = engine.submit(record("next")).unwrap();
    drop(endless);
    wait(next).unwrap();
    assert_eq!(engine.statistics().cancelled, 1);
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
    gate.open();
    spin_until(|| engine.statistics().cancelled == 1);
    assert_eq!(engine.statistics().answered, 0, "an answer that nobody waits for is none");
}
