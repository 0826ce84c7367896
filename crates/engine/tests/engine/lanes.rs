//! Whose turn it is: order, side lanes, and nobody who waits for ever.

use std::time::{Duration, Instant};

use clef_engine::{Engine, EngineConfig, LaneId, LaneView, LaneWork, Ticket};

use crate::fake::{Event, FakeModel, Gate, Log};
use crate::support::{ENCODER, arrivals, asking, config, engine, record, settle, spin_until, sum, wait};

/// A model with a gate that reads ten tokens in a step, and a side lane for prompts of forty.
fn two_lanes() -> (Engine, Gate, Log) {
    let gate = Gate::default();
    let model = FakeModel::default().gated(&gate).reading(10).beside(&[40]);
    let log = model.log();
    (engine(model, 100), gate, log)
}

fn step(lane: usize) -> Event {
    Event::Step(vec![LaneId(lane)])
}

fn begin(lane: usize, state: &str) -> Event {
    Event::Begin(LaneId(lane), state.to_owned())
}

/// 121 tokens: thirteen steps.
fn long() -> String {
    "l".repeat(100)
}

#[test]
fn requests_are_evaluated_in_the_order_they_came() {
    let model = FakeModel::default();
    let log = model.log();
    let engine = engine(model, 100);
    let states: Vec<String> = (1..=50).map(|length| "s".repeat(length)).collect();
    let tickets: Vec<Ticket> = states.iter().map(|state| engine.submit(record(state)).unwrap()).collect();
    tickets.into_iter().for_each(|ticket| drop(wait(ticket).unwrap()));
    assert_eq!(log.begun(), states);
}

#[test]
fn a_short_request_passes_a_long_one_and_they_read_in_turns() {
    let (engine, gate, log) = two_lanes();
    let slow = engine.submit(record(&long())).unwrap();
    gate.wait_for_arrivals(1);
    // 26 tokens: three steps.
    let quick = engine.submit(record("short")).unwrap();
    settle(&engine);
    gate.open();
    wait(quick).unwrap();
    wait(slow).unwrap();
    let before = [begin(0, &long()), step(0), begin(1, "short"), step(1), step(0), step(1), step(0), step(1)];
    assert_eq!(log.events()[..8], before);
    assert_eq!(log.events()[8..], vec![step(0); 10]);
}

#[test]
fn a_lane_that_cannot_be_had_costs_nobody_an_answer_and_is_not_tried_again() {
    let gate = Gate::default();
    let model = FakeModel::default().gated(&gate).reading(10).beside(&[40]).short_of_memory();
    let log = model.log();
    let engine = engine(model, 100);
    let slow = engine.submit(record(&long())).unwrap();
    gate.wait_for_arrivals(1);
    let quick = ["short", "other"].map(|state| engine.submit(record(state)).unwrap());
    settle(&engine);
    gate.open();
    quick.into_iter().for_each(|ticket| drop(wait(ticket).unwrap()));
    wait(slow).unwrap();
    let begun: Vec<Event> = log.events().into_iter().filter(|event| matches!(event, Event::Begin(..))).collect();
    assert_eq!(begun, [begin(0, &long()), begin(1, "short"), begin(0, "short"), begin(0, "other")]);
}

#[test]
fn a_short_request_waits_three_steps_of_a_long_one_at_most() {
    for steps_before in 0..13 {
        let (engine, gate, log) = two_lanes();
        let slow = engine.submit(record(&long())).unwrap();
        gate.let_through(steps_before);
        arrivals(&gate, steps_before + 1);
        // Two steps.
        let quick = engine.submit(asking("s", &["a"], "q")).unwrap();
        settle(&engine);
        gate.open();
        wait(slow).unwrap();
        wait(quick).unwrap();
        let events = log.events();
        let begun = events.iter().position(|event| matches!(event, Event::Begin(_, state) if state == "s")).unwrap();
        // The step that it came in is not counted, nor is the begin of the long one.
        let waited = begun - 2 - steps_before;
        assert!(waited <= 3, "after {steps_before} steps it waited {waited}: {events:?}");
    }
}

#[test]
fn what_does_not_fit_the_side_lane_waits_for_lane_0() {
    let (engine, gate, log) = two_lanes();
    let first = engine.submit(record(&long())).unwrap();
    gate.wait_for_arrivals(1);
    let middling = "m".repeat(40);
    let second = engine.submit(record(&middling)).unwrap();
    let third = engine.submit(record("short")).unwrap();
    settle(&engine);
    gate.open();
    for ticket in [first, second, third] {
        wait(ticket).unwrap();
    }
    let begins: Vec<Event> = log.events().into_iter().filter(|event| matches!(event, Event::Begin(..))).collect();
    assert_eq!(begins, [begin(0, &long()), begin(1, "short"), begin(0, &middling)]);
}

#[test]
fn a_stream_of_short_requests_takes_every_other_step_at_most() {
    let (engine, gate, log) = two_lanes();
    let slow = engine.submit(record(&long())).unwrap();
    gate.wait_for_arrivals(1);
    let quick: Vec<Ticket> = (0..30).map(|index| engine.submit(record(&format!("s{index}"))).unwrap()).collect();
    settle(&engine);
    gate.open();
    wait(slow).unwrap();
    for ticket in quick {
        wait(ticket).unwrap();
    }
    let steps: Vec<Event> = log.events().into_iter().filter(|event| matches!(event, Event::Step(_))).collect();
    let until_slow_ends = &steps[..25];
    let of_slow = until_slow_ends.iter().filter(|&event| *event == step(0)).count();
    assert!(of_slow >= 13, "{until_slow_ends:?}");
    assert!(until_slow_ends.contains(&step(1)));
}

