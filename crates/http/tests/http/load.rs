//! Many clients at once, and clients that go away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clef_engine::EngineConfig;

use crate::fake::{FakeModel, Gate};
use crate::support::{BODY, Running, config, decision, eventually, get, model, serving};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_go_away_take_their_work_with_them_and_nobody_elses() {
    let gate = Gate::default();
    // Two steps each.
    let fake = FakeModel::default().gated(&gate).reading(5);
    let log = fake.log();
    let served = serving(fake, &EngineConfig::default());
    let engine = served.engine.clone();
    let server = Running::with(config(), served).await;
    let asking = |state: &str| decision(BODY.replace("\"x\"", &format!("\"{state}\"")));
    // The first one is being evaluated, the second one waits.
    let mut running = server.connect().await;
    running.send(asking("r")).await;
    let arrived = gate.clone();
    tokio::task::spawn_blocking(move || arrived.wait_for_arrivals(1)).await.unwrap();
    let mut stays = server.connect().await;
    stays.send(asking("s")).await;
    let mut queued = server.connect().await;
    queued.send(asking("q")).await;
    eventually("admission", || engine.statistics().in_flight == 3).await;
    drop(queued);
    drop(running);
    let handle = server.handle.clone();
    eventually("leaving", || handle.running_requests() == 1).await;
    // One step is let through: the next one can only be of the one that stays.
    gate.let_through(1);
    let arrived = gate.clone();
    tokio::task::spawn_blocking(move || arrived.wait_for_arrivals(2)).await.unwrap();
    assert_eq!(log.begun(), ["r", "s"]);
    assert_eq!(engine.statistics().cancelled, 2);
    gate.open();
    assert_eq!(stays.answer().await.status, 200);
    assert_eq!(engine.statistics().answered, 1);
    server.assert_fine().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_that_send_and_close_leave_nothing_behind() {
    let served = model(64, None);
    let engine = served.engine.clone();
    let server = Running::with(config(), served).await;
    let mut faithful = server.connect().await;
    for round in 0..1_000 {
        let mut client = server.connect().await;
        client.send(decision(BODY)).await;
        drop(client);
        if round % 100 == 0 {
            faithful.send(decision(BODY)).await;
            let answer = faithful.answer().await;
            assert!(matches!(answer.status, 200 | 429), "{answer:?}");
        }
    }
    let handle = server.handle.clone();
    eventually("an empty queue", || engine.statistics().in_flight == 0 && handle.running_requests() == 0).await;
    for _ in 0..64 {
        server.assert_fine().await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_connections_at_once_are_all_answered() {
    let server = Arc::new(Running::start(config()).await);
    let clients: Vec<_> = (0..2_000)
        .map(|_| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.decide(BODY, &[]).await.status })
        })
        .collect();
    let mut answered = 0;
    for client in clients {
        let status = client.await.unwrap();
        assert!(matches!(status, 200 | 429 | 503), "{status}");
        answered += usize::from(status == 200);
    }
    assert!(answered >= 256, "only {answered} were answered");
    server.assert_fine().await;
    Arc::into_inner(server).unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_silent_connections_hurt_nobody() {
    let server = Running::start(config()).await;
    let mut silent = Vec::new();
    for index in 0..5_000 {
        let mut client = server.connect().await;
        if index % 2 == 0 {
            client.send("POST /v1/systemone HTTP/1.1\r\nX: ").await;
        }
        silent.push(client);
    }
    let start = Instant::now();
    server.assert_fine().await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let start = Instant::now();
    server.stop().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_over_the_limit_wait_for_their_turn() {
    let server = Running::start(clef_http::ServerConfig { max_connections: 2, ..config() }).await;
    let first = server.connect().await;
    let mut second = server.connect().await;
    second.send(get("/health")).await;
    assert_eq!(second.answer().await.status, 200);
    let mut third = server.connect().await;
    third.send(get("/health")).await;
    assert!(tokio::time::timeout(Duration::from_millis(200), third.answer()).await.is_err());
    drop(first);
    let mut third = third;
    assert_eq!(third.answer().await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rounds_of_clients_get_the_answers_of_a_serial_run() {
    let server = Arc::new(Running::start(config()).await);
    let body = |index: usize| {
        let options: Vec<String> = (0..=index % 7).map(|option| format!("\"o{option}\":null")).collect();
        format!(
            r#"{{"state":"{}","questions":{{"q{index}":{{"type":"choice","criteria":{{{}}}}}}}}}"#,
            "s".repeat(index),
            options.join(",")
        )
    };
    let mut serial = Vec::new();
    for index in 0..64 {
        serial.push(server.decide(body(index), &[]).await.body);
    }
    for clients in [1, 4, 16, 64] {
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let server = Arc::clone(&server);
                let mine: Vec<_> = (0..50).map(|round| (client * 7 + round) % 64).collect();
                let bodies: Vec<_> = mine.iter().map(|&index| body(index)).collect();
                tokio::spawn(async move {
                    let mut connection = server.connect().await;
                    let mut answers = Vec::new();
                    for body in bodies {
                        connection.send(decision(body)).await;
                        let answer = connection.answer().await;
                        assert_eq!(answer.status, 200);
                        answers.push(answer.body);
                    }
                    (mine, answers)
                })
            })
            .collect();
        for task in tasks {
            let (mine, answers) = task.await.unwrap();
            for (index, answer) in mine.into_iter().zip(answers) {
                assert_eq!(answer, serial[index]);
            }
        }
        let start = Instant::now();
        assert_eq!(server.ask(get("/health")).await.status, 200);
        assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    }
    Arc::into_inner(server).unwrap().stop().await;
}
