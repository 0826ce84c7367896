//! What can be seen of the engine's work, and of the work that it was spared.

use clef_engine::EngineConfig;
use clef_http::ServerConfig;
use serde_json::json;

use crate::fake::{FakeModel, Gate};
use crate::support::{BODY, Running, config, decision, eventually, get, serving};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_a_slot_for_each_lane_and_held_states_are_shown_in_the_first() {
    let gate = Gate::default();
    let fake = FakeModel::default().gated(&gate).reading(10).beside(&[20]).holding();
    let server = Running::with(config(), serving(fake, &EngineConfig::default())).await;
    let arrived = async |count: usize| {
        let gate = gate.clone();
        tokio::task::spawn_blocking(move || gate.wait_for_arrivals(count)).await.unwrap();
    };
    let asking = |state: &str| decision(BODY.replace("\"x\"", &format!("\"{state}\"")));
    assert_eq!(server.ask(get("/props")).await.json()["total_slots"], 2);
    let state = "l".repeat(50);
    // 59 tokens in six steps. The second time, 50 of them are held and one step is left.
    gate.let_through(6);
    let mut client = server.connect().await;
    client.send(asking(&state)).await;
    assert_eq!(client.answer().await.header("x-clef-computed-tokens"), Some("59"));
    gate.let_through(1);
    client.send(asking(&state)).await;
    let answer = client.answer().await;
    assert_eq!(answer.header("x-clef-cached-tokens"), Some("50"));
    assert_eq!(answer.header("x-clef-computed-tokens"), Some("9"));

    // It goes on from there: 100 tokens of 159, of which ten are read before a short one passes.
    client.send(asking(&(state.clone() + &"m".repeat(91)))).await;
    arrived(8).await;
    let mut short = server.connect().await;
    short.send(asking("s")).await;
    let handle = server.handle.clone();
    eventually("a second request", || handle.running_requests() == 2).await;
    let mut steps = 8;
    loop {
        gate.let_through(1);
        steps += 1;
        arrived(steps).await;
        let slots = server.ask(get("/slots")).await.json();
        if slots[1]["is_processing"] == true {
            let held = json!([{"n_tokens": 50, "boundaries": [50], "bytes": 200, "uses": 1}]);
            let expected = json!([
                {
                    "id": 0, "n_ctx": 16_384, "speculative": false, "is_processing": true, "n_prompt_tokens": 150,
                    "n_prompt_tokens_processed": 10 * (steps - 8), "n_prompt_tokens_cache": 50, "held_states": held
                },
                {
                    "id": 1, "n_ctx": 20, "speculative": false, "is_processing": true, "n_prompt_tokens": 10,
                    "n_prompt_tokens_processed": 0, "n_prompt_tokens_cache": 0
                }
            ]);
            assert_eq!(slots, expected);
            break;
        }
    }
    server.ask(get("/slots?fail_on_no_slot=1")).await.error(503);
    gate.open();
    assert_eq!(short.answer().await.status, 200);
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(server.ask(get("/slots?fail_on_no_slot=1")).await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_work_that_was_saved() {
    let gate = Gate::default();
    let fake = FakeModel::default().gated(&gate).holding();
    let engine = EngineConfig { answer_cache: 1, ..EngineConfig::default() };
    let server = Running::with(ServerConfig { metrics: true, ..config() }, serving(fake, &engine)).await;
    let mut clients = [server.connect().await, server.connect().await];
    for client in &mut clients {
        client.send(decision(BODY)).await;
    }
    let handle = server.handle.clone();
    eventually("two requests", || handle.running_requests() == 2).await;
    gate.open();
    for client in &mut clients {
        assert_eq!(client.answer().await.status, 200);
    }
    assert_eq!(server.decide(BODY, &[]).await.header("x-clef-computed-tokens"), Some("0"));
    let answer = server.ask(get("/metrics")).await;
    let value = |name: &str| -> u64 {
        let line = answer.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in\n{}", answer.text())).parse().unwrap()
    };
    // The second one came while the first was read, or just after.
    assert_eq!(value("clef:merged_total") + value("clef:answer_cache_hits_total"), 2);
    assert!(value("clef:answer_cache_hits_total") >= 1);
    assert_eq!((value("clef:prompt_tokens_total"), value("clef:cached_tokens_total")), (30, 20));
    assert_eq!((value("clef:computed_tokens_total"), value("llamacpp:prompt_tokens_total")), (10, 10));
    assert_eq!((value("clef:held_states"), value("clef:held_bytes")), (1, 4));
    server.stop().await;
}
