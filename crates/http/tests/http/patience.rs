//! Clients that are too slow. Time is paused here: nothing waits, everything is exact.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::{BODY, Client, Running, config, decision, get};

/// Sends a byte a second until the server has had enough; returns what came back.
async fn drip(client: &mut Client<tokio::net::TcpStream>, bytes: &[u8]) -> Option<crate::support::Answer> {
    let (mut reader, mut writer) = client.stream.split();
    let mut answer = Vec::new();
    let sending = async {
        for byte in bytes {
            if tokio::io::AsyncWriteExt::write_all(&mut writer, &[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut answer) => {}
        () = sending => {}
    }
    let mut read = Client::new(std::io::Cursor::new(answer));
    read.try_answer(false).await
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed() {
    let server = Running::start(config()).await;
    let start = Instant::now();
    let mut client = server.connect().await;
    client.closed().await;
    assert_eq!(start.elapsed().as_secs(), 20);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_cut_off() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    let start = Instant::now();
    let head = format!("GET /health HTTP/1.1\r\nX: {}", "x".repeat(100));
    drip(&mut client, head.as_bytes()).await;
    assert!((19..=30).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_is_answered_and_cut_off() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    let body = format!(r#"{{"state":"{}","questions":{{"q":{{"type":"noul"}}}}}}"#, "x".repeat(200));
    let whole = decision(&body);
    let (head, body) = whole.split_at(whole.len() - body.len());
    client.send(head).await;
    let start = Instant::now();
    let answer = drip(&mut client, body).await.expect("an answer");
    assert_eq!(answer.error(408), "timeout_error");
    assert!((20..=22).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_body_that_drips_is_cut_off_too() {
    let key = clef_http::ApiKey::new("k").unwrap();
    let server = Running::start(clef_http::ServerConfig { api_keys: vec![key], ..config() }).await;
    let mut client = server.connect().await;
    let whole = decision("x".repeat(100));
    let (head, body) = whole.split_at(whole.len() - 100);
    client.send(head).await;
    let start = Instant::now();
    let answer = drip(&mut client, body).await.expect("an answer");
    assert_eq!(answer.error(401), "authentication_error");
    assert!((9..=30).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_body_may_take_the_time_that_its_bytes_need() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    let text = format!(r#"{{"state":"{}","questions":{{"q":{{"type":"noul"}}}}}}"#, "x".repeat(8 << 20));
    let start = Instant::now();
    for piece in decision(&text).chunks(100 << 10) {
        client.send(piece).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(client.answer().await.status, 200);
    assert!(start.elapsed() > Duration::from_secs(80));
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_for_a_while() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.send(get("/health")).await;
        assert_eq!(client.answer().await.status, 200);
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
    client.send(decision(BODY)).await;
    assert_eq!(client.answer().await.status, 200);
    let start = Instant::now();
    client.closed().await;
    assert!((19..=21).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    server.stop().await;
}
