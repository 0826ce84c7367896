//! HTTP/1.1 as bytes on a connection.

use std::time::Duration;

use serde_json::json;

use crate::support::{BODY, Running, config, decision, get, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_says_what_it_cost() {
    let server = Running::start(config()).await;
    let body = r#"{"model":"any","state":"late","questions":{
        "b":{"type":"choice","criteria":{"z":null,"a":"first"}},
        "a":{"type":"score","criteria":["low",null,3]},
        "n":{"type":"noul"}}}"#;
    let answer = server.decide(body, &[]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    assert!(answer.header("date").is_some());
    assert!(answer.header("x-typesafe-request-id").unwrap().starts_with("req_"));
    assert_eq!(answer.header("x-clef-cached-tokens"), Some("0"));
    assert_eq!(answer.header("x-clef-computed-tokens"), Some("34"));
    assert_eq!(answer.header("x-clef-truncated-tokens"), Some("0"));
    let timing = answer.header("server-timing").unwrap();
    let names: Vec<&str> = timing.split(", ").map(|part| part.split_once(";dur=").unwrap().0).collect();
    assert_eq!(names, ["queue", "encode", "media", "backbone", "head"], "{timing}");
    assert!(timing.split(", ").all(|part| part.split_once(";dur=").unwrap().1.parse::<f64>().is_ok()), "{timing}");
    assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{answer:?}");

    let json = answer.json();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json), ["model", "answers", "usage"]);
    assert_eq!(keys(&json["answers"]), ["b", "a", "n"]);
    assert_eq!(json["model"], "fake");
    assert_eq!(json["answers"]["b"]["choice"], "z", "the prompt lists options by key, and the last is likeliest");
    assert_eq!(json["answers"]["a"]["legend"], json!({"0": "low", "1": "", "2": "3"}));
    assert_eq!(json["usage"], json!({"input_tokens": 4 + 3 * 3 + 3 * 7, "output_tokens": 0}));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_differ() {
    let server = Running::start(config()).await;
    let mut ids = std::collections::HashSet::new();
    for _ in 0..20 {
        let answer = server.ask(get("/health")).await;
        assert!(ids.insert(answer.header("x-typesafe-request-id").unwrap().to_owned()));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_may_come_in_any_pieces() {
    let server = Running::start(config()).await;
    let whole = decision(BODY);
    for cut in 1..whole.len() {
        let mut client = server.connect().await;
        client.stream.set_nodelay(true).unwrap();
        client.send(&whole[..cut]).await;
        tokio::task::yield_now().await;
        client.send(&whole[cut..]).await;
        assert_eq!(client.answer().await.status, 200, "cut after {cut} bytes");
    }
    let mut client = server.connect().await;
    client.stream.set_nodelay(true).unwrap();
    for byte in &whole {
        client.send([*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.answer().await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_kept_and_requests_may_be_pipelined() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.send(decision(BODY)).await;
        assert_eq!(client.answer().await.status, 200);
    }
    let mut requests = Vec::new();
    for index in 0..50 {
        let question = format!(r#"{{"state":"x","questions":{{"q{index}":{{"type":"noul"}}}}}}"#);
        requests.extend(decision(question));
        requests.extend(get("/health"));
        requests.extend(get("/nowhere"));
        requests.extend(decision("{"));
    }
    client.send(requests).await;
    for index in 0..50 {
        let answer = client.answer().await;
        assert_eq!(answer.status, 200);
        assert!(answer.json()["answers"][format!("q{index}")].is_object(), "answers come in order");
        assert_eq!(client.answer().await.status, 200);
        client.answer().await.error(404);
        client.answer().await.error(422);
    }
    client.send(request("GET", "/health", &[("Connection", "close")], "")).await;
    assert_eq!(client.answer().await.status, 200);
    client.closed().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_may_be_chunked() {
    let server = Running::start(config()).await;
    let head = "POST /v1/systemone HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for size in [1, 2, 7, BODY.len()] {
        let mut client = server.connect().await;
        client.send(head).await;
        for chunk in BODY.as_bytes().chunks(size) {
            client.send(format!("{:x};an=extension\r\n", chunk.len())).await;
            client.send(chunk).await;
            client.send("\r\n").await;
        }
        client.send("0\r\nA-Trailer: x\r\n\r\n").await;
        assert_eq!(client.answer().await.status, 200, "chunks of {size}");
        client.send(get("/health")).await;
        assert_eq!(client.answer().await.status, 200);
    }
    // A body that is no chunk at all is refused, and the connection with it.
    let mut client = server.connect().await;
    client.send(format!("{head}zz\r\n")).await;
    if let Some(answer) = client.try_answer(false).await {
        assert!((400..500).contains(&answer.status), "{answer:?}");
    }
    server.assert_fine().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    client
        .send(format!(
            "POST /v1/systemone HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            BODY.len()
        ))
        .await;
    assert_eq!(client.answer().await.status, 100);
    client.send(BODY).await;
    assert_eq!(client.answer().await.status, 200);

    // What would be refused anyway is refused before the body is sent.
    let mut client = server.connect().await;
    let head =
        "POST /v1/systemone HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 999999999\r\n\r\n";
    client.send(head).await;
    assert_eq!(client.answer().await.error(413), "request_too_large_error");
    client.closed().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_is_get_without_a_body() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    for path in ["/health", "/v1/models", "/props", "/nowhere"] {
        client.send(get(path)).await;
        let with_body = client.answer().await;
        client.send(request("HEAD", path, &[], "")).await;
        let without = client.answer_to_head().await;
        assert_eq!(without.status, with_body.status, "{path}");
        assert_eq!(without.header("content-length"), with_body.header("content-length"), "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_clients_are_answered_and_newer_ones_are_told() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    client.send("GET /health HTTP/1.0\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 200);
    client.closed().await;

    let mut client = server.connect().await;
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    client.send([0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["message"], "only HTTP/1.1 is spoken here");
    client.closed().await;
    server.assert_fine().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_http_is_answered_without_a_body() {
    let server = Running::start(config()).await;
    for (request, status) in [
        ("GET\r\n\r\n".to_owned(), 400),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(66_000)), 414),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1_000)), 431),
    ] {
        let mut client = server.connect().await;
        client.send(request).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.text()), (status, ""));
        client.closed().await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_http_is_refused_and_hurts_nobody() {
    let server = Running::start(config()).await;
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1_000));
    let path = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let nonsense: [&[u8]; 9] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"POST /v1/systemone HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/systemone HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        long.as_bytes(),
        many.as_bytes(),
        path.as_bytes(),
    ];
    for bytes in nonsense {
        let mut client = server.connect().await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        // The server may close before all is sent.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, bytes).await;
        if let Some(answer) = client.try_answer(false).await {
            assert!((400..500).contains(&answer.status), "{shown}: {answer:?}");
        }
    }
    server.assert_fine().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_reads_does_not_hold_others_up() {
    let server = Running::start(config()).await;
    let mut deaf = server.connect().await;
    let requests = get("/v1/models").repeat(200);
    // Sends until neither side takes any more.
    let sending = async {
        loop {
            deaf.send(&requests).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(300), sending).await;
    server.assert_fine().await;
    server.stop().await;
}
