//! A load generator, and a server with a model that answers at once: what the service itself costs.
//!
//! ```text
//! cargo run --release -p clef-http --example load -- serve 8090 2     # a server on two threads
//! cargo run --release -p clef-http --example load -- closed 8090 64 10       # 64 connections, each as fast as it can
//! cargo run --release -p clef-http --example load -- open 8090 64 10 4000    # 4,000 requests a second, evenly
//! ```
//!
//! An open run measures from when a request was due, not from when it could be sent, so a server that falls behind is
//! seen to. All traffic goes to 127.0.0.1.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use clef_engine::{Engine, EngineConfig};
use clef_http::{Listen, Model, ModelCard, Server, ServerConfig};
use fake::{FakeEncoder, FakeModel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

#[path = "../../testkit/src/fake.rs"]
#[expect(unreachable_pub, reason = "it is a library's module elsewhere")]
#[expect(dead_code, reason = "tests use the rest")]
mod fake;

const BODY: &str = r#"{"state":"Customer message: I was charged twice for my order last week and nobody has replied.","questions":{"route":{"type":"choice","instructions":"Which team should handle this?","criteria":{"billing":null,"shipping":null,"technical":null}},"angry":{"type":"noul","instructions":"Is the customer angry?"}}}"#;

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| -> Result<usize, Failed> {
        Ok(arguments.get(index).ok_or("too few arguments; see the head of this file")?.parse()?)
    };
    let port = u16::try_from(number(1)?)?;
    match arguments[0].as_str() {
        "serve" => clef_http::runtime(Some(number(2)?))?.block_on(serve(port)),
        "closed" => clef_http::runtime(None)?.block_on(load(port, number(2)?, number(3)?, None)),
        "open" => clef_http::runtime(None)?.block_on(load(port, number(2)?, number(3)?, Some(number(4)?))),
        other => Err(format!("`{other}` is neither serve, closed nor open").into()),
    }
}

async fn serve(port: u16) -> Result<(), Failed> {
    let config = ServerConfig { listen: Listen::new("127.0.0.1", port), metrics: true, ..ServerConfig::default() };
    let server = Server::bind(config).await?;
    let handle = server.handle();
    let engine = EngineConfig { queue_capacity: 4_096, encode_threads: 1 };
    let engine = Engine::start(FakeEncoder { limit: 1 << 20 }, FakeModel::default(), &engine)?;
    handle.set_model(Model { engine, card: ModelCard::default(), text: None });
    tokio::spawn(handle.end_on_signals());
    println!("listening on {}", server.local_address());
    server.run().await?;
    Ok(())
}

/// Sends requests for some seconds and prints rate and times. `rate` is requests a second, or as many as possible.
async fn load(port: u16, connections: usize, seconds: usize, rate: Option<usize>) -> Result<(), Failed> {
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds as u64);
    let next = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let next = Arc::clone(&next);
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
                stream.set_nodelay(true)?;
                let mut times = Vec::new();
                loop {
                    let mut due = Instant::now();
                    if let Some(rate) = rate {
                        let index = next.fetch_add(1, Relaxed);
                        due = start + Duration::from_secs_f64(index as f64 / rate as f64);
                        tokio::time::sleep_until(due).await;
                    }
                    if due >= end {
                        return Ok::<_, Failed>(times);
                    }
                    ask(&mut stream).await?;
                    times.push(due.elapsed());
                }
            })
        })
        .collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await??);
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let rate = times.len() as f64 / seconds as f64;
    println!("{connections} connections, {seconds} s: {rate:.0} requests a second");
    println!(
        "p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, most {:.2} ms",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    Ok(())
}

async fn ask(stream: &mut TcpStream) -> Result<(), Failed> {
    let request = format!(
        "POST /v1/systemone HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = [0; 4_096];
    let mut read = 0;
    // Answers end with the two braces of `usage` and of the whole.
    while read < 2 || &buffer[read - 2..read] != b"}}" {
        match stream.read(&mut buffer[read..]).await? {
            0 => return Err("the server closed the connection".into()),
            count => read += count,
        }
    }
    if !buffer.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&buffer[..read]).into_owned().into());
    }
    Ok(())
}
