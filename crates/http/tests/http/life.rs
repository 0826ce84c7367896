//! Phases: from the bound port to the end, whatever is going on.

use std::time::{Duration, Instant};

use clef_http::{Ended, Phase, ServeError, Server, ServerConfig};
use tokio::net::TcpStream;

use crate::fake::Gate;
use crate::support::{BODY, Running, config, decision, get, model};

async fn arrivals(gate: &Gate, count: usize) {
    let gate = gate.clone();
    tokio::task::spawn_blocking(move || gate.wait_for_arrivals(count)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn phases_follow_each_other() {
    let server = Running::loading(config()).await;
    assert_eq!(*server.handle.phase().borrow(), Phase::Loading);
    server.handle.set_model(model(8, None));
    assert_eq!(*server.handle.phase().borrow(), Phase::Serving);
    assert!(!server.handle.set_model(model(8, None)), "there is one model");
    let handle = server.handle.clone();
    let stopped = tokio::spawn(async move { handle.reached(Phase::Stopped).await });
    server.stop().await;
    stopped.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_port_is_bound_at_once_and_taken_once() {
    let server = Server::bind(config()).await.unwrap();
    let address = server.local_addr().unwrap();
    assert_ne!(address.port(), 0);
    // Connections are taken by the system before anybody runs the server.
    let _waiting = TcpStream::connect(address).await.unwrap();
    let again = ServerConfig { listen: clef_http::Listen::new("127.0.0.1", address.port()), ..config() };
    let error = Server::bind(again.clone()).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot listen on {address}: ")), "{error}");
    drop(server);
    Server::bind(again).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_server_ends_at_once() {
    let server = Running::start(config()).await;
    let mut idle = server.connect().await;
    idle.send(get("/health")).await;
    assert_eq!(idle.answer().await.status, 200);
    let mut silent = server.connect().await;
    server.assert_fine().await;
    let start = Instant::now();
    let address = server.address;
    server.stop().await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    idle.closed().await;
    silent.closed().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_requests_are_finished_and_half_sent_ones_are_closed() {
    let gate = Gate::default();
    let server = Running::with(config(), model(8, Some(gate.clone()))).await;
    let mut running = server.connect().await;
    running.send(decision(BODY)).await;
    arrivals(&gate, 1).await;
    let mut queued = server.connect().await;
    queued.send(decision(BODY.replace("\"x\"", "\"y\""))).await;
    let mut pipelined = server.connect().await;
    pipelined.send([decision(BODY), decision(BODY)].concat()).await;
    let whole = decision(BODY);
    let mut half_head = server.connect().await;
    half_head.send(&whole[..20]).await;
    let mut half_body = server.connect().await;
    half_body.send(&whole[..whole.len() - 1]).await;
    let statistics = |count| {
        let handle = server.handle.clone();
        async move { crate::support::eventually("admission", || handle.running_requests() == count).await }
    };
    statistics(4).await;

    server.handle.shutdown();
    server.handle.reached(Phase::Draining).await;
    half_head.closed().await;
    let answer = half_body.answer().await;
    assert_eq!(answer.error(503), "unavailable_error");
    assert_eq!(answer.header("connection"), Some("close"));
    half_body.closed().await;
    assert!(TcpStream::connect(server.address).await.is_err(), "nothing new is accepted");

    gate.open();
    for (name, client) in [("running", &mut running), ("queued", &mut queued), ("pipelined", &mut pipelined)] {
        let answer = client.try_answer(false).await.unwrap_or_else(|| panic!("{name} got no answer"));
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"));
    }
    running.closed().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_end_in_time_is_stopped() {
    let gate = Gate::default();
    let config = ServerConfig { shutdown_timeout: Duration::from_millis(300), ..config() };
    let server = Running::with(config, model(8, Some(gate.clone()))).await;
    let mut stuck = server.connect().await;
    stuck.send(decision(BODY.replace("\"x\"", "\"endless\""))).await;
    gate.open();
    arrivals(&gate, 1).await;
    let start = Instant::now();
    server.stop().await;
    assert!((300..3_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    stuck.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_word_ends_at_once() {
    let gate = Gate::default();
    let server = Running::with(config(), model(8, Some(gate.clone()))).await;
    let mut stuck = server.connect().await;
    stuck.send(decision(BODY.replace("\"x\"", "\"endless\""))).await;
    gate.open();
    arrivals(&gate, 1).await;
    let start = Instant::now();
    server.handle.shutdown();
    server.handle.abort();
    assert_eq!(server.task.await.unwrap().unwrap(), Ended::Shutdown);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    stuck.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_can_end_while_it_loads() {
    let server = Running::loading(config()).await;
    let mut idle = server.connect().await;
    idle.send(get("/health")).await;
    idle.answer().await.error(503);
    let handle = server.handle.clone();
    server.stop().await;
    idle.closed().await;
    assert!(!handle.set_model(model(8, None)), "a model that comes too late is not taken");
    assert_eq!(*handle.phase().borrow(), Phase::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_cannot_be_loaded_ends_the_server() {
    let server = Running::loading(config()).await;
    server.handle.fail("model.gguf: not a GGUF file");
    let error = server.task.await.unwrap().unwrap_err();
    assert!(matches!(error, ServeError::Load(_)));
    assert_eq!(error.to_string(), "model.gguf: not a GGUF file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_engine_is_told_and_ends_the_server() {
    let gate = Gate::default();
    let server = Running::with(config(), model(8, Some(gate.clone()))).await;
    let mut last = server.connect().await;
    last.send(decision(BODY.replace("\"x\"", "\"die\""))).await;
    arrivals(&gate, 1).await;
    let mut queued = server.connect().await;
    queued.send(decision(BODY)).await;
    let handle = server.handle.clone();
    crate::support::eventually("admission", || handle.running_requests() == 2).await;
    gate.open();
    for client in [&mut last, &mut queued] {
        let answer = client.answer().await;
        assert_eq!(answer.error(503), "unavailable_error");
        assert_eq!(answer.header("retry-after"), Some("5"));
    }
    let died = Instant::now();
    server.ask(get("/health")).await.error(503);
    server.decide(BODY, &[]).await.error(503);
    server.decide("{", &[]).await.error(422);
    assert_eq!(server.task.await.unwrap().unwrap(), Ended::EngineDead);
    assert!((4_500..8_000).contains(&died.elapsed().as_millis()), "{:?}", died.elapsed());
}