#[test]
fn a_stream_of_one_state_passes_the_oldest_eight_times_at_most() {
    let gate = Gate::default();
    let model = FakeModel::default().gated(&gate);
    let log = model.log();
    let engine = engine(model, 100);
    let options: Vec<String> = (0..=20).map(|index| format!("o{index}")).collect();
    // The same state each time, but another number of options, so that they are not one and the same work.
    let same = |index: usize| {
        let options: Vec<&str> = options[..=index].iter().map(String::as_str).collect();
        engine.submit(asking("same", &options, "q")).unwrap()
    };
    let mut tickets = vec![same(0)];
    gate.wait_for_arrivals(1);
    tickets.push(engine.submit(record("other")).unwrap());
    tickets.extend((1..=20).map(same));
    settle(&engine);
    gate.open();
    for ticket in tickets {
        wait(ticket).unwrap();
    }
    let begun = log.begun();
    assert_eq!(begun.iter().position(|state| state == "other"), Some(9), "{begun:?}");
    assert_eq!(begun.len(), 22);
}

#[test]
fn a_request_that_leaves_its_side_lane_stops_at_the_next_chunk() {
    let (engine, gate, log) = two_lanes();
    let slow = engine.submit(record(&long())).unwrap();
    gate.wait_for_arrivals(1);
    let quick = engine.submit(record("short")).unwrap();
    settle(&engine);
    gate.let_through(1);
    arrivals(&gate, 2);
    drop(quick);
    gate.let_through(1);
    arrivals(&gate, 3);
    let abandon = Event::Abandon(LaneId(1));
    assert_eq!(log.events(), [begin(0, &long()), step(0), begin(1, "short"), step(1), abandon, step(0)]);
    assert_eq!((engine.statistics().cancelled, engine.statistics().running), (1, 1));
    gate.open();
    wait(slow).unwrap();
    assert_eq!(log.steps(), 13 + 1);
}

#[test]
fn side_lanes_read_together() {
    let gate = Gate::default();
    let model = FakeModel::default().gated(&gate).reading(10).beside(&[40, 40, 40]);
    let log = model.log();
    let config = EngineConfig { max_batch_tokens: 20, ..config(100) };
    let engine = Engine::start(ENCODER, model, &config).unwrap();
    let slow = engine.submit(record(&long())).unwrap();
    gate.wait_for_arrivals(1);
    let quick: Vec<Ticket> = ["one", "two", "six"].map(|state| engine.submit(record(state)).unwrap()).into();
    settle(&engine);
    gate.open();
    for ticket in quick {
        wait(ticket).unwrap();
    }
    wait(slow).unwrap();
    let together = |one, other| Event::Step(vec![LaneId(one), LaneId(other)]);
    let begins = [begin(1, "one"), begin(2, "two"), begin(3, "six")];
    assert_eq!(log.events()[2..5], begins);
    assert_eq!(log.events()[5..10], [together(1, 2), step(0), together(1, 3), step(0), together(2, 3)]);
}

#[test]
fn lanes_show_what_is_read_in_them() {
    let (engine, gate, _) = two_lanes();
    let free = |max_tokens| LaneView { max_tokens, work: None };
    assert_eq!(engine.lanes(), [free(usize::MAX), free(40)]);
    let slow = [record(&long()), record(&long())].map(|record| engine.submit(record).unwrap());
    gate.wait_for_arrivals(1);
    settle(&engine);
    let quick = engine.submit(record("short")).unwrap();
    settle(&engine);
    gate.let_through(1);
    arrivals(&gate, 2);
    let work = |requests, prompt_tokens, computed_tokens| {
        Some(LaneWork { requests, prompt_tokens, reused_tokens: 0, computed_tokens })
    };
    let busy = [
        // A share of 1/13.
        LaneView { max_tokens: usize::MAX, work: work(2, 121, 9) },
        LaneView { max_tokens: 40, work: work(1, 26, 0) },
    ];
    assert_eq!(engine.lanes(), busy);
    let statistics = engine.statistics();
    assert_eq!((statistics.in_flight, statistics.running, statistics.running_tokens), (3, 3, 147));
    gate.open();
    wait(quick).unwrap();
    slow.into_iter().for_each(|ticket| drop(wait(ticket).unwrap()));
    assert_eq!(engine.lanes(), [free(usize::MAX), free(40)]);
}

#[test]
fn time_that_went_to_another_lane_is_time_in_the_queue() {
    let (engine, gate, _) = two_lanes();
    let start = Instant::now();
    let slow = engine.submit(record(&long())).unwrap();
    gate.wait_for_arrivals(1);
    let quick = engine.submit(record("short")).unwrap();
    settle(&engine);
    gate.let_through(1);
    arrivals(&gate, 2);
    // The short one is at the gate.
    let held_from = Instant::now();
    spin_until(|| held_from.elapsed() > Duration::from_millis(20));
    let held_up = held_from.elapsed();
    gate.open();
    let (slow, quick) = (wait(slow).unwrap(), wait(quick).unwrap());
    for outcome in [&slow, &quick] {
        assert!(sum(outcome) >= held_up && sum(outcome) <= start.elapsed(), "{:?}", outcome.timings);
    }
    assert!(quick.timings.backbone >= held_up, "{:?}", quick.timings);
    assert!(slow.timings.queue >= held_up, "{:?}", slow.timings);
}
