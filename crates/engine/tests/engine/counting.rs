//! Many callers, and every one of them is counted once.

use std::collections::BTreeMap;

use clef_engine::{Engine, EngineConfig, EngineErrorKind};

use crate::fake::FakeModel;
use crate::support::{ENCODER, Random, SCHEMA, config, ends, record, shut_down};

#[test]
fn sixty_four_threads_with_fifty_requests_each_get_their_own_answers() {
    let config = EngineConfig { encode_threads: 3, ..config(64) };
    let model = FakeModel::default().reading(50).beside(&[100]).holding();
    let engine = Engine::start(ENCODER, model, &config).unwrap();
    let threads: Vec<_> = (0..64_usize)
        .map(|thread| {
            let engine = engine.clone();
            std::thread::spawn(move || {
                for round in 0..50 {
                    let length = 1 + (thread * 50 + round) % 997;
                    // One thread has one request at a time, so there is always room.
                    let outcome = engine.submit(record(&"s".repeat(length))).unwrap().wait().unwrap();
                    assert_eq!(outcome.decision.input_tokens, length + SCHEMA);
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
fn every_admitted_request_is_counted_exactly_once_whatever_happens_to_it() {
    for seed in 1..=40_u64 {
        eprintln!("seed {seed}");
        let config =
            EngineConfig { encode_threads: 1 + (seed % 3) as usize, answer_cache: (seed % 4) as usize, ..config(20) };
        let model =
            if seed % 2 == 0 { FakeModel::default() } else { FakeModel::default().reading(5).beside(&[30, 40]) };
        let engine = Engine::start(ENCODER, model, &config).unwrap();
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let engine = engine.clone();
                let mut random = Random(seed * 1_000_003 + client);
                std::thread::spawn(move || {
                    let mut outcomes = BTreeMap::<&str, u64>::new();
                    for _ in 0..50 {
                        let state = ["fine", "fine", "good", "longgood", "fail", "nan", "panic", "stuck"]
                            [random.below(8) as usize];
                        let is_good = ["fine", "good", "longgood"].contains(&state);
                        let outcome = match engine.submit(record(state)) {
                            Err(error) if error.kind() == EngineErrorKind::QueueFull => "rejected",
                            Err(error) => panic!("{error}"),
                            Ok(ticket) if random.below(3) == 0 => {
                                drop(ticket);
                                "dropped"
                            }
                            Ok(ticket) => match ticket.wait() {
                                Ok(_) if is_good => "answered",
                                Err(error) if error.kind() == EngineErrorKind::Fault && !is_good => "failed",
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
        shut_down(&engine);
        let seen = |outcome| seen.get(outcome).copied().unwrap_or(0);
        let s = engine.statistics();
        assert_eq!((s.in_flight, s.running, s.running_tokens), (0, 0, 0));
        assert_eq!((s.admitted + s.rejected, s.rejected), (200, seen("rejected")));
        assert_eq!(s.admitted, s.answered + s.failed + s.cancelled);
        // A dropped request may have been faster than its drop.
        assert!(s.answered >= seen("answered") && s.failed >= seen("failed") && s.cancelled <= seen("dropped"));
    }
}
