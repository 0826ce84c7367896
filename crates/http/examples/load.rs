//! A load generator, and a server with a model that answers at once: what the service itself costs.
//!
//! ```text
//! cargo run --release -p clef-http --example load -- serve 8090 2     # a server on two threads
//! cargo run --release -p clef-http --example load -- closed 8090 64 10       # 64 connections, each as fast as it can
//! cargo run --release -p clef-http --example load -- open 8090 16 10 4000    # 4,000 requests a second, evenly
//! ```
//!
//! An open run measures from when a request was due, not from when it could be sent, so a server that falls behind is
//! seen to. All traffic goes to 127.0.0.1.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

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
        "closed" => clef_http::runtime(None)?.block_on(closed(port, number(2)?, number(3)?)),
        "open" => open(port, number(2)?, number(3)?, number(4)?),
        other => Err(format!("`{other}` is neither serve, closed nor open").into()),
    }
}

async fn serve(port: u16) -> Result<(), Failed> {
    let config = ServerConfig { listen: Listen::new("127.0.0.1", port), metrics: true, ..ServerConfig::default() };
    let server = Server::bind(config).await?;
    let handle = server.handle();
    let engine = EngineConfig { queue_capacity: 4_096, encode_threads: 1, ..EngineConfig::default() };
    let engine = Engine::start(FakeEncoder { limit: 1 << 20 }, FakeModel::default(), &engine)?;
    handle.set_model(Model { engine, card: ModelCard::default(), text: None });
    tokio::spawn(handle.end_on_signals());
    println!("listening on {}", server.local_address());
    server.run().await?;
    Ok(())
}

/// Sends requests for some seconds, on each connection as fast as answers come, and prints rate and times.
async fn closed(port: u16, connections: usize, seconds: usize) -> Result<(), Failed> {
    let end = Instant::now() + Duration::from_secs(seconds as u64);
    let client = || async move {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut times = Vec::new();
        while Instant::now() < end {
            let start = Instant::now();
            ask(&mut stream).await?;
            times.push(start.elapsed());
        }
        Ok::<_, Failed>(times)
    };
    let clients: Vec<_> = (0..connections).map(|_| tokio::spawn(client())).collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await??);
    }
    print(connections, seconds, times);
    Ok(())
}

/// Sends `rate` requests a second, evenly, from a thread for each connection: the timers of a runtime tick in
/// milliseconds, and what is measured is less.
fn open(port: u16, connections: usize, seconds: usize, rate: usize) -> Result<(), Failed> {
    let start = std::time::Instant::now();
    let client = move |index: usize| {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let (mut times, mut from_sending) = (Vec::new(), Vec::new());
        for number in (index..rate * seconds).step_by(connections) {
            let due = start + Duration::from_secs_f64(number as f64 / rate as f64);
            std::thread::sleep(due.saturating_duration_since(std::time::Instant::now()));
            let late = due.elapsed();
            ask_blocking(&mut stream)?;
            times.push(due.elapsed());
            from_sending.push(due.elapsed() - late);
        }
        Ok::<_, Failed>((times, from_sending))
    };
    let clients: Vec<_> = (0..connections).map(|index| std::thread::spawn(move || client(index))).collect();
    let (mut times, mut from_sending) = (Vec::new(), Vec::new());
    for client in clients {
        let (client_times, client_from_sending) = client.join().map_err(|_| "a client panicked")??;
        times.extend(client_times);
        from_sending.extend(client_from_sending);
    }
    print(connections, seconds, times);
    println!("the same from when they were sent, for threads may wake late to send:");
    print(connections, seconds, from_sending);
    Ok(())
}

fn print(connections: usize, seconds: usize, mut times: Vec<Duration>) {
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
}

fn request() -> String {
    format!(
        "POST /v1/systemone HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    )
}

/// Answers end with the two braces of `usage` and of the whole.
fn is_whole(answer: &[u8]) -> bool {
    answer.ends_with(b"}}")
}

fn ask_blocking(stream: &mut std::net::TcpStream) -> Result<(), Failed> {
    use std::io::{Read as _, Write as _};
    stream.write_all(request().as_bytes())?;
    let mut buffer = [0; 4_096];
    let mut read = 0;
    while !is_whole(&buffer[..read]) {
        match stream.read(&mut buffer[read..])? {
            0 => return Err("the server closed the connection".into()),
            count => read += count,
        }
    }
    check(&buffer[..read])
}

fn check(answer: &[u8]) -> Result<(), Failed> {
    if answer.starts_with(b"HTTP/1.1 200") { Ok(()) } else { Err(String::from_utf8_lossy(answer).into_owned().into()) }
}

async fn ask(stream: &mut TcpStream) -> Result<(), Failed> {
    stream.write_all(request().as_bytes()).await?;
    let mut buffer = [0; 4_096];
    let mut read = 0;
    while !is_whole(&buffer[..read]) {
        match stream.read(&mut buffer[read..]).await? {
            0 => return Err("the server closed the connection".into()),
            count => read += count,
        }
    }
    check(&buffer[..read])
}
